// Payloads of the MQTT project profile, for older clients. Parsing always yields a reply address,
// so that every message can be answered. Pure functions.
//
//   {project}/user_input                                  a message
//   {project}/template|clear|delete[/{session}]           a verb on one session, or on all
//   {project}/state                                       the state of an application
//   {project}/assistant_response/{session}[/{client}/{request}]   replies
//
// A project is one level of a topic. Ids of sessions, clients and requests are the clients' own
// words: any text that a topic can have as a level.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// --- in ---

enum class ProjectChannel { kUserInput, kTemplate, kClear, kDelete, kState };

struct ProjectTopic {
  ProjectChannel channel = ProjectChannel::kUserInput;
  std::string session;  // of a verb's topic; empty: not named
};
// nullopt if the server does not subscribe to the topic for this project.
std::optional<ProjectTopic> ParseProjectTopic(std::string_view project, std::string_view topic);

// Reply address and the ids that the answer repeats. Always valid, also for a refused payload: the
// ids that can be read are used.
struct ProjectReply {
  std::string topic;                        // below {project}/assistant_response/
  std::string session, client, request_id;  // client and request: empty where not given
};

// Whether answers of `session` may go to `topic`: its own topic, or one below it, so that no client
// can make the server write to topics of others. Error: invalid_value, of `param`.
Status CheckProjectReplyTopic(std::string_view project, std::string_view session,
                              std::string_view topic, std::string param);

struct ProjectMessage {
  std::string text;                          // not blank
  std::optional<std::string> system_prompt;  // of this turn only
  api::SamplingParams sampling;              // with the profile's defaults
  std::vector<std::string> ignored;          // unknown fields
};

struct ReceivedMessage {
  ProjectReply reply;
  Result<ProjectMessage> message;
};
// {project}/user_input. What is no JSON, and no list, is the message itself. Without a session it
// belongs to "default-" and `random` (eight characters that the caller draws).
// Errors: empty_message; those of the schema; invalid_value for ids that are no level of a topic,
// and for a replyTopic that is not the session's.
ReceivedMessage ParseProjectMessage(std::string_view project, std::string_view payload,
                                    std::string_view random, const ParseOptions& options);

enum class ProjectOp { kTemplate, kClear, kDelete };
std::string_view ProjectOpName(ProjectOp op);  // "clear"

struct ProjectVerb {
  ProjectOp op = ProjectOp::kClear;
  std::string session;                       // empty: all of the project
  std::optional<std::string> system_prompt;  // of template; absent: restores the project's
  bool clears = false;                       // of template: also clears the history
  std::vector<std::string> ignored;
};

struct ReceivedVerb {
  ProjectReply reply;  // its session is "all" for all sessions
  Result<ProjectVerb> verb;
};
// `topic_session`: of the topic; empty: none. Topic and payload must not name two sessions. An
// empty payload is that of {}.
ReceivedVerb ParseProjectVerb(std::string_view project, ProjectOp op,
                              std::string_view topic_session, std::string_view payload,
                              const ParseOptions& options);

// --- out ---
//
// A reply is plain text, which older clients print as it is, or one object with `reply_format =
// "json"`. A streamed reply is a sequence of chunks followed by the whole text. An error always has
// the envelope {"error": {...}}, so that clients cannot mistake it for an answer. `seq` is the
// number of the turn in its session, from 1.

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
