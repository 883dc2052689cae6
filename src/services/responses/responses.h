// Responses: all responses of the Responses API and all turns of dialogs, each with an event log.
//
// A response is made from an api::GenerateRequest. Any server can read it (ResponseReader), any
// number of times, during and after its computation. The requesting client owns an Attachment;
// OnLeave decides what happens when the client releases it. Responses that are stored, run in the
// background or are turns of a dialog continue, because the client can come back; others are
// cancelled within one step.
//
// Durability of stored responses: the request with its seed is stored before the first event, and
// the end with the whole text before the terminal event. A response that was running when the
// process died runs again (Resume) and gives the same text and event numbers. After its end a
// response stays in memory for a while, and stored ones stay in the store for longer.
//
// All work happens on one strand, shared with the dialogs. No call blocks, and every `done` is
// called later, on the strand. Thread-safe, except for the functions under "on the strand". The
// inference, store and clock must outlive it. It must outlive its users; responses that are still
// running when it is destroyed stay as they are in the store.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/strand.h"
#include "services/responses/response.h"
#include "services/responses/response_rows.h"
#include "services/responses/response_writer.h"
#include "store/ask_store.h"
#include "store/store.h"

namespace tutti::responses {

// Registry: the responses in memory, by id and owner.
//
// Bounded per owner and in total. Without room, the owner's oldest ended response is evicted
// (readers keep it alive); if all responses of the owner are running, the new one is refused.
// Thread-safe; no call blocks for longer than a lookup.
class Registry {
 public:
  struct Limits {
    size_t per_owner = 1000;
    size_t all = 20'000;
  };
  explicit Registry(const Limits& limits) : limits_(limits) {}

  // Errors: tenant_concurrency, overloaded; store_conflict (the id is taken).
  Status Add(const std::shared_ptr<Response>& response);
  // nullptr if there is none, or if it has another owner.
  std::shared_ptr<Response> Find(const std::string& owner, const std::string& id) const;
  // Marks a response as ended, so that it can be evicted.
  void Ended(const Response& response);
  void Remove(const std::string& id);
  void RemoveEnded(const std::string& owner);  // all of them

  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<Response> response;
    bool ended = false;
    std::list<std::string>::iterator place = {};  // among its owner's that ended
  };
  struct Owner {
    size_t responses = 0;
    std::list<std::string> ended;  // ids, the oldest first
  };
  void RemoveLocked(const std::string& id) REQUIRES(mutex_);

  const Limits limits_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, Entry> entries_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, Owner> owners_ GUARDED_BY(mutex_);
};

enum class OnLeave { kCancel, kDetach };

// incomplete_reason of a turn that a steering message cut short.
inline constexpr const char* kSteered = "steered";

// A request for a response.
struct Call {
  std::string owner;             // tenant; also the request's, whose own is not looked at
  api::GenerateRequest request;  // n = 1, no echo; the whole prompt
  // The skeleton: model, instructions, metadata, background, store... Empty ids and times are given
  // here. background needs store.
  protocol::ResponseState state;
  std::vector<api::ChatMessage> input;  // what this call itself says: for input_items, and for who
                                        // names it as previous_response_id
  std::optional<OnLeave> on_leave;      // absent: cancel if it is neither stored nor background
};

// Held by the requesting client while it is connected; its release triggers OnLeave. Movable; any
// thread.
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

// Callbacks of a dialog for the response to one of its turns. Called on the strand.
struct TurnHooks {
  // Returns work for the transaction that stores the end; the work runs on the store's thread.
  // Called once more with a failed state if that transaction failed.
  std::function<store::Store::Work(const protocol::ResponseState& end)> commit;
  // Called after the end was announced. `stored`: OK, or why the end could not be stored.
  std::function<void(const protocol::ResponseState& end, const Status& stored)> ended;
};

class Responses {
 public:
  struct Options {
    size_t log_bytes = 4 << 20;  // of one log: 8,192 tokens with room to spare
    Registry::Limits memory;
    Duration keep_background = std::chrono::minutes(10);  // in memory, after the end
    Duration keep_stored = std::chrono::minutes(1);       // in memory, if the store has it too
    int64_t stored_s = kStoredSeconds;                    // in the store
    int64_t turn_s = 24 * 3600;  // in the store, of a turn that is not `store`: to be fetched after
                                 // a crash
    StoredLimits stored;
    Duration sweep = std::chrono::minutes(1);
    int chain = kMaxLinks;  // links of previous_response_id that are followed
  };
  // `unix_s`: the wall clock.
  Responses(const Options& options, api::Inference& inference, store::Store& store,
            const Clock& clock, std::function<int64_t()> unix_s);
  ~Responses();
  Responses(const Responses&) = delete;
  Responses& operator=(const Responses&) = delete;

  // Begins a response. Errors: those of Inference::Generate; tenant_concurrency, overloaded,
  // invalid_value. The log of a stored response is empty until its request is durable; do not
  // report the response earlier.
  Result<Attachment> Start(Call call);

  // Finds a response in memory, or restores it from its record in the store. Errors: not_found
  // (also for another owner's, and for one that was not stored and has left memory); model_loading
  // (accepted by an earlier process, and Resume() has not reached it).
  using ResponseCallback = std::function<void(Result<std::shared_ptr<Response>>)>;
  void Find(const std::string& owner, const std::string& id, ResponseCallback done);
  // Public state of a response. Unlike Find() it also returns the initial state of a response that
  // is stored as running and that Resume() has not reached. Errors: not_found; model_loading (a
  // turn of a dialog).
  using StateCallback = std::function<void(Result<protocol::ResponseState>)>;
  void Look(const std::string& owner, const std::string& id, StateCallback done);
  // Cancels a response, which ends with its partial text as soon as the engine has stopped; `done`
  // does not wait for that. An ended response is not changed; one that Resume() has not reached is
  // ended in the store and never runs. `keeps`: a turn that runs leaves its message and its partial
  // text in its dialog, as one that BusyPolicy::kInterrupt ends; otherwise it leaves nothing.
  // Errors: not_found; model_loading (a turn of a dialog).
  void Cancel(const std::string& owner, const std::string& id, ResponseCallback done,
              bool keeps = false);
  // Deletes a response and its events from memory and store; cancels it if it is running. Errors:
  // not_found; model_loading (a turn of a dialog).
  void Delete(const std::string& owner, const std::string& id, std::function<void(Status)> done);
  // Deletes all responses of an owner; cancels running ones.
  void DeleteAll(const std::string& owner, std::function<void(Status)> done);
  // All messages that led to a stored response and its own text, oldest first: what goes before the
  // input of a call that names it as previous_response_id. Errors: not_found, also if a link of the
  // chain is gone; invalid_value (too long a chain).
  using Messages = std::vector<api::ChatMessage>;
  void Chain(const std::string& owner, const std::string& id,
             std::function<void(Result<Messages>)> done);
  // Sets the query for whether a response id belongs to a waiting turn, which Sessions provides.
  // Call it before any other function.
  using PendingTurn = std::function<Result<bool>(store::Database&, const std::string& owner,
                                                 const std::string& id)>;
  void TurnsWait(PendingTurn pending) { pending_turn_ = std::move(pending); }
  // Runs all responses again that are stored as running. Called once, when the models are loaded.
  void Resume();
  // Interrupts the logs of running and waiting responses, so that readers know that the next
  // process will continue them. Called after a drain, when no more inference can run.
  void Interrupt();

  const std::shared_ptr<Strand>& strand() const { return strand_; }
  size_t in_memory() const { return registry_.size(); }

  // --- on the strand, for the dialogs ---

  // Creates the response of a turn that waits; its log begins with `accepted`, `created` and
  // `queued`. `cancel(keeps)` is called if a client cancels it before it runs, or with `keeps`
  // while it runs. `again`: an earlier process has created it before. Errors: those of
  // Registry::Add.
  using CancelTurn = std::function<void(bool keeps)>;
  Result<std::shared_ptr<Response>> Create(ResponseBase base, CancelTurn cancel,
                                           bool again = false);
  // Removes a response whose message was not accepted. It may be running, but not shown.
  void Abandon(const Response& response);
  // Begins to generate. Before Show() no event is logged and the response does not end. An error of
  // Inference::Generate changes nothing: the caller can retry or end the response.
  Status Run(const std::shared_ptr<Response>& response, api::GenerateRequest request,
             const DroppedContext& dropped, TurnHooks hooks);
  // Called once when the message is durable: from now on the log shows the response's events.
  void Show(const Response& response);
  // Reverts Run(); only before Show().
  void Unrun(const Response& response);
  // Ends a response that is not running. OK: it ends as cancelled, or, if `steered`, as incomplete
  // with kSteered. An error: it ends as failed with `why`.
  void EndUnrun(const std::shared_ptr<Response>& response, const Status& why, TurnHooks hooks,
                bool steered = false);
  // Ends a running response as cancelled, or, if `steered`, as incomplete; the last call counts.
  // False if it is not running or is ending already.
  bool CancelRun(const Response& response, bool steered = false);
  std::shared_ptr<Response> FindInMemory(const std::string& owner, const std::string& id) const {
    return registry_.Find(owner, id);
  }

 private:
  struct Active;
  using ActivePointer = std::shared_ptr<Active>;
  // responses.cc
  // Operators find a request without an id of its own by that of its response.
  static void NameRequest(const std::string& id, api::GenerateRequest* request);
  // On the store's thread.
  using Unended =
      std::function<Result<std::shared_ptr<Response>>(store::Database&, const ResponseRecord&)>;
  void Load(const std::string& owner, const std::string& id, bool writes, Unended unended,
            ResponseCallback done);
  void CancelStored(const std::string& owner, const std::string& id, ResponseCallback done);
  void CancelNow(const Response& response, bool keeps = false);

  // responses_run.cc: of the strand
  void Adopt(const ActivePointer& active, const std::string& request);
  void Pump();
  void Read(const ActivePointer& active);
  void Finish(const ActivePointer& active, protocol::ResponseState end);
  void Save(const ActivePointer& active, const protocol::ResponseState& end, bool again);
  void Announce(Active& active, const protocol::ResponseState& end, const Status& stored);
  int64_t ExpiresAt(const ResponseBase& base) const;
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
  const store::AskStore ask_;
  PendingTurn pending_turn_;  // may be empty
  Registry registry_;
  // Used on the strand only; by response id.
  std::map<std::string, ActivePointer> running_;  // what is being generated
  std::map<std::string, ActivePointer> waiting_;  // made and not run
  std::map<std::string, ActivePointer> ending_;   // their ends are on the way to the store
  std::deque<Unfinished> to_rerun_;
};

// Whether a refusal of Inference::Generate is transient.
bool MayPass(const Status& refusal);

}  // namespace tutti::responses
