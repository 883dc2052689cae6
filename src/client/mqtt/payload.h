// Readers of payloads and properties, for both profiles. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "mqtt/packet.h"

namespace tutti::client {

// The payload as an object; an empty one for anything else.
boost::json::object ObjectOf(std::string_view payload);
// Members of an object; absent or of another kind: "", nothing.
std::string TextAt(const boost::json::object& object, std::string_view name);
std::optional<int64_t> NumberAt(const boost::json::object& object, std::string_view name);
const boost::json::object* ObjectAt(const boost::json::object& object, std::string_view name);

// The texts of the messages in a response object's output, one after the other; reasoning and calls
// are left out. Nothing: there is no message.
std::optional<std::string> OutputTextIn(const boost::json::object& response);

// A user property of a message, or "".
std::string PropertyOf(const mqtt::Publish& message, std::string_view name);

// {"code": ..., "message": ..., "retry_after_ms": ...} as a Status: its reason is the code.
Status ErrorIn(const boost::json::object& error);

// One level of a topic that a name may be; `what` for the message. Error: invalid_value.
Status CheckLevel(const std::string& name, const char* what);

}  // namespace tutti::client
