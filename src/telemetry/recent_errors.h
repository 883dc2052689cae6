// RecentErrors: the last errors that the servers of a process sent to clients, for operators.
//
// Made by the composition root; any thread. It holds no bytes of clients: messages of errors that
// are the client's fault may quote a request, and are left out; of others, quoted parts are.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace tutti::telemetry {

struct RecentError {
  int64_t unix_ms = 0;
  std::string request_id = {};
  std::string route = {};  // of the server: "/v1/chat/completions", "-" if there is none
  std::string code = {};
  int status = 0;  // of HTTP
  std::string message = {};
};

class RecentErrors {
 public:
  // Number of kept errors of the server (status 500 and above, and 429), and the same of clients: a
  // flood of the latter must not hide the former.
  static constexpr size_t kKept = 50;
  static constexpr size_t kMaxMessageBytes = 200;

  // `error.message` is the one that the client gets.
  void Add(RecentError error);
  std::vector<RecentError> Read() const;  // oldest first

 private:
  mutable Mutex mutex_;
  std::array<std::deque<RecentError>, 2> kept_ GUARDED_BY(mutex_);
};

// `message` without its quoted parts, with '?' for bytes that are not printable ASCII, and cut.
std::string WithoutQuotes(std::string_view message, size_t max_bytes);

}  // namespace tutti::telemetry
