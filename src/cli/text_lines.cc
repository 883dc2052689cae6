#include "cli/text_lines.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/clock.h"

namespace tutti::cli {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;  // a pipe's
// A writer that produces line by line pauses for less than a forward pass between lines; a user who
// waits for an answer does not notice this delay.
constexpr std::chrono::milliseconds kLinger{2};

}  // namespace

TextLines::Found TextLines::TakeLine(std::string* line) {
  size_t end = input_.find('\n', looked_);
  if (end == std::string::npos) {
    looked_ = end = input_.size();
    if (end - begin_ > kMaxLineBytes) return Found::kTooLong;
    if (!ended_ || begin_ == end) return Found::kNone;
  }
  if (end - begin_ > kMaxLineBytes) return Found::kTooLong;
  *line = input_.substr(begin_, end - begin_);
  begin_ = looked_ = std::min(end + 1, input_.size());
  if (line->ends_with('\r')) line->pop_back();
  return Found::kLine;
}

bool TextLines::MoreComes(int wait_ms) const {
  pollfd ready = {fd_, POLLIN, 0};
  return poll(&ready, 1, wait_ms) > 0;
}

Status TextLines::Read() {
  input_.erase(0, begin_);
  looked_ -= begin_;
  begin_ = 0;
  const size_t before = input_.size();
  input_.resize(before + kReadBytes);
  ssize_t got = -1;
  while ((got = read(fd_, input_.data() + before, kReadBytes)) < 0) {
    if (errno == EAGAIN) MoreComes(-1);
    if (errno != EINTR && errno != EAGAIN) break;
  }
  const int error = errno;
  input_.resize(before + static_cast<size_t>(got < 0 ? 0 : got));
  if (got < 0)
    return Unavailable("io_error", std::string("cannot read the texts: ") + std::strerror(error));
  ended_ = got == 0;
  return OkStatus();
}

Result<std::vector<std::string>> TextLines::Next(size_t most) {
  std::vector<std::string> lines;
  size_t bytes = 0;
  const SteadyClock clock;
  TimePoint limit{};
  while (lines.size() < most && bytes < kGroupBytes) {
    std::string line;
    const Found found = TakeLine(&line);
    if (found == Found::kLine) {
      bytes += line.size();
      lines.push_back(std::move(line));
      continue;
    }
    if (found == Found::kTooLong && lines.empty())
      return InvalidArgument("invalid_value", "is longer than 1 MiB");
    if (found == Found::kTooLong || ended_) return lines;
    if (!lines.empty()) {
      if (limit == TimePoint()) limit = clock.Now() + kLinger;
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - clock.Now());
      if (!MoreComes(static_cast<int>(std::max<int64_t>(0, left.count())))) return lines;
    }
    RETURN_IF_ERROR(Read());
  }
  return lines;
}

}  // namespace tutti::cli
