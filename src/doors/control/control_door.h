// ControlDoor: `control.sock` in the store's folder, through which the commands of this machine's
// operator ask the server that holds the store.
//
// A connection sends lines and gets a line for each, one after the other, on one thread.
// Only processes of this user and of root are answered. Owner: the process that holds the store's
// lock, for as long as it does; the handler runs on the door's own thread.
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

class ControlDoor {
 public:
  struct Limits {
    size_t clients = 64;  // connected at once; for one more, who was silent longest leaves
    size_t request_bytes = 64 << 10;  // more: the connection ends
    int silence_ms = 10'000;          // of a client that neither sends nor reads: likewise
  };
  // A request without its line break, to the answer without one.
  using Handler = std::function<std::string(std::string_view request)>;

  // Takes the place of a socket that was left behind. Errors: control_failed.
  static Result<std::unique_ptr<ControlDoor>> Open(const std::string& folder, Handler handler,
                                                   const Limits& limits);
  static Result<std::unique_ptr<ControlDoor>> Open(const std::string& folder, Handler handler) {
    return Open(folder, std::move(handler), Limits());
  }
  ~ControlDoor();  // the answer in progress is finished; the socket goes
  ControlDoor(const ControlDoor&) = delete;
  ControlDoor& operator=(const ControlDoor&) = delete;

 private:
  ControlDoor(std::string path, int listener, int stop, Handler handler, const Limits& limits);
  using Steady = std::chrono::steady_clock;
  struct Client {
    Client(int own, Steady::time_point now) : fd(own), heard(now) {}
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    const int fd;  // its own
    Steady::time_point heard;
    std::string input = {};  // what came without its line break
  };

  std::chrono::milliseconds silence() const {
    return std::chrono::milliseconds(limits_.silence_ms);
  }
  void Main();
  void Accept(std::list<Client>& clients);
  bool Serve(Client& client);  // of what has come; false: it leaves
  // Whether there is something to do on `fd`; false also at the end of this door.
  bool Await(int fd, short events, int wait_ms) const;
  bool Send(int fd, std::string_view bytes) const;

  const std::string path_;
  const int listener_, stop_;  // stop_: an eventfd, readable from the end on
  const Handler handler_;
  const Limits limits_;
  std::thread thread_;
};

}  // namespace tutti::control
