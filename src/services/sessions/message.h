// Message: a client's message to a dialog, its fingerprint and its stored form. Acceptance: the
// immediate answer to it. OwedAnswer: a reply that is not delivered yet. TurnWatcher: observer of
// all messages. Functions without a database are pure.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/responses/request.h"
#include "protocol/responses/state.h"
#include "services/responses/response.h"
#include "services/sessions/history.h"
#include "services/sessions/turn_prompt.h"
#include "services/sessions/turn_queue.h"
#include "store/database.h"

namespace tutti::sessions {

using Admitted = std::function<void()>;

struct Message {
  // Chosen by the client, at most 128 bytes. A repeated id with the same content returns the
  // existing turn; with other content it fails with idempotency_key_mismatch (CheckSame).
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

// Makes a message of a call of the Responses API, whichever server it came by. If the call allows
// truncation, the prompt is limited to the call's `max_prompt_tokens` or else to the service's
// context window, and omits old turns; otherwise only `max_prompt_tokens` and the model's context
// limit it. `skeleton`: responses::SkeletonOf(call, ...).
Message MessageOf(protocol::ResponsesCall call, protocol::ResponseState skeleton);

extern const store::Migration kFingerprintTables;  // behind kHistoryTables

// 64-bit hash of the roles and texts of the input and of the system prompt. A message with a known
// id must have the hash of the first one. The hash is stored, so its value must not depend on the
// process or version. Model and deadline are not part of it: the server may choose the model, and a
// repeated message may have another deadline. Never 0. Not collision-resistant: a sender could only
// deceive itself.
int64_t FingerprintOf(const Message& message);

// `known`: fingerprint of the first message with that id; 0: not stored (older version), always OK.
// Errors: idempotency_key_mismatch.
Status CheckSame(int64_t known, const Message& message);

// Stored form of a message, from its acceptance to the end of its turn: everything that is needed
// to compute the same answer after a crash.
struct TurnRecord {
  Message message;                    // without policy and expectations, which are already applied
  int64_t position = 0;               // as reported when it was accepted
  std::optional<int64_t> deadline_s;  // unix time; the message's is steady time
};

std::string EncodeTurn(const TurnRecord& record);
// Errors: record_corrupt.
Result<TurnRecord> DecodeTurn(std::string_view text);

// TurnWatcher: observer of the messages and answers of all dialogs; app::ConversationLog implements
// it. Called on the responses' strand; must not block and must not call Sessions.
class TurnWatcher {
 public:
  virtual ~TurnWatcher() = default;
  // A message was accepted.
  virtual void OnAccepted(const SessionKey& key, int64_t turn, const Message& message) = 0;
  // The turn has ended, in any way.
  virtual void OnEnded(const SessionKey& key, int64_t turn, const protocol::ResponseState& end) = 0;
};

// Undelivered replies: answers for senders without a connection (MQTT), kept in the store until the
// server knows that the reply was delivered, so that the next process can deliver them after a
// crash. Their functions run on the store's thread, inside a Store::Work; errors are the
// database's.
extern const store::Migration kOwedTables;  // behind kHistoryTables

// Position in the list of undelivered replies, which is ordered by dialog and turn.
struct OwedPlace {
  int64_t dialog = 0, turn = 0;
};

struct OwedAnswer {
  OwedPlace place;
  SessionKey key;
  std::string message_id;
  std::string reply_to;  // the server's own words (Message::reply_to)
};

// Stores an undelivered reply. It is deleted with its turn: when the dialog is deleted, or when so
// many later turns were accepted that the message id is forgotten.
Status Owe(store::Database& database, int64_t dialog, int64_t turn, const std::string& reply_to);
// At most `most` replies after `after`.
Result<std::vector<OwedAnswer>> ReadOwed(store::Database& database, const OwedPlace& after,
                                         int64_t most);
// Marks a reply as delivered; does nothing if it is not in the list.
Status ForgetOwed(store::Database& database, const SessionKey& key, int64_t turn);

}  // namespace tutti::sessions
