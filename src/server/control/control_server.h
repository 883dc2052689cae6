// ControlServer: a Unix socket, `control.sock` in the store's folder, through which the operator's
// commands on this machine call the server that holds the store.
//
// A client sends one request per line and receives one line per answer, in order. Only processes of
// the same user and of root are served. Owner: the process that holds the store's lock, for as long
// as it holds it. The handler runs on the server's own thread.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/status.h"

namespace tutti::control {

class ControlServer {
 public:
  struct Limits {
    size_t clients = 64;  // connected at once; one more replaces the client that was silent longest
    size_t request_bytes = 64 << 10;  // a longer request ends the connection
    int silence_ms = 10'000;          // without a read or a write, then the connection ends
  };
  // Maps a request to its answer; both without the line break.
  using Handler = std::function<std::string(std::string_view request)>;

  // Replaces a socket file that an earlier process left. Errors: control_failed.
  static Result<std::unique_ptr<ControlServer>> Open(const std::string& folder, Handler handler,
                                                     const Limits& limits);
  static Result<std::unique_ptr<ControlServer>> Open(const std::string& folder, Handler handler) {
    return Open(folder, std::move(handler), Limits());
  }
  ~ControlServer();  // finishes the answer in progress; deletes the socket
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  ControlServer(std::string path, int listener, int stop, Handler handler, const Limits& limits);
  using Steady = std::chrono::steady_clock;
  struct Client {
    Client(int own, Steady::time_point now) : fd(own), heard(now) {}
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    const int fd;  // its own
    Steady::time_point heard;
    std::string input = {};  // incomplete line
  };

  std::chrono::milliseconds silence() const {
    return std::chrono::milliseconds(limits_.silence_ms);
  }
  void Main();
  void Accept(std::list<Client>& clients);
  bool Serve(Client& client);  // answers the complete lines; false: the client is closed
  // Waits for `events` on `fd`; false on timeout and when the server ends.
  bool Await(int fd, short events, int wait_ms) const;
  bool Send(int fd, std::string_view bytes) const;

  const std::string path_;
  const int listener_, stop_;  // stop_: an eventfd, readable from the end on
  const Handler handler_;
  const Limits limits_;
  std::thread thread_;
};

}  // namespace tutti::control
