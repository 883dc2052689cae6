// SessionActor: implementation of Sessions, on the responses' strand; sessions.h documents the
// operations. All functions run on the strand.
//
//   Submit ---> row in the store ---> Saved ---> Advance ---> TryRun ---> HooksOf ---> Ended
//     |                                 |           ^        (prompt,    (rows of        |
//     '-> refused or repeated           |           |        inference)   the end)       |
//                                 acceptance        '------------- next turn <-----------'
//
// No step blocks: each one ends with an asynchronous call that leads to the next. A turn that can
// begin at once runs while its row is being written; its output stays hidden until the row is
// durable, and the turn is reverted if the write fails.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/responses/inference_guard.h"
#include "services/responses/responses.h"
#include "services/sessions/dialog_quota.h"
#include "services/sessions/session.h"
#include "services/sessions/sessions.h"
#include "services/sessions/turn_prompt.h"
#include "store/ask_store.h"

namespace tutti::sessions {

class SessionActor {
 public:
  SessionActor(const SessionOptions& options, api::Inference& inference, store::Store& store,
               responses::Responses& responses, const Clock& clock,
               std::function<int64_t()> unix_s);

  using SessionPointer = std::shared_ptr<Session>;
  template <typename T>
  using Done = Sessions::Done<T>;
  using Callback = Sessions::Callback;

  // actor_accept.cc
  void Submit(const SessionKey& key, Message message, Done<Acceptance> done);
  void Again(const SessionKey& key, const std::string& message_id, Done<Acceptance> done);
  void Cancel(const SessionKey& key, const std::string& message_id, bool keeps, Callback done);

  // actor_load.cc
  void Resume();
  void Sweep();

  // actor_verbs.cc
  // `whole`: the session too.
  void Clear(const SessionKey& key, std::optional<int64_t> expected_version, bool whole,
             Callback done);
  void SetSystemPrompt(const SessionKey& key, const std::string& prompt, Callback done);
  using Which = std::function<Result<std::vector<SessionKey>>(store::Database&)>;
  void ClearAll(Which which, bool whole, Done<int64_t> done);
  void DeleteAll(const Subject& subject, Done<int64_t> done);
  void SetProjectPrompt(const std::string& tenant, const std::string& project,
                        const std::string& prompt, Done<int64_t> done);
  void Fork(const SessionKey& from, const SessionKey& to, const ForkBegin& begin,
            Done<Conversation> done);
  void AppendItems(const SessionKey& key, std::vector<api::ChatMessage> messages,
                   std::optional<int64_t> expected_version, Done<ItemList> done);
  void DeleteItem(const SessionKey& key, const std::string& item_id,
                  std::optional<int64_t> expected_version, Done<Conversation> done);
  void CreateConversation(const std::string& tenant, const std::string& owner,
                          const std::string& metadata,
                          const std::vector<api::ChatMessage>& messages, Done<Conversation> done);
  void SetMetadata(const SessionKey& key, const std::string& metadata,
                   std::optional<int64_t> expected_version, Done<Conversation> done);
  void Import(const Subject& subject, const std::string& line, Callback done);

  const responses::HoldTimes& hold_times() const { return hold_times_; }
  size_t resident() const { return residency_.size(); }
  size_t idle() const { return residency_.idle(); }
  Sessions::ActiveList ListActive(size_t max) const;  // actor_load.cc

  // Results come on the strand.
  const store::AskStore& ask() const { return ask_; }

 private:
  // actor_load.cc
  void Open(const SessionKey& key, std::function<void(Result<SessionPointer>)> then);
  void Load(const SessionPointer& session);
  void ResumeNext();
  struct Loaded;
  Status Restore(Session& session, Loaded loaded);
  Status RestoreTurn(Session& session, const Accepted& row);

  // actor_accept.cc
  void Accept(const SessionPointer& session, Message message, Done<Acceptance> done);
  Result<TurnQueue::Offer> Enqueue(const SessionPointer& session, Message message);
  Status CheckExpectations(const Session& session, const Message& message) const;
  Status CheckSteer(const Session& session, const Message& message);
  void Repeat(Session& session, int64_t turn, Done<Acceptance> done);
  void Save(const SessionPointer& session, Turn& turn);
  void Saved(const SessionPointer& session, int64_t turn, const Result<DialogId>& dialog);
  void Refuse(const SessionPointer& session, int64_t turn, const Status& why);
  void CancelTurn(const SessionPointer& session, int64_t turn, bool keeps);
  void GiveUp(const SessionPointer& session, int64_t turn, CutShort cut);

  // actor_turns.cc
  void Advance(const SessionPointer& session);
  static bool MayBegin(const Session& session, const Turn& turn);
  void TryRun(const SessionPointer& session, int64_t turn);
  void RunAnew(const SessionPointer& session);
  Status RunTurn(const SessionPointer& session, Turn& turn);
  Result<TurnPrompt> PromptOf(Session& session, Turn& turn);
  Status CountInput(Turn& turn, const TokenCounter::Template& around);
  Result<int> CountTools(Turn& turn, const TokenCounter::Template& around);
  Result<int> CountSystem(Session& session, const std::string& model, const std::string& system);
  void EndUnrun(const SessionPointer& session, Turn& turn, const Status& why);
  int CountOrBytes(const std::string& model, const std::string& text);
  responses::TurnHooks HooksOf(const SessionPointer& session, int64_t turn);
  Outcome OutcomeOf(const Turn& turn, const protocol::ResponseState& end);
  void Ended(const SessionPointer& session, int64_t turn, const Outcome& outcome,
             const Status& stored);
  Status HasRoom(const Session& session) const;
  void AddBarrier(const SessionPointer& session, int64_t after, std::function<void()> begin);
  void BarrierEnded(const SessionPointer& session);

  // actor_verbs.cc
  void CancelAll(const SessionPointer& session);
  void SetProfiles(const std::string& tenant, const std::string& project, const Profile& profile);
  void Forget(Session& session, bool whole);
  void Leave(const SessionPointer& session);
  Result<std::vector<Item>> ItemsOf(const std::vector<api::ChatMessage>& messages);
  void Refresh(const Imported& imported);

  const SessionOptions options_;
  const store::AskStore ask_;
  responses::Responses& responses_;
  const Clock& clock_;
  const std::function<int64_t()> unix_s_;
  TokenCounter counter_;
  Residency residency_;
  responses::HoldTimes hold_times_;
  std::deque<SessionKey> to_resume_;
  size_t resuming_ = 0;  // that are being read
  bool resumes_again_ = false;
};

}  // namespace tutti::sessions
