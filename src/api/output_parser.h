// OutputParser: streaming parser that separates tool calls and, in some formats, reasoning from the
// text of a model.
//
// Each choice of a request has one parser, owned by the request's TokenStream and called by the
// stream's writer only. The concatenated output does not depend on how the text is split into
// deltas.
#pragma once

#include <string_view>

#include "api/types.h"

namespace tutti::api {

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

}  // namespace tutti::api
