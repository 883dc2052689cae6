#include "server/http/handlers/idempotency_key.h"

#include <algorithm>

#include "protocol/json/field_error.h"

namespace tutti::http {
namespace {
constexpr size_t kMaxKeyBytes = 255;
}

Result<std::string> ReadIdempotencyKey(const HttpRequest& request) {
  const std::string* const field = request.Find(kIdempotencyKey);
  if (field == nullptr) return std::string();
  const bool printable =
      std::all_of(field->begin(), field->end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (field->empty() || field->size() > kMaxKeyBytes || !printable ||
      request.Count(kIdempotencyKey) > 1) {
    return protocol::BadValue("Idempotency-Key",
                              "Idempotency-Key must be 1 to 255 printable characters, once");
  }
  return *field;
}

}  // namespace tutti::http
