// A blocking TCP client for tests: bytes out, responses in. Nothing is corrected or hidden.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "cpu_time.h"

namespace tutti::http::testing {

// How long a test waits for what must come; sanitizers make large requests slow.
inline const int kPatienceMs = support::kSlower > 1 ? 30'000 : 5'000;

struct RawResponse {
  int status = 0;
  std::string head;  // status line and fields
  std::string body;  // chunks joined
  bool complete = false;

  // Value of a field, "" when absent.
  std::string Header(std::string_view name) const {
    std::string wanted = "\r\n" + std::string(name) + ":";
    const auto same = [](char a, char b) { return tolower(a) == tolower(b); };
    const auto at = std::search(head.begin(), head.end(), wanted.begin(), wanted.end(), same);
    if (at == head.end()) return "";
    const auto start = at + static_cast<long>(wanted.size());
    std::string value(start, std::find(start, head.end(), '\r'));
    value.erase(0, value.find_first_not_of(' '));
    return value;
  }
};

class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0)
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }

  // False when the server has closed before all was taken.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Reads more bytes into the buffer; false at the end of the connection or after the timeout.
  bool Fill(int timeout_ms = kPatienceMs) {
    pollfd p{fd_, POLLIN, 0};
    if (poll(&p, 1, timeout_ms) <= 0) return false;
    char chunk[16384];
    const ssize_t got = recv(fd_, chunk, sizeof chunk, 0);
    if (got <= 0) {
      closed_ = true;
      return false;
    }
    buffer_.append(chunk, static_cast<size_t>(got));
    return true;
  }
  // Everything until the server closes (or nothing comes for the time given).
  std::string ReadAll(int timeout_ms = kPatienceMs) {
    while (Fill(timeout_ms)) {
    }
    return std::exchange(buffer_, "");
  }
  // Reads until `text` has arrived; everything read stays in the buffer.
  bool WaitFor(std::string_view text, int timeout_ms = kPatienceMs) {
    while (buffer_.find(text) == std::string::npos) {
      if (!Fill(timeout_ms)) return false;
    }
    return true;
  }

  RawResponse Read(bool head_only = false, int timeout_ms = kPatienceMs) {
    RawResponse response;
    size_t end = 0;
    while (true) {
      while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
        if (!Fill(timeout_ms)) return response;
      }
      response.head = buffer_.substr(0, end + 2);
      buffer_.erase(0, end + 4);
      response.status = atoi(response.head.substr(9, 3).c_str());
      if (response.status != 100) break;
    }
    const std::string length = response.Header("content-length");
    if (head_only || response.status == 204 || response.status == 304) {
      response.complete = true;
    } else if (!length.empty()) {
      const auto size = static_cast<size_t>(atoll(length.c_str()));
      while (buffer_.size() < size && Fill(timeout_ms)) {
      }
      response.complete = buffer_.size() >= size;
      response.body = buffer_.substr(0, size);
      buffer_.erase(0, std::min(size, buffer_.size()));
    } else if (response.Header("transfer-encoding") == "chunked") {
      response.complete = ReadChunks(&response.body, timeout_ms);
    } else {
      response.body = ReadAll(timeout_ms);
      response.complete = closed_;
    }
    return response;
  }

  bool closed() const { return closed_; }
  // True when the server closes within the time.
  bool WaitClosed(int timeout_ms = kPatienceMs) {
    while (Fill(timeout_ms)) {
    }
    return closed_;
  }
  std::string& buffer() { return buffer_; }
  int fd() const { return fd_; }
  void ShutdownSend() { shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void Reset() {
    const linger hard{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    Close();
  }

 private:
  bool ReadChunks(std::string* body, int timeout_ms) {
    while (true) {
      size_t eol = 0;
      while ((eol = buffer_.find("\r\n")) == std::string::npos) {
        if (!Fill(timeout_ms)) return false;
      }
      const size_t size = std::stoul(buffer_.substr(0, eol), nullptr, 16);
      while (buffer_.size() < eol + 2 + size + 2) {
        if (!Fill(timeout_ms)) return false;
      }
      body->append(buffer_, eol + 2, size);
      buffer_.erase(0, eol + 2 + size + 2);
      if (size == 0) return true;
    }
  }

  int fd_ = -1;
  bool connected_ = false, closed_ = false;
  std::string buffer_;
};

}  // namespace tutti::http::testing
