#include "services/limits/limiter.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <list>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace tutti::limits {
namespace {

// Maximum subjects checked to evict one, least recently used first. Busy ones move to the other
// end, so that the next search checks different ones.
constexpr int kMaxLooks = 64;

// Maximum requests to the shared store in one exchange.
constexpr size_t kAsksAtOnce = 128;

std::string KeyOf(const Subject& subject) {
  std::string key;
  key.reserve(1 + subject.name.size());
  key += static_cast<char>('0' + static_cast<int>(subject.kind));
  key += subject.name;
  return key;
}

Status CheckName(const Subject& subject) {
  if (subject.name.size() <= kMaxNameBytes) return OkStatus();
  return InvalidArgument("invalid_value", "the name of this " + std::string(NameOf(subject.kind)) +
                                              " has " + std::to_string(subject.name.size()) +
                                              " bytes; at most " + std::to_string(kMaxNameBytes) +
                                              " are allowed");
}

// Calls `todo` at the end of the scope, after the destructors of all later objects.
template <class Do>
class OnEnd {
 public:
  explicit OnEnd(const Do& todo) : do_(todo) {}
  ~OnEnd() { do_(); }

 private:
  const Do& do_;
};

Status NoRoom(SubjectKind kind) {
  return Unavailable("overloaded", "too many others are being counted to take in this " +
                                       std::string(NameOf(kind)));
}

}  // namespace

struct Limiter::Entry {
  std::string key;
  SubjectState state;
  int holders = 0;     // reservations and calls in progress; above 0 it is not evicted
  bool wants = false;  // is in `wants_`, or its exchange is running
};

// A part of the subjects, with a lock of its own.
struct Limiter::Shard {
  // The entry of `key` with one more holder, created if needed; null if the shard is full.
  Entry* Hold(const std::string& key, size_t most, const Moment& moment) REQUIRES(mutex) {
    if (const auto found = index.find(key); found != index.end()) {
      entries.splice(entries.begin(), entries, found->second);
    } else {
      if (entries.size() >= most && !ForgetOne(moment)) return nullptr;
      entries.emplace_front();
      entries.front().key = key;
      index.emplace(entries.front().key, entries.begin());
    }
    ++entries.front().holders;
    return &entries.front();
  }

  bool ForgetOne(const Moment& moment) REQUIRES(mutex) {
    for (int look = 0; look < kMaxLooks && !entries.empty(); ++look) {
      if (CanForget(entries.back(), moment)) {
        Forget(std::prev(entries.end()));
        return true;
      }
      entries.splice(entries.begin(), entries, std::prev(entries.end()));
    }
    return false;
  }

  static bool CanForget(const Entry& entry, const Moment& moment) {
    return entry.holders == 0 && entry.state.AtRest(moment);
  }

  std::list<Entry>::iterator Forget(std::list<Entry>::iterator entry) REQUIRES(mutex) {
    index.erase(entry->key);
    return entries.erase(entry);
  }

  Mutex mutex;
  std::list<Entry> entries GUARDED_BY(mutex);  // most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> index GUARDED_BY(mutex);
};

// The locks of several shards, which the analysis cannot follow: their number is not known before.
class Limiter::Locks {
 public:
  // `set` has a bit for each shard.
  Locks(Limiter& limiter, uint64_t set) NO_THREAD_SAFETY_ANALYSIS : limiter_(limiter), set_(set) {
    for (uint64_t left = set_; left != 0; left &= left - 1)
      limiter_.shards_[static_cast<size_t>(std::countr_zero(left))]->mutex.Lock();
  }
  ~Locks() NO_THREAD_SAFETY_ANALYSIS {
    for (uint64_t left = set_; left != 0; left &= left - 1)
      limiter_.shards_[static_cast<size_t>(std::countr_zero(left))]->mutex.Unlock();
  }
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;

 private:
  Limiter& limiter_;
  const uint64_t set_;
};

Reservation::Reservation(Reservation&& other) noexcept { *this = std::move(other); }

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  Release();
  limiter_ = std::exchange(other.limiter_, nullptr);
  taken_ = other.taken_;
  held_ = other.held_;
  subjects_ = other.subjects_;
  return *this;
}

void Reservation::LeaveQueue() {
  if (limiter_ == nullptr || taken_.queued_tokens == 0) return;
  for (int i = 0; i < subjects_; ++i) {
    const Held& held = held_[static_cast<size_t>(i)];
    const MutexLock guard(limiter_->shards_[held.shard]->mutex);
    static_cast<Limiter::Entry*>(held.entry)->state.LeaveQueue(taken_.queued_tokens);
  }
  taken_.queued_tokens = 0;
}

void Reservation::Settle(int64_t tokens) {
  if (limiter_ != nullptr) std::exchange(limiter_, nullptr)->Settle(*this, false, tokens);
}

void Reservation::Release() {
  if (limiter_ != nullptr) std::exchange(limiter_, nullptr)->Settle(*this, true, 0);
}

Limiter::Limiter(const Options& options, const Clock* clock, std::function<int64_t()> unix_s)
    : options_(options),
      max_in_shard_(std::max<size_t>(options.max_subjects / options.shards, kSubjectKinds)),
      clock_(*clock),
      unix_s_(std::move(unix_s)) {
  CHECK(options.shards >= 1 && options.shards <= 64);
  for (size_t i = 0; i < options.shards; ++i) shards_.push_back(std::make_unique<Shard>());
}

Limiter::~Limiter() = default;

size_t Limiter::ShardOf(std::string_view key) const {
  return std::hash<std::string_view>()(key) % shards_.size();
}

Moment Limiter::Now() {
  Moment moment{clock_.Now(), std::max<int64_t>(unix_s_(), 0)};
  const int64_t day = DayOf(moment.unix_s);
  int64_t latest = latest_day_.load(std::memory_order_relaxed);
  while (day > latest && !latest_day_.compare_exchange_weak(latest, day)) {
  }
  if (day < latest) moment.unix_s = latest * 86'400;
  return moment;
}

// The subjects of one call, held while it looks at them.
struct Limiter::Lookup {
  struct Row {
    std::string key;
    size_t shard = 0;
    Entry* entry = nullptr;
  };
  ~Lookup() {
    for (const Row& row : rows) {
      if (row.entry != nullptr) --row.entry->holders;
    }
  }
  std::array<Row, kSubjectKinds> rows;
};

Status Limiter::HoldAll(std::span<const Subject> subjects, const Moment& moment, Lookup* lookup) {
  for (size_t i = 0; i < subjects.size(); ++i) {
    Lookup::Row& row = lookup->rows[i];
    row.entry = shards_[row.shard]->Hold(row.key, max_in_shard_, moment);
    if (row.entry == nullptr) return NoRoom(subjects[i].kind);
    SubjectState& state = row.entry->state;
    if (options_.shared != nullptr && !subjects[i].tenant.empty() && !state.shared())
      state.Share("{" + std::string(subjects[i].tenant) + "}:tutti:limits:" + row.key);
    state.SetRules(subjects[i].rules, moment.now);
  }
  return OkStatus();
}

bool Limiter::NoteWants(Entry* entry, size_t shard, const Moment& moment) {
  if (!up_.load(std::memory_order_acquire) || entry->wants || !entry->state.shared() ||
      !entry->state.Wants(moment, false))
    return false;
  const MutexLock lock(wants_mutex_);
  wants_.push_back({entry, shard});
  entry->wants = true;
  ++entry->holders;
  return true;
}

Result<Reservation> Limiter::Reserve(std::span<const Subject> subjects, const Estimate& estimate,
                                     RateLimitView* view) {
  CHECK_LE(subjects.size(), static_cast<size_t>(kSubjectKinds));
  RateLimitView unused;
  if (view == nullptr) view = &unused;
  *view = RateLimitView();
  const Estimate asked = {std::clamp<int64_t>(estimate.tokens, 0, kMaxUnits),
                          std::clamp<int64_t>(estimate.queued_tokens, 0, kMaxUnits)};
  // Declared before the locks: if memory runs out below, its destructor takes them again.
  Reservation reservation;
  std::array<Lookup::Row, kSubjectKinds> named;
  uint64_t set = 0;
  for (size_t i = 0; i < subjects.size(); ++i) {
    for (size_t k = 0; k < i; ++k) CHECK(subjects[k].kind != subjects[i].kind);
    RETURN_IF_ERROR(CheckName(subjects[i]));
    named[i].key = KeyOf(subjects[i]);
    named[i].shard = ShardOf(named[i].key);
    set |= uint64_t{1} << named[i].shard;
  }

  bool wants = false;
  // Runs after the locks are released.
  const auto wake = [&] {
    if (wants) wants_changed_.NotifyOne();
  };
  const OnEnd at_end(wake);
  const Locks locks(*this, set);
  Lookup lookup{std::move(named)};
  const Moment moment = Now();
  const Sharing sharing = SharingNow();
  RETURN_IF_ERROR(HoldAll(subjects, moment, &lookup));
  for (size_t i = 0; i < subjects.size(); ++i) {
    std::optional<Refusal> refusal = lookup.rows[i].entry->state.Check(asked, moment, sharing);
    if (!refusal.has_value()) continue;
    refusal->subject = subjects[i].kind;
    if (!view->refused.has_value() || refusal->retry_after > view->refused->retry_after)
      view->refused = refusal;
  }
  reservation.taken_ = {.at = moment.now,
                        .day = DayOf(moment.unix_s),
                        .tokens = asked.tokens,
                        .queued_tokens = asked.queued_tokens,
                        // Requests that pass on local counts while the store is unreachable are
                        // never reported to it: the debt would block requests when the store is
                        // back.
                        .shared_requests = sharing.up || !sharing.requests_open,
                        .shared_tokens = sharing.up || !sharing.tokens_open};
  for (size_t i = 0; i < subjects.size(); ++i) {
    Lookup::Row& row = lookup.rows[i];
    SubjectState& state = row.entry->state;
    if (!view->refused.has_value()) {
      state.Take(asked, moment, reservation.taken_);
      reservation.limiter_ = this;
      reservation.held_[i] = {static_cast<uint32_t>(row.shard), std::exchange(row.entry, nullptr)};
      reservation.subjects_ = static_cast<int>(i) + 1;
    }
    state.FillView(moment, view, sharing);
  }
  for (size_t i = 0; i < subjects.size(); ++i) {
    // If the request passed, the reservation holds the entry.
    Entry* const entry = view->refused.has_value()
                             ? lookup.rows[i].entry
                             : static_cast<Entry*>(reservation.held_[i].entry);
    if (view->refused.has_value()) entry->state.Missed(asked);
    wants = NoteWants(entry, lookup.rows[i].shard, moment) || wants;
  }
  if (!view->refused.has_value()) return reservation;
  refusals_[static_cast<size_t>(view->refused->limit)].fetch_add(1, std::memory_order_relaxed);
  return ToStatus(*view->refused);
}

Status Limiter::Exchange(bool idle) {
  CHECK(options_.shared != nullptr);
  std::vector<Wanting> wanting;
  {
    const MutexLock lock(wants_mutex_);
    wanting.swap(wants_);
  }
  for (size_t i = 0; idle && i < shards_.size(); ++i) {
    Shard& shard = *shards_[i];
    const MutexLock guard(shard.mutex);
    const Moment moment = Now();
    for (Entry& entry : shard.entries) {
      if (entry.wants || !entry.state.shared() || !entry.state.Wants(moment, true)) continue;
      wanting.push_back({&entry, i});
      entry.wants = true;
      ++entry.holders;
    }
  }
  // The requests to the store, with their entries.
  std::vector<SharedAsk> asks;
  std::vector<size_t> owners;
  for (size_t i = 0; i < wanting.size(); ++i) {
    const MutexLock guard(shards_[wanting[i].shard]->mutex);
    wanting[i].entry->state.Collect(Now(), idle, &asks);
    owners.resize(asks.size(), i);
  }
  Status status;
  std::vector<QuotaGrant> grants(asks.size());
  size_t answered = 0;
  do {
    std::vector<QuotaAsk> some;
    for (size_t i = answered; i < asks.size() && some.size() < kAsksAtOnce; ++i)
      some.push_back(asks[i].quota);
    exchanges_.fetch_add(1, std::memory_order_relaxed);
    status = options_.shared->Exchange(some, std::span(grants).subspan(answered, some.size()));
    if (status.ok()) answered += some.size();
  } while (status.ok() && answered < asks.size());
  if (!status.ok()) exchange_failures_.fetch_add(1, std::memory_order_relaxed);
  up_.store(status.ok(), std::memory_order_release);

  for (size_t i = 0, ask = 0; i < wanting.size(); ++i) {
    const auto [entry, at] = wanting[i];
    const MutexLock guard(shards_[at]->mutex);
    const Moment moment = Now();
    for (; ask < asks.size() && owners[ask] == i; ++ask) {
      if (ask < answered) {
        entry->state.Granted(asks[ask], grants[ask], moment.now);
      } else {
        entry->state.Failed(asks[ask], moment.now);
      }
    }
    entry->wants = false;
    --entry->holders;
    (void)NoteWants(entry, at, moment);  // more was spent meanwhile
  }
  return status;
}

void Limiter::WaitForWants(Duration most) {
  const MutexLock lock(wants_mutex_);
  if (wants_.empty() && !stopped_) (void)wants_changed_.WaitFor(wants_mutex_, most);
}

void Limiter::StopWaiting() {
  const MutexLock lock(wants_mutex_);
  stopped_ = true;
  wants_changed_.NotifyAll();
}

Limiter::SharingStats Limiter::sharing() const {
  return {.up = up_.load(std::memory_order_acquire),
          .exchanges = exchanges_.load(std::memory_order_relaxed),
          .failures = exchange_failures_.load(std::memory_order_relaxed)};
}

Status Limiter::AddToDay(const Subject& subject, int64_t tokens) {
  RETURN_IF_ERROR(CheckName(subject));
  const std::string key = KeyOf(subject);
  Shard& shard = *shards_[ShardOf(key)];
  const MutexLock guard(shard.mutex);
  const Moment moment = Now();
  Entry* const entry = shard.Hold(key, max_in_shard_, moment);
  if (entry == nullptr) return NoRoom(subject.kind);
  entry->state.SetRules(subject.rules, moment.now);
  entry->state.AddToDay(tokens, moment);
  --entry->holders;
  return OkStatus();
}

std::vector<KindView> Limiter::Look(const Subject& subject) {
  const std::string key = KeyOf(subject);
  Shard& shard = *shards_[ShardOf(key)];
  const MutexLock guard(shard.mutex);
  const Moment moment = Now();
  if (const auto found = shard.index.find(key); found != shard.index.end()) {
    SubjectState& state = found->second->state;
    state.SetRules(subject.rules, moment.now);
    return state.Views(moment, SharingNow());
  }
  SubjectState unused;
  unused.SetRules(subject.rules, moment.now);
  return unused.Views(moment);
}

std::vector<Limiter::Usage> Limiter::ListUsage(size_t max) {
  std::vector<Usage> all;
  for (const auto& shard : shards_) {
    const MutexLock guard(shard->mutex);
    const Moment moment = Now();
    size_t looked = 0;
    for (const Entry& entry : shard->entries) {  // the last used ones first
      if (looked++ == kListed) break;
      std::vector<KindView> limits = entry.state.Views(moment, SharingNow());
      if (limits.empty()) continue;
      double used = 0;
      for (const KindView& each : limits) {
        used = std::max(used, 1 - static_cast<double>(each.view.remaining) /
                                      static_cast<double>(std::max<int64_t>(each.view.limit, 1)));
      }
      all.push_back({.kind = static_cast<SubjectKind>(entry.key.front() - '0'),
                     .name = entry.key.substr(1),
                     .limits = std::move(limits),
                     .used = used});
    }
  }
  const size_t listed = std::min(max, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(listed), all.end(),
                    [](const Usage& a, const Usage& b) {
                      return std::tie(b.used, a.kind, a.name) < std::tie(a.used, b.kind, b.name);
                    });
  all.resize(listed);
  return all;
}

size_t Limiter::DropIdle() {
  size_t dropped = 0;
  for (const auto& shard : shards_) {
    const MutexLock guard(shard->mutex);
    const Moment moment = Now();
    for (auto entry = shard->entries.begin(); entry != shard->entries.end();) {
      if (Shard::CanForget(*entry, moment)) {
        entry = shard->Forget(entry);
        ++dropped;
      } else {
        ++entry;
      }
    }
  }
  return dropped;
}

size_t Limiter::subjects() const {
  size_t count = 0;
  for (const auto& shard : shards_) {
    const MutexLock guard(shard->mutex);
    count += shard->entries.size();
  }
  return count;
}

void Limiter::Settle(Reservation& reservation, bool undo, int64_t used) {
  for (int i = 0; i < reservation.subjects_; ++i) {
    const Reservation::Held& held = reservation.held_[static_cast<size_t>(i)];
    const MutexLock guard(shards_[held.shard]->mutex);
    Entry& entry = *static_cast<Entry*>(held.entry);
    const Moment moment = Now();
    if (undo) {
      entry.state.Undo(reservation.taken_, moment);
    } else {
      entry.state.Settle(reservation.taken_, std::clamp<int64_t>(used, 0, kMaxUnits), moment);
    }
    --entry.holders;
  }
}

}  // namespace tutti::limits
