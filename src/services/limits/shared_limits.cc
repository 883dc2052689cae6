#include "services/limits/shared_limits.h"

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/threads.h"

namespace tutti::limits {
namespace {

using std::chrono::milliseconds;

constexpr Duration kMaxWait = milliseconds(50);

// ARGV: limit, microseconds of a period (0: it never refills), charge, want. As in rate.h, the
// missing units shrink by limit / period, to 0 at least. A value that is not a pair of numbers
// counts as absent.
constexpr const char* kBucket = R"lua(
local limit, period = tonumber(ARGV[1]), tonumber(ARGV[2])
local charge, want = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local missing, at = 0, now
local kept = redis.call('GET', KEYS[1])
if kept then
  local m, a = string.match(kept, '^(%S+) (%S+)$')
  m, a = tonumber(m), tonumber(a)
  if m and a and m == m and a == a then missing, at = m, a end
end
if period > 0 and now > at then
  missing = missing - (now - at) * limit / period
end
missing = math.max(0, math.max(0, missing) + charge)
local leased = math.max(0, math.min(want, math.floor(limit - missing)))
missing = math.min(missing + leased, 2199023255552)
if missing > 0 then
  local keep = 172800000
  if period > 0 then keep = math.ceil(missing / limit * period / 1000) + 1000 end
  redis.call('SET', KEYS[1], string.format('%.17g %.0f', missing, math.max(now, at)), 'PX',
             string.format('%.0f', keep))
else
  redis.call('DEL', KEYS[1])
end
return {leased, math.floor(limit - missing)}
)lua";

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

RedisQuotas::RedisQuotas(redis::ConnectionOptions options)
    : options_(std::move(options)), bucket_(kBucket) {}

Status RedisQuotas::Exchange(std::span<const QuotaAsk> asks, std::span<QuotaGrant> grants) {
  CHECK_EQ(asks.size(), grants.size());
  if (connection_ == nullptr) {
    ASSIGN_OR_RETURN(connection_, redis::Connection::Open(options_));
  }
  Status status = AskAll(asks, grants);
  if (!status.ok()) connection_.reset();
  return status;
}

Status RedisQuotas::AskAll(std::span<const QuotaAsk> asks, std::span<QuotaGrant> grants) {
  const TimePoint until = std::chrono::steady_clock::now() + kMaxWait;
  if (asks.empty()) return connection_->Call({"PING"}, until).status();
  for (const QuotaAsk& ask : asks) RETURN_IF_ERROR(Send(ask, redis::Script::As::kName, until));
  // Requests that failed because Redis restarted or lost its scripts. The first retry sends the
  // script, so the others can use its hash.
  std::vector<size_t> unknown;
  for (size_t i = 0; i < asks.size(); ++i) {
    ASSIGN_OR_RETURN(const redis::Reply reply, connection_->Receive(until));
    if (redis::Script::IsUnknown(reply)) {
      unknown.push_back(i);
    } else {
      RETURN_IF_ERROR(Take(reply, &grants[i]));
    }
  }
  for (const size_t i : unknown) {
    RETURN_IF_ERROR(
        Send(asks[i], i == unknown.front() ? redis::Script::As::kWhole : redis::Script::As::kName,
             until));
  }
  for (const size_t i : unknown) {
    ASSIGN_OR_RETURN(const redis::Reply reply, connection_->Receive(until));
    RETURN_IF_ERROR(Take(reply, &grants[i]));
  }
  return OkStatus();
}

Status RedisQuotas::Send(const QuotaAsk& ask, redis::Script::As as, TimePoint until) {
  const std::string limit = std::to_string(ask.limit);
  const std::string period =
      std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(ask.period).count());
  const std::string charge = std::to_string(ask.charge), want = std::to_string(ask.want);
  const std::string_view keys[] = {ask.key}, arguments[] = {limit, period, charge, want};
  return bucket_.Send(*connection_, as, keys, arguments, until);
}

Status RedisQuotas::Take(const redis::Reply& reply, QuotaGrant* grant) {
  if (reply.is_error()) return redis::RefusedBy(reply);
  using Kind = redis::Reply::Kind;
  const bool pair = reply.kind == Kind::kArray && reply.items.size() == 2 &&
                    reply.items[0].kind == Kind::kInteger && reply.items[1].kind == Kind::kInteger;
  if (!pair) {
    return Unavailable("redis_protocol", "Redis answers the limits with no pair of numbers");
  }
  *grant = {.leased = reply.items[0].integer, .remaining = reply.items[1].integer};
  return OkStatus();
}

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
