#include "services/usage/ledger.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/check.h"
#include "base/utf8.h"

namespace tutti::usage {
namespace {

constexpr int64_t kHourMs = 3'600'000;
constexpr int kRowsInSweep = 10'000;  // some 50 ms of the store's thread

// As far as it is UTF-8.
void Cut(std::string* name, size_t most = kMaxNameBytes) {
  if (name->size() > most) name->resize(most);
  name->resize(ValidUtf8Prefix(*name));
}

// The store refused them for now, and nothing of them was written.
bool CanBeTriedAgain(const Status& status) {
  return status.reason() == "store_full" || status.reason() == "overloaded";
}

// To a client, in the words of protocol/error.h.
Status Refusal(const Status& cause, size_t rows) {
  if (cause.ok() || cause.reason() == "overloaded") {
    return Unavailable("overloaded", "the usage of " + std::to_string(rows) +
                                         " requests is not written down yet; no more are taken");
  }
  if (cause.reason() == "store_full")
    return Unavailable("storage_full", "the disk has no room to write down what requests use");
  return Unavailable("storage_error", "what requests use cannot be written down");
}

}  // namespace

Ledger::Ledger(const Options& options, store::Store* store, const Clock* clock, Logger* log)
    : options_(options), store_(*store), clock_(*clock), log_(log) {
  CHECK(options.rows_in_write > 0);
}

Ledger::~Ledger() {
  const Status status = Flush();
  std::deque<Entry> left;
  {
    const MutexLock guard(mutex_);
    CHECK_EQ(counts_.places, 0u);
    while (sweeping_) changed_.Wait(mutex_);
    left.swap(rows_);
    counts_.lost += left.size();
  }
  if (!left.empty()) LogLost(left.size(), status);
  for (const Entry& entry : left) {
    if (entry.done) entry.done(status);
  }
}

Result<Ledger::Place> Ledger::Open() {
  WriteSome();
  const Status health = store_.health();
  const MutexLock guard(mutex_);
  const size_t taken = rows_.size() + handed_ + counts_.places;
  if (!health.ok() || full() || taken >= options_.max_rows) {
    ++counts_.refused;
    return Refusal(health.ok() ? last_ : health, taken);
  }
  ++counts_.places;
  return Place(this);
}

Status Ledger::ready() const {
  const Status health = store_.health();
  const MutexLock guard(mutex_);
  if (health.ok() && !full()) return OkStatus();
  return Refusal(health.ok() ? last_ : health, 0);
}

// Whether the disk is full: these rows are retried. Other errors have lost their rows, and only the
// next request tries again.
bool Ledger::full() const { return last_.reason() == "store_full"; }

void Ledger::Close() {
  const MutexLock guard(mutex_);
  --counts_.places;
}

void Ledger::Record(Place place, Row row, Done done) {
  CHECK(place.ledger_ == this);
  Cut(&row.key_id, kMaxKeyBytes);
  for (std::string* name : {&row.tenant, &row.user, &row.model, &row.route, &row.outcome})
    Cut(name);
  {
    const MutexLock guard(mutex_);
    rows_.push_back({std::move(row), std::move(done)});
    ++counts_.recorded;
    --counts_.places;
    place.ledger_ = nullptr;
  }
  WriteSome();
}

Ledger::Batch Ledger::TakeBatch() {
  if (rows_.empty()) return nullptr;
  const auto count = static_cast<std::ptrdiff_t>(std::min(rows_.size(), options_.rows_in_write));
  auto batch = std::make_shared<std::vector<Entry>>(std::make_move_iterator(rows_.begin()),
                                                    std::make_move_iterator(rows_.begin() + count));
  rows_.erase(rows_.begin(), rows_.begin() + count);
  handed_ = batch->size();
  return batch;
}

void Ledger::WriteSome(bool at_once) {
  Batch batch;
  {
    const MutexLock guard(mutex_);
    if (writing_ || (!at_once && clock_.Now() < retry_at_)) return;
    batch = TakeBatch();
    writing_ = batch != nullptr;
  }
  if (batch != nullptr) Hand(std::move(batch));
}

void Ledger::Hand(Batch batch) {
  store_.Write(
      [batch](store::Database& database) -> Status {
        for (const Entry& entry : *batch) RETURN_IF_ERROR(InsertRow(database, entry.row));
        return OkStatus();
      },
      [this, batch](const Status& status) { Written(batch, status); });
}

// While writing_ is set this ledger lives; nothing of it is touched after it is cleared.
void Ledger::Written(const Batch& batch, const Status& status) {
  const bool again = CanBeTriedAgain(status);
  if (!again) {
    if (!status.ok()) LogLost(batch->size(), status);
    for (const Entry& entry : *batch) {
      if (entry.done) entry.done(status);
    }
  }
  Batch next;
  {
    const MutexLock guard(mutex_);
    last_ = status;
    handed_ = 0;
    if (status.ok()) {
      counts_.written += batch->size();
      retry_at_ = TimePoint::min();
      next = TakeBatch();
    } else {
      ++counts_.failed_writes;
      retry_at_ = clock_.Now() + options_.retry;
      if (again) {
        rows_.insert(rows_.begin(), std::make_move_iterator(batch->begin()),
                     std::make_move_iterator(batch->end()));
      } else {
        counts_.lost += batch->size();
      }
    }
    writing_ = next != nullptr;
    if (!writing_) changed_.NotifyAll();
  }
  if (next != nullptr) Hand(std::move(next));
}

void Ledger::LogLost(size_t rows, const Status& why) {
  if (log_ == nullptr) return;
  log_->Error("usage.lost", {{"rows", static_cast<int64_t>(rows)}, {"reason", why.reason()}});
}

Status Ledger::Flush() {
  WriteSome(/*at_once=*/true);
  const MutexLock guard(mutex_);
  while (writing_) changed_.Wait(mutex_);
  return last_;
}

void Ledger::Tick(int64_t unix_ms) {
  WriteSome();
  if (options_.retention_days > 0) Sweep(unix_ms);
}

void Ledger::Sweep(int64_t unix_ms) {
  {
    const MutexLock guard(mutex_);
    if (sweeping_ || unix_ms < next_sweep_ms_) return;
    sweeping_ = true;
  }
  const int64_t before_ms = unix_ms - options_.retention_days * kDayMs;
  auto deleted = std::make_shared<int64_t>(0);
  store_.Write(
      [before_ms, deleted](store::Database& database) -> Status {
        ASSIGN_OR_RETURN(*deleted, DeleteBefore(database, before_ms, kRowsInSweep));
        return OkStatus();
      },
      [this, deleted, unix_ms](const Status& status) {
        const MutexLock guard(mutex_);
        if (status.ok()) counts_.deleted += static_cast<uint64_t>(*deleted);
        const bool more = status.ok() && *deleted == kRowsInSweep;
        next_sweep_ms_ = more ? unix_ms : unix_ms + kHourMs;
        sweeping_ = false;
        changed_.NotifyAll();
      });
}

Ledger::Counts Ledger::counts() const {
  const MutexLock guard(mutex_);
  Counts counts = counts_;
  counts.waiting = rows_.size() + handed_;
  return counts;
}

}  // namespace tutti::usage
