// Responses: every answer that can be looked at by more than who asked for it, as an event log.
//
// Made from a request of the waist; read by any door, any number of times, while it runs and after
// (ResponseReader). Who asks owns an Attachment, and what becomes of the answer when that goes is
// OnLeave: an answer that is stored, or runs in the background, or is a dialog's turn, goes on
// (somebody may come back for it); any other is cancelled within a step.
//
// Stored answers reach the store: the request with its seed before the first event, the end with
// the whole text before the terminal one. One that was running when the process died
// runs again (Resume) and gives the same text and the same event numbers. After its end a response
// stays in memory for a while, and stored ones in the store for longer.
//
// All of it happens on one strand, which the dialogs share; no call here waits, and every `done` is
// called on the strand, later. Thread-safe but for the part "on the strand". The inference, store
// and clock must outlive it; of its users all must be gone before it, and none may be called by a
// door any more once it goes: what is under way then stays as the store has it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/status.h"
#include "services/responses/registry.h"
#include "services/responses/response.h"
#include "services/responses/response_rows.h"
#include "services/responses/response_writer.h"
#include "services/responses/strand.h"
#include "store/store.h"

namespace tutti::responses {

enum class OnLeave { kCancel, kDetach };

// Why an answer is incomplete that ended where it was because its dialog goes on elsewhere.
inline constexpr const char* kSteered = "steered";

// What is to be answered.
struct Call {
  std::string owner;             // tenant; also the request's, whose own is not looked at
  api::GenerateRequest request;  // n = 1, no echo, no log-probabilities; the whole prompt
  // The skeleton: model, instructions, metadata, background, store... Empty ids and times are given
  // here. background needs store.
  wire::ResponseState state;
  std::vector<api::ChatMessage> input;  // what this call itself says: for input_items, and for who
                                        // names it as previous_response_id
  std::optional<OnLeave> on_leave;      // absent: cancel if it is neither stored nor background
};

// Of who asked, for as long as that is there. Movable; any thread.
class Attachment {
 public:
  Attachment() = default;
  ~Attachment();
  Attachment(Attachment&& other) noexcept
      : response_(std::move(other.response_)), leave_(std::exchange(other.leave_, nullptr)) {}
  Attachment& operator=(Attachment&& other) noexcept;
  const std::shared_ptr<Response>& response() const { return response_; }

 private:
  friend class Responses;
  Attachment(std::shared_ptr<Response> response, std::function<void()> leave)
      : response_(std::move(response)), leave_(std::move(leave)) {}
  std::shared_ptr<Response> response_;
  std::function<void()> leave_;  // empty: nothing happens
};

// What a dialog does around the answer of its turn. Called on the strand.
struct TurnHooks {
  // More rows for the transaction that makes the end durable: what it gives runs on the store's
  // thread. Called once more with a failed state if that transaction failed.
  std::function<store::Store::Work(const wire::ResponseState& end)> commit;
  // The end is durable and announced; or, with why, it could only be announced.
  std::function<void(const wire::ResponseState& end, const Status& stored)> ended;
};

class Responses {
 public:
  struct Options {
    size_t log_bytes = 4 << 20;  // of one log: 8,192 tokens with room to spare
    Registry::Limits memory;
    Duration keep_background = std::chrono::minutes(10);  // in memory, after the end
    Duration keep_stored = std::chrono::minutes(1);       // likewise, of those the store has too
    int64_t stored_s = kStoredSeconds;                    // in the store
    int64_t turn_s = 24 * 3600;  // in the store, of a turn that is not `store`: to be fetched after
                                 // a crash
    StoredLimits stored;
    Duration sweep = std::chrono::minutes(1);
    int chain = kMostLinks;  // links of previous_response_id that are followed
  };
  // `unix_s`: the wall clock.
  Responses(const Options& options, api::Inference& inference, store::Store& store,
            const Clock& clock, std::function<int64_t()> unix_s);
  ~Responses();
  Responses(const Responses&) = delete;
  Responses& operator=(const Responses&) = delete;

  // Refuses what Inference::Generate refuses, and tenant_concurrency, overloaded, invalid_value.
  // The log of a stored one is empty until its request is durable: tell nobody of it before.
  Result<Attachment> Start(Call call);

  // In memory or in the store, where it is shown again from its record. Errors: not_found (also for
  // another owner's, and for one that was not stored and is gone); model_loading (the store has it
  // as accepted, and Resume() has not come to it).
  using Found = std::function<void(Result<std::shared_ptr<Response>>)>;
  void Find(const std::string& owner, const std::string& id, Found done);
  // What is shown of it. Other than Find() also of one that the store has as running and Resume()
  // has not come to: as it began. Errors: not_found; model_loading (of a dialog's turn).
  using Looked = std::function<void(Result<wire::ResponseState>)>;
  void Look(const std::string& owner, const std::string& id, Looked done);
  // Ends it with what it has said, as soon as the engine lets go of it; `done` is called at once
  // with the response. One that has ended stays as it is; one that Resume() has not come to ends in
  // the store, and never runs. Errors: not_found; model_loading (of a dialog's turn).
  void Cancel(const std::string& owner, const std::string& id, Found done);
  // The response with its events, wherever they are; it is cancelled if it runs. Errors: not_found;
  // model_loading (of a dialog's turn).
  void Delete(const std::string& owner, const std::string& id, std::function<void(Status)> done);
  // All of an owner's: those that run are cancelled.
  void DeleteAll(const std::string& owner, std::function<void(Status)> done);
  // All messages that led to a stored response and its own text, oldest first: what goes before the
  // input of a call that names it as previous_response_id. Errors: not_found, also if a link of the
  // chain is gone; invalid_value (too long a chain).
  using Messages = std::vector<api::ChatMessage>;
  void Chain(const std::string& owner, const std::string& id,
             std::function<void(Result<Messages>)> done);
  // How the store is asked whether a turn that waits there has that response: dialogs know. Before
  // anything is asked.
  using PendingTurn = std::function<Result<bool>(store::Database&, const std::string& owner,
                                                 const std::string& id)>;
  void TurnsWait(PendingTurn pending) { pending_turn_ = std::move(pending); }
  // Runs again what the store has as running. Once, when models are loaded.
  void Resume();
  // Tells who reads that what runs or waits here is left to the next process: no inference follows,
  // as after a drain.
  void Interrupt();

  const std::shared_ptr<Strand>& strand() const { return strand_; }
  size_t in_memory() const { return registry_.size(); }

  // --- on the strand, for the dialogs ---

  // A response whose turn is to come: `accepted`, `created` and `queued` are in its log. `cancel`
  // is called when somebody cancels it before it runs. `again`: an earlier process did so before.
  // Errors: those of Registry::Add.
  Result<std::shared_ptr<Response>> Create(ResponseBase base, std::function<void()> cancel,
                                           bool again = false);
  // As if it had never been: its message was not accepted. It may run, but not be shown.
  void Abandon(const Response& response);
  // Begins to generate; nothing of it is in the log, and it does not end, before Show(). An error
  // of Inference::Generate changes nothing: it can be tried again, or ended.
  Status Run(const std::shared_ptr<Response>& response, api::GenerateRequest request,
             const DroppedContext& dropped, TurnHooks hooks);
  // Its message is durable: what it says may be known. Once.
  void Show(const Response& response);
  // As if Run() had not been called; before Show().
  void Unrun(const Response& response);
  // Ends one that does not run: cancelled (OK; `steered`: incomplete, as kSteered), or failed with
  // `why`.
  void EndUnrun(const std::shared_ptr<Response>& response, const Status& why, TurnHooks hooks,
                bool steered = false);
  // Of one that runs: it ends as cancelled, or, `steered`, as incomplete; the last word counts.
  // False if it does not run, or is ending already.
  bool CancelRun(const Response& response, bool steered = false);
  std::shared_ptr<Response> FindInMemory(const std::string& owner, const std::string& id) const {
    return registry_.Find(owner, id);
  }

 private:
  struct Active;
  using ActivePointer = std::shared_ptr<Active>;
  // responses.cc
  // On the store's thread.
  using Unended =
      std::function<Result<std::shared_ptr<Response>>(store::Database&, const ResponseRecord&)>;
  void Load(const std::string& owner, const std::string& id, bool writes, Unended unended,
            Found done);
  void CancelStored(const std::string& owner, const std::string& id, Found done);
  void CancelNow(const Response& response);

  // responses_run.cc: of the strand
  void Adopt(const ActivePointer& active, const std::string& request);
  void Pump();
  void Read(const ActivePointer& active);
  void Finish(const ActivePointer& active, wire::ResponseState end);
  void Save(const ActivePointer& active, const wire::ResponseState& end, bool again);
  void Announce(Active& active, const wire::ResponseState& end, const Status& stored);
  int64_t ExpiresAt(const ResponseBase& base) const;

  // responses_resume.cc: of the strand
  void ResumeBehind(int64_t row);
  void RerunNext(int64_t row, bool more);
  Status Rerun(const Unfinished& unfinished);
  void Sweep();

  const Options options_;
  api::Inference& inference_;
  store::Store& store_;
  const Clock& clock_;
  const std::function<int64_t()> unix_s_;
  const std::shared_ptr<Strand> strand_;
  PendingTurn pending_turn_;  // may be empty
  Registry registry_;
  // Of the strand, by id.
  std::map<std::string, ActivePointer> running_;  // what is being generated
  std::map<std::string, ActivePointer> waiting_;  // made and not run
  std::map<std::string, ActivePointer> ending_;   // their ends are on the way to the store
  std::deque<Unfinished> to_rerun_;
};

// What a client may be told of a failure of the store.
Status StoreStatus(const Status& status);
// Whether a refusal of Inference::Generate passes by itself.
bool MayPass(const Status& refusal);

}  // namespace tutti::responses
