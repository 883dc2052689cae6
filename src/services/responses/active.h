// Strand-side state of a response that has not ended. Internal to Responses.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "api/token_stream.h"
#include "services/responses/call_state.h"
#include "services/responses/response_writer.h"
#include "services/responses/responses.h"
#include "services/responses/text_tokens.h"

namespace tutti::responses {

struct Responses::Active {
  explicit Active(std::shared_ptr<Response> response) : writer(std::move(response)) {}

  ResponseWriter writer;
  api::Generation generation;  // empty: it never ran
  TurnHooks hooks;             // of a turn
  CancelTurn cancel;           // of a turn
  DroppedContext dropped;      // of a turn: messages that its prompt omits
  bool durable = false;        // its end goes to the store
  bool shown = true;           // its request is durable: events may be shown
  Cut cut = Cut::kNone;        // by a caller; kNone: an engine error is a failure
  bool deleted = false;        // by its owner: the store keeps nothing of it
  api::FinishReason finish = api::FinishReason::kStop;
  TextTokens tokens;  // drawn and not in the log yet, if log-probabilities were asked for
};

}  // namespace tutti::responses
