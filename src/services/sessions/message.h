// Message: a client's message to a dialog. Acceptance: the immediate answer to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/responses/state.h"
#include "services/responses/response.h"
#include "services/sessions/context_window.h"
#include "services/sessions/turn_queue.h"

namespace tutti::sessions {

using Admitted = std::function<void()>;

struct Message {
  // Chosen by the client, at most 128 bytes. A repeated id with the same content returns the
  // existing turn; with other content it fails with idempotency_key_mismatch (fingerprint.h).
  // Empty: none.
  std::string id;
  std::vector<api::ChatMessage> input;  // at least one
  // Owner of the dialog if this message creates it; empty: OwnerOf() the key (dialog_quota.h).
  std::string owner = {};
  // Model, sampling, deadline, priority; of its prompt the template's options and the tools alone.
  api::GenerateRequest request;
  // The skeleton of the response: model, metadata, store...; ids and times are given here.
  protocol::ResponseState state;
  std::optional<std::string> system_prompt;  // of this turn only
  BusyPolicy policy = BusyPolicy::kEnqueue;
  bool parallel = false;                // runs with other parallel ones (session.order = parallel)
  std::optional<ContextWindow> window;  // of the prompt; absent: the service's
  // State of the dialog that a client without a connection expects. The message is refused if the
  // dialog has changed or is about to change.
  std::optional<int64_t> expected_version;           // else version_mismatch
  std::optional<std::string> expected_last_item_id;  // else stale_item
  // Reply address of a sender that keeps no connection, in the format of the protocol's server; at
  // most 16 KiB. Stored with the message until Sessions::Arrived(), so that a later process can
  // deliver the answer. Empty: the sender fetches the answer.
  std::string reply_to;
  // Rate limit of the sender. Called once, on the strand, after all checks of the dialog and before
  // the message is durable; not called for a repeated message. An error refuses the message. The
  // returned function is called when the message is accepted, and not if it is refused after all.
  std::function<Result<Admitted>()> admit;
};

// A message was accepted: it is durable and will be answered exactly once.
struct Acceptance {
  int64_t turn = 0;
  std::string response_id;
  size_t position = 0;    // turns that must end first
  bool repeated = false;  // duplicate id: this is the existing turn
  // Null for a repeated message whose turn ended long ago; Responses::Find() may still find it.
  std::shared_ptr<responses::Response> response;
};

}  // namespace tutti::sessions
