#include "server/http/handlers/request_fields.h"

#include <chrono>

namespace tutti::http {

Result<TimePoint> HeaderDeadline(Connection& connection) {
  const std::string* text = connection.request().Find("x-request-timeout-ms");
  if (text == nullptr) return TimePoint::max();
  const bool digits =
      !text->empty() && text->size() <= 12 &&
      std::all_of(text->begin(), text->end(), [](char c) { return c >= '0' && c <= '9'; });
  const int64_t ms = digits ? std::stoll(*text) : 0;
  if (ms < 1) {
    return BadValue("X-Request-Timeout-Ms",
                    "X-Request-Timeout-Ms must be a positive number of milliseconds");
  }
  return connection.request_context().start() +
         std::min<Duration>(std::chrono::milliseconds(ms),
                            connection.context().options.limits.deadline_cap);
}

Result<std::string> ReadIdempotencyKey(const HttpRequest& request) {
  constexpr size_t kMaxKeyBytes = 255;
  const std::string* const field = request.Find(kIdempotencyKey);
  if (field == nullptr) return std::string();
  const bool printable =
      std::all_of(field->begin(), field->end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (field->empty() || field->size() > kMaxKeyBytes || !printable ||
      request.Count(kIdempotencyKey) > 1) {
    return BadValue("Idempotency-Key",
                    "Idempotency-Key must be 1 to 255 printable characters, once");
  }
  return *field;
}

}  // namespace tutti::http
