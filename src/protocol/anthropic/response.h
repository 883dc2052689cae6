// Anthropic Messages API, outbound: renders stream events as a message object or as named
// server-sent events. Pure; one object per call, as all writers of response_writer.h.
//
// An answer is a list of blocks: reasoning, text, tool calls. A new block begins when an event has
// another kind of content than the one before, so that JSON and streamed answers have equal blocks.
#pragma once

#include <memory>

#include "protocol/openai/request.h"
#include "protocol/response_writer.h"

namespace tutti::protocol {

// The `ping` event, which keeps an idle stream open; clients ignore it.
inline constexpr std::string_view kMessagesPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

// `call` is of ParseMessages: one request, one choice.
std::unique_ptr<ResponseWriter> MakeMessagesWriter(const GenerationCall& call, ResponseHead head);

}  // namespace tutti::protocol
