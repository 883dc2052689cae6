// Responses API, inbound: parses the body of POST /v1/responses to a ResponsesCall. Pure.
//
// A call requests one turn. With `conversation` or `previous_response_id` the turn belongs to a
// stored dialog: the service that stores it inserts the dialog between instructions and input, and
// the prompt here holds only the messages of the call itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/json/metadata.h"
#include "protocol/responses/input_items.h"
#include "protocol/schema/checked_object.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {

struct ResponsesCall {
  api::GenerateRequest request;             // its prompt: the instructions, then the input
  std::vector<InputItem> input;             // what is appended to the dialog, at least one
  std::optional<std::string> instructions;  // of this turn only, never stored as an item
  std::string model;                        // as asked; empty = the default model
  std::string message_id;  // the client's; the same id again is the same turn. Empty: none
  std::string policy;      // the name of a BusyPolicy; empty: the dialog's own
  std::string previous_response_id, conversation;    // at most one; empty: none
  std::optional<std::string> expected_last_item_id;  // of the conversation, else stale_item
  bool truncate = false;  // leave out the oldest turns of a dialog that is too long, else refuse
  std::optional<int> max_prompt_tokens;  // a longer dialog is too long; absent: the server's choice
  bool background = false;               // answer at once; the response outlives its connection
  bool store = true;                     // can be asked for later
  bool stream = false;
  bool obfuscation = false;              // random padding of deltas
  std::string service_tier = "default";  // echoed
  Metadata metadata;
  std::vector<std::string> ignored;  // unknown fields, for x-tutti-ignored
};

// Errors: those of the schema; unsupported_parameter for what would change the answer and is not
// implemented; empty_prompt; invalid_value for fields that exclude or need each other.
// `scope`: kSocketCreate where the body stands in a message.
Result<ResponsesCall> ParseResponses(const Json& body, const ParseOptions& options,
                                     Scope scope = kResponses);

// Reads the fields that all requests for a turn share: input, instructions, sampling, priority,
// deadline. `object` has been checked against a scope of kTurn.
Status ReadTurn(const CheckedObject& object, const ParseOptions& options, IgnoredFields* ignored,
                ResponsesCall* call);

}  // namespace tutti::protocol
