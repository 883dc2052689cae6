// Descriptor: owns an open file descriptor. Movable; thread rules are the owner's.
#pragma once

#include <unistd.h>

#include <utility>

namespace tutti {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}  // negative: none
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }  // the caller closes it

 private:
  int fd_;
};

}  // namespace tutti
