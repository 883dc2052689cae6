// One answer under way, as the strand sees it. Internal to Responses.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "api/token_stream.h"
#include "services/responses/response_writer.h"
#include "services/responses/responses.h"

namespace tutti::responses {

// What somebody did to an answer under way.
enum class Cut {
  kNone,
  kCancel,
  kSteer,  // it ends where it was, because its dialog goes on elsewhere
};

struct Responses::Active {
  explicit Active(std::shared_ptr<Response> response) : writer(std::move(response)) {}

  ResponseWriter writer;
  api::Generation generation;    // empty: it never ran
  TurnHooks hooks;               // of a turn
  std::function<void()> cancel;  // of a turn that does not run
  DroppedContext dropped;        // likewise: what its prompt leaves out
  bool durable = false;          // its end goes to the store
  bool shown = true;             // its request is durable: what it says may be shown
  Cut cut = Cut::kNone;          // by somebody; else the engine's reasons are a failure
  bool deleted = false;          // by its owner: the store keeps nothing of it
  api::FinishReason finish = api::FinishReason::kStop;
};

// How a generation ended, as a response: what the engine's status and reason mean.
wire::ResponseState EndOf(const Response& response, const api::TokenStream& stream,
                          const api::StreamEvent& end, api::FinishReason finish, Cut cut,
                          int64_t now_s);
wire::ResponseState Steered(wire::ResponseState state);
wire::ResponseState Failed(wire::ResponseState state, const Status& why);

}  // namespace tutti::responses
