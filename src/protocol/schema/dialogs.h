// Schema rows of dialogs: the Responses API, conversations and their export, and the payloads of
// both MQTT profiles.
#pragma once

#include <cstddef>
#include <vector>

#include "protocol/schema/schema.h"

namespace tutti::protocol {

inline constexpr double kIdBytes = 128;  // ids that clients give: messages, requests, sessions
inline constexpr size_t kMaxItemsAtOnce = 20;  // of a conversation, in one call
inline constexpr double kMaxPage = 100;        // items of one page of a list

std::vector<FieldSpec> DialogRows();

}  // namespace tutti::protocol
