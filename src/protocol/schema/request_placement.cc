#include "protocol/schema/request_placement.h"

#include <algorithm>

#include "api/validate.h"

namespace tutti::protocol {

bool IsRequestId(std::string_view id) {
  return !id.empty() && id.size() <= api::kMaxRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

Result<Placement> ReadPlacement(const CheckedObject& object, const ParseOptions& options) {
  Placement placement;
  placement.service_tier = object.Text("service_tier").value_or("auto");
  // vLLM's priority is a number, lower first; here it picks a priority class.
  if (placement.service_tier == "flex" || object.Int("priority").value_or(0) > 0)
    placement.priority = api::Priority::kFlex;
  placement.request_id = object.Text("request_id").value_or("");
  if (!placement.request_id.empty() && !IsRequestId(placement.request_id)) {
    return InvalidArgument("invalid_value", "request_id may hold letters, digits, '.', '_' and '-'")
        .WithParam("request_id");
  }
  if (const std::optional<int64_t> ms = object.Int("deadline_ms"); ms.has_value()) {
    placement.deadline =
        options.now + std::min<Duration>(std::chrono::milliseconds(*ms), options.deadline_cap);
  }
  return placement;
}

}  // namespace tutti::protocol
