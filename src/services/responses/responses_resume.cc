// Responses, on the strand: what a process that ended has left in the store.
#include <utility>

#include "services/responses/active.h"
#include "services/responses/inference_guard.h"
#include "services/responses/request_json.h"
#include "services/responses/responses.h"

namespace tutti::responses {
namespace {

constexpr int64_t kAtOnce = 100;
constexpr Duration kRetry = std::chrono::milliseconds(500);

}  // namespace

void Responses::Resume() {
  strand_->Post([this] { ResumeBehind(0); });
}

void Responses::ResumeBehind(int64_t row) {
  using Found = std::pair<std::vector<Unfinished>, int64_t>;
  ask_.Read([row](store::Database& rows) { return LoadRunning(rows, row, kAtOnce); },
            [this, row](Result<Found> found) {
              if (found.status().reason() == "overloaded") {  // the disk is behind
                return strand_->PostAt(clock_.Now() + kRetry, [this, row] { ResumeBehind(row); });
              }
              if (!found.ok()) return;  // every caller gets the store's error
              const bool more = found->second != row;
              for (Unfinished& each : found->first) to_rerun_.push_back(std::move(each));
              RerunNext(found->second, more);
            });
}

// In their order, as fast as the engine takes them.
void Responses::RerunNext(int64_t row, bool more) {
  while (!to_rerun_.empty()) {
    const Status status = Rerun(to_rerun_.front());
    if (status.reason() == "draining") return;  // the next process does it
    if (MayPass(status)) {
      strand_->PostAt(clock_.Now() + kRetry, [this, row, more] { RerunNext(row, more); });
      return;
    }
    to_rerun_.pop_front();
  }
  if (more) ResumeBehind(row);
}

// Runs a response again. An error changes nothing: it may be temporary, or the process ends. An
// invalid request ends the response as failed.
Status Responses::Rerun(const Unfinished& unfinished) {
  const ResponseBase& base = unfinished.record.base;
  if (registry_.Find(base.owner, base.state.id) != nullptr) return OkStatus();  // of this process
  auto active = std::make_shared<Active>(
      std::make_shared<Response>(base, options_.log_bytes, /*again=*/true));
  active->durable = true;
  const auto begin = [&]() -> Status {
    ASSIGN_OR_RETURN(api::GenerateRequest request, DecodeRequest(unfinished.request));
    CheckNoSection();
    request.detached = true;
    ASSIGN_OR_RETURN(active->generation, inference_.Generate(std::move(request), strand_));
    return OkStatus();
  };
  const Status status = begin();
  if (MayPass(status) || status.reason() == "draining") return status;
  active->writer.Open();
  // Runs even without room in the registry, because it was accepted.
  (void)registry_.Add(active->writer.response());
  if (!status.ok()) {
    Finish(active, Failed(base.state, store::ClientStatus(status)));
    return OkStatus();
  }
  running_[base.state.id] = active;
  strand_->Wake();
  return OkStatus();
}

void Responses::Sweep() {
  store_.Write(
      [now_s = unix_s_()](store::Database& rows) -> Status {
        return DropExpired(rows, now_s, 1000).status();
      },
      [](const Status&) {});
  strand_->PostAt(clock_.Now() + options_.sweep, [this] { Sweep(); });
}

}  // namespace tutti::responses
