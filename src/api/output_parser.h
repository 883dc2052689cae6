// OutputParser: takes what a client is to see apart out of a model's text as it streams: tool calls
// and, for some formats, reasoning.
//
// One for each choice of a request, owned by its TokenStream and called by that stream's writer
// alone. However the text is cut into deltas, the concatenated output is the same.
#pragma once

#include <string_view>

#include "api/types.h"

namespace tutti::api {

class OutputParser {
 public:
  virtual ~OutputParser() = default;
  // Appends what is ready to the event's text, reasoning and tool calls.
  virtual void Push(std::string_view delta, StreamEvent* event) = 0;
  // What comes next is reasoning. Its tokens are counted, whether it is shown or not.
  virtual bool inside_reasoning() const { return false; }
  // The end of the choice: what was held back comes out, and the event's finish_reason tells of
  // calls.
  virtual void Finish(StreamEvent* event) = 0;
};

}  // namespace tutti::api
