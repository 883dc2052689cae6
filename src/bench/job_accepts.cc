#include "bench/job_accepts.h"

#include <atomic>
#include <span>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "bench/bench_folder.h"
#include "services/jobs/job_rows.h"
#include "store/database.h"
#include "store/store.h"

namespace tutti::bench {
namespace {

jobs::JobRow RowOf(int64_t number) {
  jobs::JobRow row;
  row.id = "job_" + std::to_string(number);
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

}  // namespace

Result<AcceptFigures> AcceptsOf(const std::string& in, int at_once, double seconds) {
  const BenchFolder folder(in);
  RETURN_IF_ERROR(folder.Check(in));
  ASSIGN_OR_RETURN(const std::unique_ptr<store::Store> store,
                   store::Store::Open({.folder = folder.path()}, jobs::JobMigrations()));
  const SteadyClock clock;
  const TimePoint begin = clock.Now();
  Mutex mutex;
  AcceptFigures figures{.at_once = at_once};
  Status failure;
  std::atomic<int64_t> next{0};
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < at_once; ++i) {
      clients.emplace_back([&] {
        while (ToSeconds(clock.Now() - begin) < seconds) {
          const TimePoint sent = clock.Now();
          const Status written = store->WriteNow([number = next++](store::Database& rows) {
            jobs::JobRow row = RowOf(number);
            return jobs::InsertJob(rows, &row, std::nullopt, Unlimited()).status();
          });
          const double took_s = ToSeconds(clock.Now() - sent);
          const MutexLock lock(mutex);
          figures.accept_s.push_back(took_s);
          if (!written.ok()) failure = written;
        }
      });
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
  for (int64_t number = 0; ToSeconds(clock.Now() - begin) < seconds; ++number) {
    const TimePoint sent = clock.Now();
    RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
    jobs::JobRow row = RowOf(number);
    RETURN_IF_ERROR(jobs::InsertJob(database, &row, std::nullopt, Unlimited()).status());
    RETURN_IF_ERROR(database.Execute("COMMIT"));
    figures.accept_s.push_back(ToSeconds(clock.Now() - sent));
  }
  figures.per_s = static_cast<double>(figures.accept_s.size()) / ToSeconds(clock.Now() - begin);
  return figures;
}

}  // namespace tutti::bench
