// Tool calls while a model's text streams: the interface of the parser that finds them, and how a
// reader puts them together.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "api/types.h"

namespace tutti::api {

// Streaming parser that separates tool calls and, in some formats, reasoning from the text of a
// model.
//
// Each choice of a request has one parser, owned by the request's TokenStream and called by the
// stream's writer only. The concatenated output does not depend on how the text is split into
// deltas.
class OutputParser {
 public:
  virtual ~OutputParser() = default;
  // Parses `delta` and appends complete output to the event's text, reasoning and tool calls.
  virtual void Push(std::string_view delta, StreamEvent* event) = 0;
  // True if the next text is reasoning. Reasoning tokens are counted even if they are hidden.
  virtual bool inside_reasoning() const { return false; }
  // Ends the choice: flushes text that was held back, and sets finish_reason if there were calls.
  virtual void Finish(StreamEvent* event) = 0;
};

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
