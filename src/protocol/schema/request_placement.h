// Fields that all routes with inference share: request id, priority, deadline. Pure.
#pragma once

#include <string>

#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

struct ParseOptions {
  bool strict = false;  // unknown fields are 400 unknown_parameter
  TimePoint now{};      // deadline_ms counts from here
  Duration deadline_cap = std::chrono::hours(24);
};

struct Placement {
  std::string request_id;  // "" = none was given
  std::string service_tier = "auto";
  api::Priority priority = api::Priority::kInteractive;
  TimePoint deadline = TimePoint::max();
};

// Reads request_id, service_tier, priority and deadline_ms of an object whose scope has them.
Result<Placement> ReadPlacement(const CheckedObject& object, const ParseOptions& options);

// [A-Za-z0-9._-], 1..128 bytes.
bool IsRequestId(std::string_view id);

}  // namespace tutti::protocol
