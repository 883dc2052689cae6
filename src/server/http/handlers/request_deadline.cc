#include "server/http/handlers/request_deadline.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace tutti::http {

Result<TimePoint> HeaderDeadline(const HttpRequest& request, TimePoint start, Duration cap) {
  const std::string* text = request.Find("x-request-timeout-ms");
  if (text == nullptr) return TimePoint::max();
  const bool digits =
      !text->empty() && text->size() <= 12 &&
      std::all_of(text->begin(), text->end(), [](char c) { return c >= '0' && c <= '9'; });
  const int64_t ms = digits ? std::stoll(*text) : 0;
  if (ms < 1) {
    return InvalidArgument("invalid_value",
                           "X-Request-Timeout-Ms must be a positive number of milliseconds")
        .WithParam("X-Request-Timeout-Ms");
  }
  return start + std::min<Duration>(std::chrono::milliseconds(ms), cap);
}

}  // namespace tutti::http
