// Anthropic's Messages API, outbound: stream events -> a message object or its named server-sent
// events. Pure; one object per call, as all writers of openai_response.h.
//
// An answer is a list of blocks: what the model thought, its text, its tool calls. A block begins
// where an event has another kind of content than the one before, so that a whole answer has the
// same blocks as the stream.
#pragma once

#include <memory>

#include "wire/openai_request.h"
#include "wire/openai_response.h"

namespace tutti::wire {

// What keeps a stream alive; its clients know it as an event that means nothing.
inline constexpr std::string_view kMessagesPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

// `call` is of ParseMessages: one request, one choice.
std::unique_ptr<ResponseWriter> MakeMessagesWriter(const GenerationCall& call, ResponseHead head);

}  // namespace tutti::wire
