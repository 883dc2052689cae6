// A receiver of POSTs on this machine, whose answers each test defines.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "loopback_listener.h"

namespace tutti::post {

// Takes one request a connection and answers with what `answer` gives for its number; "" = nothing.
class Receiver {
 public:
  explicit Receiver(std::function<std::string(size_t)> answer) : answer_(std::move(answer)) {
    listener_ = support::ListenOnLoopback(&port_);
    thread_ = std::thread([this] { Main(); });
  }
  ~Receiver() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  std::string origin() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string url() const { return origin() + "/hook?a=b"; }
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void Main() {
    while (true) {
      const int peer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (peer < 0) return;
      const timeval patience{.tv_sec = 2, .tv_usec = 0};
      setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      std::string text;
      char buffer[4096];
      size_t wanted = std::string::npos;
      while (text.size() < wanted) {
        const ssize_t got = read(peer, buffer, sizeof buffer);
        if (got <= 0) break;
        text.append(buffer, static_cast<size_t>(got));
        const size_t head = text.find("\r\n\r\n");
        const size_t length = text.find("Content-Length: ");
        if (head != std::string::npos && length != std::string::npos)
          wanted = head + 4 + static_cast<size_t>(std::stoi(text.substr(length + 16)));
      }
      size_t number = 0;
      {
        const std::lock_guard lock(mutex_);
        number = requests_.size();
        requests_.push_back(text);
      }
      const std::string answer = answer_(number);
      if (answer.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(400));
      (void)!write(peer, answer.data(), answer.size());
      close(peer);
    }
  }

  const std::function<std::string(size_t)> answer_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

inline std::string Answer(const std::string& status, const std::string& fields = "") {
  return "HTTP/1.1 " + status + "\r\n" + fields + "Content-Length: 0\r\n\r\n";
}

inline std::string Field(const std::string& request, const std::string& name) {
  const size_t at = request.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 4;
  return request.substr(begin, request.find("\r\n", begin) - begin);
}

}  // namespace tutti::post
