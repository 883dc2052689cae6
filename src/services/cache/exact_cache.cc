#include "services/cache/exact_cache.h"

#include <optional>
#include <utility>

namespace tutti::cache {
namespace {

// What must be equal besides the answer's key if two requests share one computation: a flexible
// request would delay an interactive one, and a request whose client may come back outlives the
// queue's age limit. "": not shared. A request with a deadline is computed alone, because its end
// would end the others too.
std::string FlightOf(const AnswerKey& key, const api::GenerateRequest& request) {
  if (request.deadline != TimePoint::max() || request.cache.no_cache) return "";
  std::string flight(reinterpret_cast<const char*>(key.hash.data()), key.hash.size());
  flight += static_cast<char>(request.priority);
  flight += static_cast<char>(request.detached);
  return flight;
}

}  // namespace

ExactCache::ExactCache(const AnswerLimits& limits, const Clock& clock,
                       std::shared_ptr<SharedCacheBackend> tier)
    : clock_(clock), tier_(std::move(tier)), store_(limits) {}

void ExactCache::ReportOutcome(const api::GenerateRequest& request, api::CacheOutcome outcome,
                               Duration age) {
  outcomes_[static_cast<size_t>(outcome)].fetch_add(1, std::memory_order_relaxed);
  if (request.cache_report != nullptr) request.cache_report->Set(outcome, age);
}

std::shared_ptr<api::CachedAnswer> ExactCache::Open(api::GenerateRequest* request,
                                                    std::shared_ptr<Waker> waker,
                                                    std::shared_ptr<api::Cancellable> control) {
  if (!Deterministic(request->sampling) || request->cache.no_store || HasTools(request->prompt)) {
    ReportOutcome(*request, api::CacheOutcome::kBypass, Duration(0));
    return nullptr;
  }
  return std::make_shared<AnswerReader>(shared_from_this(), std::move(waker), std::move(control),
                                        std::exchange(request->observer, nullptr));
}

std::shared_ptr<const TierPlace> ExactCache::Fetch(const api::RenderedRequest& rendered) {
  if (tier_ == nullptr || !rendered.may_wait) return nullptr;
  const api::GenerateRequest& request = rendered.request;
  AnswerKey key = KeyOf(rendered, secret_);
  uint64_t era = 0;
  {
    const MutexLock lock(mutex_);
    era = store_.era();
    if (!request.cache.no_cache) {
      if (store_.Find(key, clock_.Now(), request.cache.max_age)) return nullptr;
      if (flights_.contains(FlightOf(key, request))) return nullptr;
    }
  }
  SharedCacheBackend::Looked looked = tier_->Look(rendered);
  if (!looked.found.has_value()) return std::move(looked.place);
  const TimePoint since = clock_.Now() - looked.found->age;
  std::shared_ptr<const SharedAnswer> answer =
      SharedAnswer::Whole(std::move(key), request.tenant, era, std::move(looked.found->events));
  AnswerStore::Gone gone;
  const MutexLock lock(mutex_);
  if (era == store_.era()) gone = store_.Insert(std::move(answer), since);
  // The place is returned too: if the answer is too old, a new one is stored there.
  return std::move(looked.place);
}

AnswerDesk::Seat ExactCache::SeatFor(const api::RenderedRequest& rendered,
                                     const std::shared_ptr<api::Cancellable>& control,
                                     std::shared_ptr<api::RequestObserver>* observer,
                                     std::shared_ptr<const TierPlace> place) {
  const api::GenerateRequest& request = rendered.request;
  AnswerKey key = KeyOf(rendered, secret_);
  std::string flight = FlightOf(key, request);
  const TimePoint now = clock_.Now();
  const bool asked = !request.cache.no_cache;

  const MutexLock lock(mutex_);
  if (asked) {
    if (auto found = store_.Find(key, now, request.cache.max_age)) {
      ReportOutcome(request, api::CacheOutcome::kHit, found->age);
      return {.kept = std::static_pointer_cast<const SharedAnswer>(found->answer)};
    }
    const auto shared = flights_.find(flight);
    if (shared != flights_.end() && shared->second->key() == key && shared->second->Join()) {
      ReportOutcome(request, api::CacheOutcome::kJoin, Duration(0));
      return {.shared = shared->second};
    }
  }
  ReportOutcome(request, asked ? api::CacheOutcome::kMiss : api::CacheOutcome::kBypass,
                Duration(0));
  auto answer = std::make_shared<SharedAnswer>(std::move(key), std::move(flight), request.tenant,
                                               store_.era(), control,
                                               std::exchange(*observer, nullptr), std::move(place));
  if (!answer->flight().empty()) flights_[answer->flight()] = answer;
  return {.shared = std::move(answer), .leads = true};
}

void ExactCache::Complete(const std::shared_ptr<SharedAnswer>& answer) {
  AnswerStore::Gone gone;  // freed after the lock
  const MutexLock lock(mutex_);
  // Within the lock: otherwise a second reader could remove the flight before the answer is stored,
  // and the next request would be computed again.
  const bool whole = answer->TakeForKeeping();
  RemoveFlight(*answer);
  if (!whole || answer->era() != store_.era()) return;
  gone = store_.Insert(answer, clock_.Now());
  if (answer->place() != nullptr) tier_->Keep(answer);
}

void ExactCache::Forget(const SharedAnswer& answer) {
  const MutexLock lock(mutex_);
  RemoveFlight(answer);
}

void ExactCache::RemoveFlight(const SharedAnswer& answer) {
  const auto found = flights_.find(answer.flight());
  if (found != flights_.end() && found->second.get() == &answer) flights_.erase(found);
}

size_t ExactCache::Flush(std::optional<std::string_view> tenant) {
  AnswerStore::Gone gone;
  // The tier is flushed first, so that answers fetched from it earlier are flushed below.
  if (tier_ != nullptr) tier_->Flush(tenant);
  const MutexLock lock(mutex_);
  flights_.clear();
  gone = store_.Flush(tenant);
  return gone.size();
}

void ExactCache::Halve() {
  AnswerStore::Gone gone;
  const MutexLock lock(mutex_);
  gone = store_.Halve();
}

CacheStats ExactCache::stats() const {
  const auto count = [this](api::CacheOutcome outcome) {
    return outcomes_[static_cast<size_t>(outcome)].load(std::memory_order_relaxed);
  };
  const MutexLock lock(mutex_);
  return {.hits = count(api::CacheOutcome::kHit),
          .misses = count(api::CacheOutcome::kMiss),
          .joins = count(api::CacheOutcome::kJoin),
          .bypasses = count(api::CacheOutcome::kBypass),
          .entries = store_.entries(),
          .bytes = store_.bytes(),
          .in_flight = flights_.size()};
}

}  // namespace tutti::cache
