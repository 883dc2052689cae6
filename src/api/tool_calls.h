// Assembles tool calls from the deltas of a stream.
#pragma once

#include <cstddef>
#include <vector>

#include "api/types.h"

namespace tutti::api {

// Appends the deltas of one choice, in the order of its events, to its calls. A template, because
// the library has its own delta and call types with the same members.
template <typename Delta, typename Call>
void AddCallDeltas(const std::vector<Delta>& deltas, std::vector<Call>* calls) {
  for (const Delta& delta : deltas) {
    const auto index = static_cast<size_t>(delta.index);
    if (index > calls->size()) continue;  // its first delta is missing
    if (index == calls->size()) calls->emplace_back();
    Call& call = (*calls)[index];
    call.id += delta.id;
    call.name += delta.name;
    call.arguments += delta.arguments;
  }
}

}  // namespace tutti::api
