// RedisTier: response cache in Redis that several servers share.
//
// Each answer is one value: time of computation, eras, the words of its key, its events, and an
// HMAC over all of this and the Redis key, with the secret of the deployment. Without the secret a
// writer to Redis can only cause cache misses, or undo a flush by restoring old values. Two more
// values are eras, one per tenant and one for all: random numbers that each flush replaces. An era
// that Redis has lost is created anew, which invalidates all answers of the old one.
//
// Look() takes one round trip and at most 5 ms. After repeated failures a circuit breaker opens,
// and lookups return at once. The tier owns a thread (`tutti-tier`) that connects and writes.
//
// Any thread may call it. It must outlive the caches that use it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "redis/pool.h"
#include "services/cache/answer_key.h"
#include "services/cache/shared_answer.h"

namespace tutti::cache {

inline constexpr size_t kLeastSecretBytes = 32;

class RedisTier final : public SharedCacheBackend {
 public:
  struct Options {
    redis::ConnectionOptions connection;
    // Shared by all servers and otherwise secret; at least kLeastSecretBytes.
    std::string secret;
    Duration ttl = std::chrono::hours(1);
    size_t max_value_bytes = size_t{1} << 20;  // of one answer with its key
    size_t connections = 4;
    Duration max_wait = std::chrono::milliseconds(5);  // of Look()
  };
  // Error: invalid_value (the secret is too short), overloaded (no thread).
  static Result<std::shared_ptr<RedisTier>> Start(Options options);
  ~RedisTier() override;

  bool asks() const override;
  Looked Look(const api::RenderedRequest& rendered) override;
  void Keep(std::shared_ptr<const SharedAnswer> answer) override;
  void Flush(std::optional<std::string_view> tenant) override;

  struct Stats {
    uint64_t hits = 0, misses = 0;
    uint64_t failed = 0;    // looks that Redis did not answer, or not in time
    uint64_t rejected = 0;  // values that were not ours, or of another key
    uint64_t written = 0, unwritten = 0;
    bool up = false;
  };
  Stats stats() const;

 private:
  explicit RedisTier(Options options);
  using Mac = std::array<unsigned char, 32>;

  std::optional<Found> Read(const TierPlace& place, std::string_view value);
  std::string ValueOf(const SharedAnswer& answer) const;
  Mac MacOf(std::string_view key, std::string_view body) const;
  bool Flushing(const std::string& tenant) const;
  // On the thread.
  void Run(const std::stop_token& stop);
  bool WriteFlushes(TimePoint until);
  void Write(const SharedAnswer& answer);

  const Options options_;
  const HashKey key_secret_, value_secret_;
  SteadyClock clock_;
  redis::Pool pool_;
  std::atomic<uint64_t> hits_{0}, misses_{0}, failed_{0}, rejected_{0}, written_{0}, unwritten_{0};

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  bool tend_ GUARDED_BY(mutex_) = true;
  std::deque<std::shared_ptr<const SharedAnswer>> waiting_ GUARDED_BY(mutex_);  // to be written
  size_t waiting_bytes_ GUARDED_BY(mutex_) = 0;
  // Flushes not yet written to Redis: the number of the last flush, by tenant and (flush_all_) of
  // all tenants; 0: none.
  std::map<std::string, uint64_t, std::less<>> flushes_ GUARDED_BY(mutex_);
  uint64_t flush_all_ GUARDED_BY(mutex_) = 0;
  uint64_t flush_number_ GUARDED_BY(mutex_) = 0;
  Mutex flush_mutex_;    // one writes flushes at a time; taken before the other
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace tutti::cache
