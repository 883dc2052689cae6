// RedisServer: a real redis-server for one test, on 127.0.0.1 at a port of its own, that keeps
// nothing on the disk. Killed with the object, and with the thread that made it. One thread.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "redis/connection.h"
#include "temp_folder.h"

namespace tutti::redis::testing {

inline int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK_GE(fd, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  CHECK_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  CHECK_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

class RedisServer {
 public:
  // `more`: additional arguments. Ends the test program if there is no redis-server.
  explicit RedisServer(std::vector<std::string> more = {}) : more_(std::move(more)) { Start(); }
  ~RedisServer() { Kill(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  int port() const { return port_; }
  RedisUrl url() const { return {.user = "", .host = "127.0.0.1", .port = port_, .database = 0}; }
  // A new connection for the test.
  std::unique_ptr<Connection> Connect() const {
    return std::move(Connection::Open({.url = url(), .password = "", .reply = {}})).value();
  }

  void Pause() { CHECK_EQ(kill(pid_, SIGSTOP), 0); }  // accepts connections, answers none
  void Continue() { CHECK_EQ(kill(pid_, SIGCONT), 0); }
  void Kill() {
    if (pid_ < 0) return;
    (void)kill(pid_, SIGKILL);
    (void)waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Starts again at the same port, without data.
  void Start() {
    CHECK_LT(pid_, 0);
    for (int attempt = 0; attempt < 5; ++attempt) {
      // Another process may have taken the port.
      if (port_ == 0 || attempt > 0) port_ = FreePort();
      Spawn();
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (std::chrono::steady_clock::now() < end && waitpid(pid_, nullptr, WNOHANG) == 0) {
        if (Answers()) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      Kill();
    }
    CHECK(false) << "redis-server does not start (apt-get install redis-server); log: "
                 << folder_.File("log");
  }

 private:
  void Spawn() {
    std::vector<std::string> words = {
        "redis-server", "--port", std::to_string(port_), "--bind",    "127.0.0.1",
        "--save",       "",       "--appendonly",        "no",        "--daemonize",
        "no",           "--dir",  folder_.path(),        "--logfile", folder_.File("log")};
    words.insert(words.end(), more_.begin(), more_.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    CHECK_GE(pid_, 0);
    if (pid_ > 0) return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)execvp(arguments[0], arguments.data());
    _exit(127);
  }
  bool Answers() const {
    const Status status = Connection::Open({.url = url(), .password = "", .reply = {}}).status();
    return status.ok() || status.reason() == "redis_refused";  // it may require a password
  }

  const support::TempFolder folder_;
  const std::vector<std::string> more_;
  int port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace tutti::redis::testing
