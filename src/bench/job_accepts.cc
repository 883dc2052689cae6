#include "bench/job_accepts.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "bench/bench_folder.h"
#include "services/jobs/job_rows.h"
#include "services/jobs/job_tables.h"
#include "store/database.h"
#include "store/store.h"

namespace tutti::bench {
namespace {

jobs::JobRow BenchRow() {
  jobs::JobRow row;
  row.owner = "bench";
  row.caller = "{}";
  row.kind = "chat.completions";
  row.deadline_ms = int64_t{1} << 50;
  row.request.assign(kAcceptBytes, 'x');
  return row;
}

jobs::JobLimits Unlimited() {
  jobs::JobLimits limits;
  limits.queued = limits.request_bytes = int64_t{1} << 50;
  return limits;
}

// Carries finished writes from the store's thread to the bench thread. Like the queue between the
// store and a server, it wakes the reader once for all writes that have finished.
class Ends {
 public:
  struct End {
    double took_s = 0;
    Status status;
  };
  void Add(End end) {
    const MutexLock lock(mutex_);
    ends_.push_back(std::move(end));
    if (ends_.size() == 1) changed_.NotifyOne();
  }
  // Waits until there is at least one.
  std::vector<End> Take() {
    const MutexLock lock(mutex_);
    while (ends_.empty()) changed_.Wait(mutex_);
    return std::exchange(ends_, {});
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<End> ends_ GUARDED_BY(mutex_);
};

}  // namespace

Result<AcceptFigures> AcceptsOf(const std::string& in, int at_once, double seconds) {
  const BenchFolder folder(in);
  RETURN_IF_ERROR(folder.Check(in));
  const SteadyClock clock;
  AcceptFigures figures{.at_once = at_once};
  Ends ends;
  ASSIGN_OR_RETURN(const std::unique_ptr<store::Store> store,
                   store::Store::Open({.folder = folder.path()}, jobs::JobMigrations()));
  const auto send = [&] {
    store->Write(
        [](store::Database& rows) {
          jobs::JobRow row = BenchRow();
          return jobs::InsertJob(rows, &row, std::nullopt, Unlimited()).status();
        },
        [&ends, &clock, sent = clock.Now()](const Status& status) {
          ends.Add({ToSeconds(clock.Now() - sent), status});
        },
        store::Store::Undo::kWithGroup);
  };
  const TimePoint begin = clock.Now();
  for (int i = 0; i < at_once; ++i) send();
  Status failure;
  for (int under_way = at_once; under_way > 0;) {
    for (const Ends::End& end : ends.Take()) {
      --under_way;
      figures.accept_s.push_back(end.took_s);
      if (!end.status.ok()) failure = end.status;
      if (!failure.ok() || ToSeconds(clock.Now() - begin) >= seconds) continue;
      send();
      ++under_way;
    }
  }
  RETURN_IF_ERROR(failure);
  figures.per_s = static_cast<double>(figures.accept_s.size()) / ToSeconds(clock.Now() - begin);
  return figures;
}

Result<AcceptFigures> PlainCommits(const std::string& in, double seconds) {
  const BenchFolder folder(in);
  RETURN_IF_ERROR(folder.Check(in));
  ASSIGN_OR_RETURN(store::Database database, store::Database::Open(store::FileIn(folder.path())));
  RETURN_IF_ERROR(store::Migrate(jobs::JobMigrations(), &database));
  const SteadyClock clock;
  const TimePoint begin = clock.Now();
  AcceptFigures figures;
  while (ToSeconds(clock.Now() - begin) < seconds) {
    const TimePoint sent = clock.Now();
    RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
    jobs::JobRow row = BenchRow();
    RETURN_IF_ERROR(jobs::InsertJob(database, &row, std::nullopt, Unlimited()).status());
    RETURN_IF_ERROR(database.Execute("COMMIT"));
    figures.accept_s.push_back(ToSeconds(clock.Now() - sent));
  }
  figures.per_s = static_cast<double>(figures.accept_s.size()) / ToSeconds(clock.Now() - begin);
  return figures;
}

}  // namespace tutti::bench
