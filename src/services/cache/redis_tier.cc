#include "services/cache/redis_tier.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/threads.h"
#include "cluster/inference_codec.h"
#include "services/cache/shared_answer.h"

namespace tutti::cache {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kMagic = "tutti answer 1\n";
constexpr size_t kEraBytes = 16;  // of all, and of the tenant
constexpr size_t kMacBytes = 32;
constexpr size_t kMaxWaiting = 256;                    // answers to be written
constexpr size_t kMaxWaitingBytes = size_t{32} << 20;  // of them
constexpr size_t kMaxFlushes = 1024;                   // above it, one flush of all tenants
constexpr Duration kMaxWrite = seconds(1);             // of one answer
constexpr std::string_view kEraOfAll = "{}:tutti:answers:era";

std::string EraKey(std::string_view tenant) {
  return "{" + std::string(tenant) + "}:tutti:answers:era";
}

std::string RandomEra() {
  std::array<unsigned char, kEraBytes> bytes{};
  CHECK_EQ(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())), 1) << "no random numbers";
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A value is a sequence of numbers and texts; these functions write and read it.
void PutNumber(uint64_t number, std::string* out) {
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(number >> shift));
}
bool TakeNumber(std::string_view* in, uint64_t* number) {
  if (in->size() < 8) return false;
  *number = 0;
  for (size_t i = 0; i < 8; ++i)
    *number |= uint64_t{static_cast<unsigned char>((*in)[i])} << (8 * i);
  in->remove_prefix(8);
  return true;
}
bool TakeText(std::string_view* in, size_t size, std::string_view* text) {
  if (in->size() < size) return false;
  *text = in->substr(0, size);
  in->remove_prefix(size);
  return true;
}

bool IsEra(const redis::Reply& reply) {
  return reply.kind == redis::Reply::Kind::kText && reply.text.size() == kEraBytes;
}

// The global era and the tenant's. An era that Redis lacks is created, unless another server
// creates it first.
Result<std::string> MakeEras(redis::Connection& connection, const std::string& tenant,
                             TimePoint until) {
  const std::string of_tenant = EraKey(tenant);
  std::string era;
  for (const std::string_view key : {kEraOfAll, std::string_view(of_tenant)}) {
    const std::string mine = RandomEra();
    Result<redis::Reply> set = connection.Call({"SET", key, mine, "NX"}, until);
    RETURN_IF_ERROR(set.status());
    ASSIGN_OR_RETURN(const redis::Reply now, connection.Call({"GET", key}, until));
    if (!IsEra(now)) {
      // The key has a value that is not an era: replace it.
      RETURN_IF_ERROR(connection.Call({"SET", key, mine}, until).status());
      era += mine;
    } else {
      era += now.text;
    }
  }
  return era;
}

}  // namespace

RedisTier::RedisTier(Options options)
    : options_(std::move(options)),
      key_secret_(HmacOf(options_.secret, "tutti answers: keys")),
      value_secret_(HmacOf(options_.secret, "tutti answers: values")),
      pool_({.connection = options_.connection,
             .connections = options_.connections,
             .breaker = {},
             .wanted =
                 [this] {
                   const MutexLock lock(mutex_);
                   tend_ = true;
                   changed_.NotifyAll();
                 }},
            &clock_) {}

Result<std::shared_ptr<RedisTier>> RedisTier::Start(Options options) {
  if (options.secret.size() < kLeastSecretBytes) {
    return InvalidArgument("invalid_value", "the secret of kept answers has fewer than " +
                                                std::to_string(kLeastSecretBytes) + " bytes");
  }
  // Limits replies, because reading and discarding an oversized value costs as much as using it.
  options.connection.reply.bytes = 2 * options.max_value_bytes + 4096;
  std::shared_ptr<RedisTier> tier(new RedisTier(std::move(options)));
  try {
    tier->thread_ =
        std::jthread([self = tier.get()](const std::stop_token& stop) { self->Run(stop); });
  } catch (const std::system_error& error) {
    return Unavailable("overloaded", std::string("the shared cache cannot start: ") + error.what());
  }
  return tier;
}

RedisTier::~RedisTier() {
  thread_.request_stop();
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

bool RedisTier::asks() const { return pool_.up(); }

bool RedisTier::Flushing(const std::string& tenant) const {
  const MutexLock lock(mutex_);
  return flush_all_ != 0 || flushes_.contains(tenant);
}

SharedCacheBackend::Looked RedisTier::Look(const api::RenderedRequest& rendered) {
  const api::GenerateRequest& request = rendered.request;
  // Cache scopes shared by tenants exist in each server's own cache only.
  if (rendered.model_identity.empty() || !request.cache_scope.empty()) return {};
  if (!asks() || Flushing(request.tenant)) return {};
  const TimePoint until = std::chrono::steady_clock::now() + options_.max_wait;
  auto place = std::make_shared<TierPlace>();
  AnswerKey key = SharedKeyOf(rendered, key_secret_);
  place->tenant = request.tenant;
  place->key = "{" + request.tenant + "}:tutti:answers:" + ToHex(key.hash);
  place->words = std::move(key.words);

  const auto ask = [&]() -> Result<redis::Reply> {
    ASSIGN_OR_RETURN(const redis::Pool::Loan connection, pool_.Take(until));
    const std::string era_key = EraKey(request.tenant);
    std::vector<std::string_view> words = {"MGET", kEraOfAll, era_key};
    if (!request.cache.no_cache) words.push_back(place->key);
    ASSIGN_OR_RETURN(redis::Reply reply, connection->Call(words, until));
    if (reply.kind != redis::Reply::Kind::kArray || reply.items.size() != words.size() - 1)
      return Unavailable("redis_protocol", "Redis answers with something else");
    if (IsEra(reply.items[0]) && IsEra(reply.items[1])) {
      place->era = reply.items[0].text + reply.items[1].text;
    } else {
      ASSIGN_OR_RETURN(place->era, MakeEras(*connection, request.tenant, until));
    }
    return reply;
  };
  Result<redis::Reply> reply = ask();
  if (!reply.ok()) {
    failed_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  Looked looked;
  if (reply->items.size() > 2 && reply->items[2].kind == redis::Reply::Kind::kText)
    looked.found = Read(*place, reply->items[2].text);
  (looked.found.has_value() ? hits_ : misses_).fetch_add(1, std::memory_order_relaxed);
  looked.place = std::move(place);
  return looked;
}

RedisTier::Mac RedisTier::MacOf(std::string_view key, std::string_view body) const {
  // The MAC covers the Redis key, so that a value cannot be moved to another key.
  std::string all;
  all.reserve(8 + key.size() + body.size());
  PutNumber(key.size(), &all);
  all += key;
  all += body;
  return HmacOf(value_secret_, all);
}

std::string RedisTier::ValueOf(const SharedAnswer& answer) const {
  const TierPlace& place = *answer.place();
  std::string value(kMagic);
  PutNumber(static_cast<uint64_t>(UnixMillis()), &value);
  value += place.era;
  PutNumber(place.words.size(), &value);
  value += place.words;
  v1::Update events;
  api::TokenStream::Cursor cursor(*answer.log());
  while (const api::StreamEvent* event = cursor.Next())
    cluster::ToWire(*event, events.add_events());
  events.AppendToString(&value);
  const Mac mac = MacOf(place.key, value);
  value.append(reinterpret_cast<const char*>(mac.data()), mac.size());
  return value;
}

std::optional<SharedCacheBackend::Found> RedisTier::Read(const TierPlace& place,
                                                         std::string_view value) {
  const auto rejected = [this]() -> std::optional<Found> {
    rejected_.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  };
  if (value.size() < kMacBytes) return rejected();
  const std::string_view given = value.substr(value.size() - kMacBytes);
  value.remove_suffix(kMacBytes);
  const Mac mac = MacOf(place.key, value);
  if (CRYPTO_memcmp(mac.data(), given.data(), kMacBytes) != 0) return rejected();
  // The MAC is valid: a server with this secret wrote the value.
  std::string_view magic, era, words;
  uint64_t written_ms = 0, words_size = 0;
  if (!TakeText(&value, kMagic.size(), &magic) || magic != kMagic) return rejected();
  if (!TakeNumber(&value, &written_ms) || !TakeText(&value, 2 * kEraBytes, &era)) return rejected();
  if (!TakeNumber(&value, &words_size) || !TakeText(&value, words_size, &words)) return rejected();
  if (words != place.words) return rejected();
  if (era != place.era) return std::nullopt;  // from before a flush
  Found found;
  const int64_t age_ms = UnixMillis() - static_cast<int64_t>(written_ms);
  found.age = milliseconds(std::max<int64_t>(age_ms, 0));  // clocks of servers differ
  if (found.age >= options_.ttl) return std::nullopt;
  v1::Update events;
  if (!events.ParseFromArray(value.data(), static_cast<int>(value.size()))) return rejected();
  for (const v1::WireEvent& event : events.events())
    found.events.push_back(cluster::FromWire(event));
  if (found.events.empty() || found.events.back().kind != api::StreamEvent::Kind::kEnd)
    return rejected();
  return found;
}

void RedisTier::Keep(std::shared_ptr<const SharedAnswer> answer) {
  const size_t bytes = answer->bytes();
  const MutexLock lock(mutex_);
  if (bytes > options_.max_value_bytes || waiting_.size() >= kMaxWaiting ||
      waiting_bytes_ + bytes > kMaxWaitingBytes || stopped_) {
    unwritten_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  waiting_bytes_ += bytes;
  waiting_.push_back(std::move(answer));
  changed_.NotifyAll();
}

void RedisTier::Flush(std::optional<std::string_view> tenant) {
  {
    const MutexLock lock(mutex_);
    const uint64_t number = ++flush_number_;
    if (tenant.has_value() && flushes_.size() < kMaxFlushes) {
      flushes_[std::string(*tenant)] = number;
    } else {
      flush_all_ = number;
    }
  }
  (void)WriteFlushes(std::chrono::steady_clock::now() + kMaxWrite);
}

bool RedisTier::WriteFlushes(TimePoint until) {
  const MutexLock one(flush_mutex_);
  while (true) {
    std::string tenant;
    uint64_t all = 0, number = 0;
    {
      const MutexLock lock(mutex_);
      all = number = flush_all_;
      if (all == 0) {
        if (flushes_.empty()) return true;
        std::tie(tenant, number) = *flushes_.begin();
      }
    }
    const std::string key = all != 0 ? std::string(kEraOfAll) : EraKey(tenant);
    Result<redis::Pool::Loan> connection = pool_.Take(until);
    if (!connection.ok()) return false;
    if (!(*connection)->Call({"SET", key, RandomEra()}, until).ok()) return false;
    const MutexLock lock(mutex_);
    // A flush that came during the call must be sent again: it also covers answers begun since.
    if (all != 0) {
      if (flush_all_ == number) flush_all_ = 0;
    } else if (const auto written = flushes_.find(tenant); written->second == number) {
      flushes_.erase(written);
    }
  }
}

void RedisTier::Write(const SharedAnswer& answer) {
  const std::string value = ValueOf(answer);
  const auto set = [&]() -> Status {
    if (value.size() > options_.max_value_bytes || Flushing(answer.place()->tenant))
      return Unavailable("redis_refused", "it is not to be kept");
    const TimePoint until = std::chrono::steady_clock::now() + kMaxWrite;
    ASSIGN_OR_RETURN(const redis::Pool::Loan connection, pool_.Take(until));
    const std::string ttl = std::to_string(std::chrono::ceil<milliseconds>(options_.ttl).count());
    return connection->Call({"SET", answer.place()->key, value, "PX", ttl}, until).status();
  };
  (set().ok() ? written_ : unwritten_).fetch_add(1, std::memory_order_relaxed);
}

void RedisTier::Run(const std::stop_token& stop) {
  NameThread("tutti-tier");
  while (!stop.stop_requested()) {
    pool_.Tend();
    (void)WriteFlushes(std::chrono::steady_clock::now() + kMaxWrite);
    std::shared_ptr<const SharedAnswer> answer;
    {
      const MutexLock lock(mutex_);
      if (waiting_.empty() && !tend_ && !stopped_)
        (void)changed_.WaitFor(mutex_, milliseconds(100));
      tend_ = false;
      if (waiting_.empty()) continue;
      answer = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= answer->bytes();
    }
    Write(*answer);
  }
}

RedisTier::Stats RedisTier::stats() const {
  const auto count = [](const std::atomic<uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  return {.hits = count(hits_),
          .misses = count(misses_),
          .failed = count(failed_),
          .rejected = count(rejected_),
          .written = count(written_),
          .unwritten = count(unwritten_),
          .up = pool_.up()};
}

}  // namespace tutti::cache
