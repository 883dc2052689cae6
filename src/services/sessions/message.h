// What a client says to a dialog, and what it is told at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "services/responses/response.h"
#include "services/sessions/context_window.h"
#include "services/sessions/turn_queue.h"
#include "wire/response_state.h"

namespace tutti::sessions {

using Admitted = std::function<void()>;

struct Message {
  // The client's, at most 128 bytes: the same again is the same turn, and refused with
  // idempotency_key_mismatch where it says something else (fingerprint.h). Empty: none.
  std::string id;
  std::vector<api::ChatMessage> input;  // at least one
  // Whose its dialog becomes if it is the first there; empty: OwnerOf() the key (dialog_quota.h).
  std::string owner = {};
  // Model, sampling, deadline, priority; of its prompt the template's options and the tools alone.
  api::GenerateRequest request;
  // The skeleton of the response: model, metadata, store...; ids and times are given here.
  wire::ResponseState state;
  std::optional<std::string> system_prompt;  // of this turn only
  BusyPolicy policy = BusyPolicy::kEnqueue;
  bool parallel = false;                // runs beside others that say so (session.order = parallel)
  std::optional<ContextWindow> window;  // of the prompt; absent: the service's
  // Of a client that keeps no connection: what it knows of the dialog. Where it has changed, or is
  // about to, the message is refused.
  std::optional<int64_t> expected_version;           // else version_mismatch
  std::optional<std::string> expected_last_item_id;  // else stale_item
  // Of a sender that keeps no connection: where its answer belongs, in the door's own words, at
  // most 16 KiB. Kept beside the message until Sessions::Arrived(), so that the process after this
  // one can tell it. Empty: its sender asks.
  std::string reply_to;
  // Asked once, on the strand, when nothing of the dialog's is against it and before it is durable:
  // whether its sender may say one more thing. Not of a message that is repeated. An error refuses
  // it. What it gives is called when the message is accepted, and goes uncalled if it is refused
  // after all.
  std::function<Result<Admitted>()> admit;
};

// The message is durable and will be answered exactly once.
struct Acceptance {
  int64_t turn = 0;
  std::string response_id;
  size_t position = 0;    // turns that must end first
  bool repeated = false;  // its id was known: this is the turn of then
  // Null: of a repeated one that ended some time ago; Responses::Find() may still have it.
  std::shared_ptr<responses::Response> response;
};

}  // namespace tutti::sessions
