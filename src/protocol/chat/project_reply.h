// Outbound payloads of the MQTT project profile. Pure functions.
//
// A reply is plain text, which older clients print as it is, or one object with `reply_format =
// "json"`. A streamed reply is a sequence of chunks followed by the whole text. An error always has
// the envelope {"error": {...}}, so that clients cannot mistake it for an answer. `seq` is the
// number of the turn in its session, from 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/types.h"
#include "base/status.h"
#include "protocol/chat/project.h"

namespace tutti::protocol {

// One chunk of a streamed reply: `index` counts from 0 without gaps, and all texts together are the
// whole.
std::string ProjectChunkJson(const ProjectReply& reply, int64_t seq, int64_t index,
                             std::string_view text);

// The whole reply; `index` of a streamed one is one more than that of its last chunk.
std::string ProjectReplyJson(const ProjectReply& reply, int64_t seq, std::optional<int64_t> index,
                             std::string_view text, const api::Usage& usage);

// {"error":{"code","message","param"?,"retry_after_ms"?,"requestId"?}}
std::string ProjectErrorJson(const ProjectReply& reply, const Status& error);

// {"type":"ack","op":"clear","session_id":...,"seq":...}: the verb has been carried out, after turn
// `seq` of the session; with all sessions, after none in particular (0).
std::string ProjectAckJson(const ProjectReply& reply, ProjectOp op, int64_t seq);

// {project}/status; also the payload of a Will.
std::string ProjectStatusJson(std::string_view service, bool online, int64_t now_s);

}  // namespace tutti::protocol
