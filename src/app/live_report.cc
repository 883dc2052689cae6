#include "app/live_report.h"

#include <utility>
#include <vector>

#include "base/mutex.h"

namespace tutti::app {
namespace {

// A list made by another thread. One is on its way at most, so that a busy thread is not asked
// again and again.
template <typename Value>
struct Answer {
  Value value;
  TimePoint asked{}, taken{};  // `taken`: when the value was asked for
  bool waits = false;

  bool Begin(TimePoint now) {
    if (waits || (asked != TimePoint() && now < asked + api::LiveSource::kMinInterval))
      return false;
    asked = now;
    waits = true;
    return true;
  }
  void End(Value fresh) {
    value = std::move(fresh);
    taken = asked;
    waits = false;
  }
};

}  // namespace

struct LiveReport::Lists {
  mutable Mutex mutex;
  Answer<sessions::Sessions::ActiveList> sessions GUARDED_BY(mutex);
  Answer<Clients> clients GUARDED_BY(mutex);
};

LiveReport::LiveReport(Backend& backend, Callers& callers, sessions::Sessions& sessions)
    : backend_(backend),
      callers_(callers),
      sessions_(sessions),
      lists_(std::make_shared<Lists>()) {}

LiveReport::~LiveReport() = default;

void LiveReport::Ask() {
  if (api::LiveSource* const engines = backend_.live_source(); engines != nullptr) engines->Ask();
  const TimePoint now = backend_.clock().Now();
  bool ask_sessions = false, ask_clients = false;
  {
    const MutexLock lock(lists_->mutex);
    ask_sessions = lists_->sessions.Begin(now);
    ask_clients = list_clients_ != nullptr && lists_->clients.Begin(now);
  }
  if (ask_sessions) {
    sessions_.ListActive(api::LiveState::kMaxSessions, [lists = lists_](auto list) {
      const MutexLock lock(lists->mutex);
      lists->sessions.End(std::move(list));
    });
  }
  if (ask_clients) {
    list_clients_(api::LiveState::kMaxClients, [lists = lists_](Clients list) {
      const MutexLock lock(lists->mutex);
      lists->clients.End(std::move(list));
    });
  }
}

bool LiveReport::TakenSince(TimePoint since) const {
  api::LiveSource* const engines = backend_.live_source();
  if (engines != nullptr && !engines->TakenSince(since)) return false;
  const MutexLock lock(lists_->mutex);
  return lists_->sessions.taken >= since &&
         (list_clients_ == nullptr || lists_->clients.taken >= since);
}

api::LiveState LiveReport::Read() const {
  api::LiveSource* const engines = backend_.live_source();
  api::LiveState state = engines == nullptr ? api::LiveState() : engines->Read();
  state.engines_elsewhere = engines == nullptr;
  backend_.ListWorkers(&state);
  callers_.ListLimits(&state);
  const MutexLock lock(lists_->mutex);
  state.sessions = lists_->sessions.value.sessions;
  state.sessions_left_out = static_cast<int>(lists_->sessions.value.left_out);
  state.clients = lists_->clients.value.clients;
  state.clients_left_out = static_cast<int>(lists_->clients.value.left_out);
  return state;
}

}  // namespace tutti::app
