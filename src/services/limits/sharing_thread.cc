#include "services/limits/sharing_thread.h"

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>

#include "base/thread_name.h"

namespace tutti::limits {
namespace {

using std::chrono::milliseconds;

constexpr Duration kSweep = milliseconds(500);  // interval of returning unused units
constexpr Duration kRetry = milliseconds(200);  // while the shared store is unreachable

void RunExchange(Limiter& limiter, const std::stop_token& stop,
                 const std::function<void(const Status&)>& changed) {
  NameThread("tutti-quota");
  TimePoint swept{};
  std::optional<bool> reached;
  while (!stop.stop_requested()) {
    const TimePoint now = std::chrono::steady_clock::now();
    const bool idle = now - swept >= kSweep;
    if (idle) swept = now;
    const Status status = limiter.Exchange(idle);
    if (reached != status.ok()) {
      // The first successful contact is not reported.
      if (changed && (reached.has_value() || !status.ok())) changed(status);
      reached = status.ok();
    }
    limiter.WaitForWants(status.ok() ? kSweep : kRetry);
  }
}

}  // namespace

Result<std::unique_ptr<SharingThread>> SharingThread::Start(
    Limiter* limiter, std::function<void(const Status&)> changed) {
  std::unique_ptr<SharingThread> sharing(new SharingThread(limiter));
  try {
    sharing->thread_ =
        std::jthread([limiter, changed = std::move(changed)](const std::stop_token& stop) {
          RunExchange(*limiter, stop, changed);
        });
  } catch (const std::system_error& error) {
    return Unavailable("overloaded",
                       std::string("the shared limits cannot start: ") + error.what());
  }
  return sharing;
}

SharingThread::~SharingThread() {
  thread_.request_stop();
  limiter_.StopWaiting();
}

}  // namespace tutti::limits
