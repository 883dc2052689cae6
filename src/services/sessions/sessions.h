// Sessions: the dialogs of all clients. A message is accepted when it is durable, is answered in
// its turn, and leads to exactly one terminal event, even if the process dies in between.
//
// Turns of one dialog run one after the other unless the message's policy says otherwise
// (turn_queue.h); turns of different dialogs run concurrently. Each answer is a response
// (services/responses) whose log begins with `accepted`; clients with access read it through a
// ResponseReader. Question and answer are added to the dialog in the transaction that ends the
// turn. A failed or cancelled turn adds nothing; an interrupted or steered turn adds its partial
// answer, marked incomplete.
//
// Session data is accessed inside CriticalSections, which are timed and in which no inference can
// begin. More than SessionOptions::resident idle sessions are evicted from memory, least recently
// used first, and are reloaded from the store on use. Sessions unused for their time to live are
// deleted from the store.
//
// Any thread; no call blocks. `done` is called once on the responses' strand, and never after the
// destructor: later, or within a call from the strand, which is carried out at once. If too many
// calls wait, it is called at once with overloaded. The responses, store, inference and clock must
// outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/inference.h"
#include "api/live_state.h"
#include "base/clock.h"
#include "base/status.h"
#include "services/responses/inference_guard.h"
#include "services/responses/responses.h"
#include "services/sessions/conversations.h"
#include "services/sessions/dialog_quota.h"
#include "services/sessions/history.h"
#include "services/sessions/message.h"
#include "services/sessions/portable.h"
#include "services/sessions/turn_prompt.h"
#include "services/sessions/turn_queue.h"
#include "store/store.h"

namespace tutti::sessions {

struct SessionOptions {
  TurnQueue::Limits queue;  // 16 messages of a session wait
  ContextWindow window;     // 3,000 tokens of prompt
  size_t resident = 100;    // idle sessions in memory
  size_t active = 4096;     // sessions with running or waiting turns
  size_t active_per_tenant = 1000;
  DialogQuota dialogs;                          // in the store
  int64_t projects_per_tenant = 1000;           // with a system prompt of their own
  int64_t ttl_s = 3600;                         // a session that is not used
  int64_t conversation_ttl_s = 30 * 24 * 3600;  // an unused one of the Conversations API
  Duration sweep = std::chrono::seconds(300);
  size_t message_bytes = 256 << 10;  // of one message's input and system prompt
  // How long a turn retries if its inference is refused because of a full queue.
  Duration patience = std::chrono::seconds(60);
  TurnWatcher* watcher = nullptr;  // outlives the sessions; may be null
};

// Where a fork begins.
struct ForkBegin {
  std::optional<int64_t> version;            // the history up to this version; absent: until now
  std::string before_item = {};              // the history up to the turn of this item; empty: all
  std::optional<int64_t> expected_version;   // of the dialog that is forked, now
  std::optional<std::string> metadata = {};  // of the fork; absent: as it is now
  std::string owner = {};                    // of the fork; empty: OwnerOf() its key
};

class SessionActor;

class Sessions {
 public:
  Sessions(const SessionOptions& options, api::Inference& inference, store::Store& store,
           responses::Responses& responses, const Clock& clock, std::function<int64_t()> unix_s);
  ~Sessions();  // stops the strand
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // Runs the turns that the previous process accepted but did not answer. Called once, when the
  // models are loaded.
  void Resume();

  template <typename T>
  using Done = std::function<void(Result<T>)>;
  using Callback = std::function<void(Status)>;

  // Adds a message to a dialog. Errors: conversation_busy, session_queue_full, steer_unsupported
  // (the running turn has no output yet, and the template refuses two user messages in a row),
  // version_mismatch, stale_item, request_too_large, tenant_concurrency, overloaded, storage_full,
  // storage_error; those of the message's `admit`. If the turn can run at once, also those of
  // Inference::Generate and context_length_exceeded; a turn that had to wait ends as failed
  // instead.
  void Submit(const SessionKey& key, Message message, Done<Acceptance> done);
  // Cancels a running or waiting turn; it adds nothing to the dialog, and its response ends as
  // cancelled. Errors: not_found, already_finished.
  void Cancel(const SessionKey& key, const std::string& message_id, Callback done);

  // --- undelivered replies to senders without a connection (Message::reply_to) ---

  // Lists undelivered replies, also those of earlier processes; only after the models are loaded.
  void Owed(const OwedPlace& after, int64_t most, Done<std::vector<OwedAnswer>> done);
  // The Acceptance that Submit would give to a repeated message. Errors: not_found.
  void Again(const SessionKey& key, const std::string& message_id, Done<Acceptance> done);
  // Marks the reply to a turn as delivered.
  void Arrived(const SessionKey& key, int64_t turn);

  // --- verbs: effective from the next turn on; an unknown session is treated as empty ---

  // Deletes the history and cancels running and waiting turns.
  void Clear(const SessionKey& key, Callback done);
  // Like Clear, and deletes the session with its system prompt. With `expected_version` only if the
  // session has that version. Errors: version_mismatch, also if other changes wait.
  void Delete(const SessionKey& key, std::optional<int64_t> expected_version, Callback done);
  // Sets the session's system prompt; empty restores the project's.
  void SetSystemPrompt(const SessionKey& key, std::string prompt, Callback done);
  // Clear or Delete all sessions of a project; `done` gets their number.
  void ClearProject(const std::string& tenant, const std::string& project, Done<int64_t> done);
  void DeleteProject(const std::string& tenant, const std::string& project, Done<int64_t> done);
  // Sets the system prompt of all dialogs of a project that have none of their own. `done` gets the
  // version of the prompt, which increases only if the prompt changed.
  void SetProjectPrompt(const std::string& tenant, const std::string& project, std::string prompt,
                        Done<int64_t> done);
  // Creates session `to` from the history of `from` up to a version; constant time. The fork gets
  // that version, and the current system prompt and metadata of `from`. Errors: not_found,
  // invalid_value (`to` exists, or forks are nested too deep), version_mismatch (unexpected or
  // future version), expired (items of that version were deleted, cleared or dropped),
  // conversation_busy (a parallel turn that precedes items of that version is still running).
  void Fork(const SessionKey& from, const SessionKey& to, const ForkBegin& begin,
            Done<Conversation> done);

  // --- items of a dialog; errors: not_found ---

  void History(const SessionKey& key, const ItemPage& page, Done<ItemList> done);
  void GetItem(const SessionKey& key, const std::string& item_id, Done<Item> done);
  // Appends items after all turns accepted so far. Errors: version_mismatch, request_too_large.
  void AppendItems(const SessionKey& key, std::vector<api::ChatMessage> items,
                   std::optional<int64_t> expected_version, Done<ItemList> done);
  void DeleteItem(const SessionKey& key, const std::string& item_id,
                  std::optional<int64_t> expected_version, Done<Conversation> done);

  // --- conversations: dialogs of the project "", whose session is the conversation's id ---

  // `owner`: the creator, whose quota it counts toward; empty: anonymous. Errors:
  // insufficient_quota, tenant_concurrency.
  void CreateConversation(const std::string& tenant, const std::string& owner, std::string metadata,
                          std::vector<api::ChatMessage> items, Done<Conversation> done);
  void GetConversation(const SessionKey& key, Done<Conversation> done);
  // Errors: not_found (the conversation at which the page begins).
  void ListConversations(const std::string& tenant, const ConversationPage& page,
                         Done<ConversationList> done);
  // Replaces the metadata at once; does not wait for a running turn. Errors: not_found,
  // version_mismatch.
  void SetMetadata(const SessionKey& key, std::string metadata,
                   std::optional<int64_t> expected_version, Done<Conversation> done);

  // --- all data of a user (portable.h) ---

  void Export(const Subject& subject, const ExportPage& page, Done<ExportedLines> done);
  void Import(const Subject& subject, std::string line, Callback done);
  // Deletes dialogs, projects and responses; cancels running and waiting turns.
  void DeleteAll(const Subject& subject, Done<int64_t> done);

  const responses::HoldTimes& hold_times() const;
  struct Counts {
    size_t resident = 0, idle = 0;
  };
  void Count(std::function<void(Counts)> done);
  // The sessions with running or waiting turns, those with running ones first, at most `max`.
  struct ActiveList {
    std::vector<api::LiveSession> sessions;
    size_t left_out = 0;
  };
  void ListActive(size_t max, std::function<void(ActiveList)> done);

 private:
  const std::shared_ptr<Strand> strand_;
  const std::unique_ptr<SessionActor> actor_;
};

}  // namespace tutti::sessions
