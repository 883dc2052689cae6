// Sessions: dialogs of many clients, one actor each. A message is accepted once it is durable, is
// answered in its turn, and ends in exactly one terminal event, also when the process dies between.
//
// Turns of a dialog run one after the other unless policies or the messages say otherwise
// (turn_queue.h); those of different dialogs beside each other. An answer is a response
// (services/responses): its log begins with `accepted` and is read with a ResponseReader by whoever
// may. What was said enters the dialog in the transaction that ends the turn; a turn that failed or
// was cancelled leaves nothing, one that was interrupted or steered its partial answer, marked
// incomplete.
//
// What a session's data is read or changed in is a CriticalSection: measured, and no inference can
// begin there. Idle sessions beyond a hundred leave memory, least recently used first, and come
// back from the store as they were; those not used for their time to live leave the store as well.
//
// Any thread; no call waits. `done` is called once, on the responses' strand, later (or at once,
// with overloaded, where too many calls wait); not any more once this goes. The responses, store,
// inference and clock must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/status.h"
#include "services/responses/inference_guard.h"
#include "services/responses/responses.h"
#include "services/sessions/context_window.h"
#include "services/sessions/conversations.h"
#include "services/sessions/dialog_quota.h"
#include "services/sessions/history.h"
#include "services/sessions/items.h"
#include "services/sessions/message.h"
#include "services/sessions/owed.h"
#include "services/sessions/portable.h"
#include "services/sessions/turn_queue.h"
#include "services/sessions/turn_watcher.h"
#include "store/store.h"

namespace tutti::sessions {

struct SessionOptions {
  TurnQueue::Limits queue;  // 16 messages of a session wait
  ContextWindow window;     // 3,000 tokens of prompt
  size_t resident = 100;    // idle sessions in memory
  size_t active = 4096;     // sessions that are being answered or wait, of all
  size_t active_per_tenant = 1000;
  DialogQuota dialogs;                          // in the store
  int64_t projects_per_tenant = 1000;           // with a system prompt of their own
  int64_t ttl_s = 3600;                         // a session that is not used
  int64_t conversation_ttl_s = 30 * 24 * 3600;  // likewise, of the Conversations API
  Duration sweep = std::chrono::seconds(300);
  size_t message_bytes = 256 << 10;  // of one message's input and system prompt
  // A turn whose inference is refused for a full queue tries again for so long.
  Duration patience = std::chrono::seconds(60);
  TurnWatcher* watcher = nullptr;  // outlives the sessions; null: nobody
};

// Where a fork begins.
struct ForkBegin {
  std::optional<int64_t> version;            // what was said up to there; absent: until now
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

  // Runs what was accepted and not answered when the process before this ended. Once, when models
  // are loaded.
  void Resume();

  template <typename T>
  using Done = std::function<void(Result<T>)>;
  using Told = std::function<void(Status)>;

  // Errors: conversation_busy, mailbox_full, steer_unsupported (the turn that runs has said nothing
  // yet, and the template takes no two questions in a row), version_mismatch, stale_item,
  // request_too_large, tenant_concurrency, overloaded, storage_full, storage_error; those of the
  // message's `admit`; of a message that no turn goes before, also those of Inference::Generate and
  // context_length_exceeded. The same of a turn that had to wait ends it as failed.
  void Submit(const SessionKey& key, Message message, Done<Acceptance> done);
  // Ends a turn, running or waiting, such that nothing of it stays in the dialog; its response ends
  // as cancelled. Errors: not_found, already_finished.
  void Cancel(const SessionKey& key, const std::string& message_id, Told done);

  // --- answers that doors owe to senders without a connection (Message::reply_to) ---

  // Those that have not arrived, also of the process before this one; once models are loaded.
  void Owed(const OwedPlace& after, int64_t most, Done<std::vector<OwedAnswer>> done);
  // What Submit would tell of that message if it came again. Errors: not_found.
  void Again(const SessionKey& key, const std::string& message_id, Done<Acceptance> done);
  // The answer to a turn has arrived: it is owed no more.
  void Arrived(const SessionKey& key, int64_t turn);

  // --- verbs: in effect from the next turn on; a session that there is not is as one just made ---

  // All that was said; what runs or waits is cancelled.
  void Clear(const SessionKey& key, Told done);
  // Likewise, and the session itself with its system prompt; where a version is expected, only at
  // that one. Errors: version_mismatch, also where other changes wait.
  void Delete(const SessionKey& key, std::optional<int64_t> expected_version, Told done);
  // Empty: the project's again.
  void SetSystemPrompt(const SessionKey& key, std::string prompt, Told done);
  // Of all sessions of a project; how many there were.
  void ClearProject(const std::string& tenant, const std::string& project, Done<int64_t> done);
  void DeleteProject(const std::string& tenant, const std::string& project, Done<int64_t> done);
  // The system prompt of all dialogs of a project that have none of their own; its version, a new
  // one unless that is what it is already.
  void SetProjectPrompt(const std::string& tenant, const std::string& project, std::string prompt,
                        Done<int64_t> done);
  // What was said until then, as the beginning of a session that there is not yet, which is at that
  // version; in constant time. Its system prompt and metadata are those of now. Errors: not_found,
  // invalid_value (there is such a session, or too many forks of forks), version_mismatch (another
  // than was expected, or there was no such version yet), expired (something of that version was
  // deleted, cleared or left out for good), conversation_busy (of parallel turns: one still runs
  // that stands before others of that version).
  void Fork(const SessionKey& from, const SessionKey& to, const ForkBegin& begin,
            Done<Conversation> done);

  // --- what a dialog holds; errors: not_found ---

  void History(const SessionKey& key, const ItemPage& page, Done<ItemList> done);
  void GetItem(const SessionKey& key, const std::string& item_id, Done<Item> done);
  // Behind all turns that were accepted before. Errors: version_mismatch, request_too_large.
  void AppendItems(const SessionKey& key, std::vector<api::ChatMessage> items,
                   std::optional<int64_t> expected_version, Done<ItemList> done);
  void DeleteItem(const SessionKey& key, const std::string& item_id,
                  std::optional<int64_t> expected_version, Done<Conversation> done);

  // --- conversations: dialogs of the project "", whose session is the conversation's id ---

  // `owner`: who makes it, whose quota it takes from; empty: nobody whom this server knows. Errors:
  // insufficient_quota, tenant_concurrency.
  void CreateConversation(const std::string& tenant, const std::string& owner, std::string metadata,
                          std::vector<api::ChatMessage> items, Done<Conversation> done);
  void GetConversation(const SessionKey& key, Done<Conversation> done);
  // At once, also while a turn runs, which goes on. Errors: not_found, version_mismatch.
  void SetMetadata(const SessionKey& key, std::string metadata,
                   std::optional<int64_t> expected_version, Done<Conversation> done);

  // --- all of a user (portable.h) ---

  void Export(const Subject& subject, const ExportPage& page, Done<ExportedLines> done);
  void Import(const Subject& subject, std::string line, Told done);
  // Dialogs, projects and responses; what runs or waits is cancelled.
  void DeleteAll(const Subject& subject, Done<int64_t> done);

  const responses::HoldTimes& hold_times() const;
  struct Counts {
    size_t resident = 0, idle = 0;
  };
  void Count(std::function<void(Counts)> done);

 private:
  const std::shared_ptr<responses::Strand> strand_;
  const std::unique_ptr<SessionActor> actor_;
};

}  // namespace tutti::sessions
