// GrpcContext: the state that all calls of a server share. Immutable or with its own
// synchronisation; any thread. Also here are two of its members: SeenCertificates, the cache of
// parsed client certificates, and LatencyWindow, the histograms of call latencies by method.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "server/grpc/abuse_limits.h"
#include "server/grpc/grpc_server.h"
#include "server/grpc/pump.h"
#include "services/auth/authenticator.h"
#include "services/auth/key_text.h"

namespace tutti::rpc {

// A cache of parsed client certificates, so that a certificate is parsed (0.1 ms) once and not for
// each call of its connection. Cleared when it holds kMost entries. Any thread.
class SeenCertificates {
 public:
  static constexpr size_t kMost = 1024;

  // `pem`: a verified certificate. Returns nullopt if it cannot be parsed.
  std::optional<auth::CertifiedName> NameOf(std::string_view pem);
  size_t size() const;

 private:
  mutable Mutex mutex_;
  std::map<auth::Digest, auth::CertifiedName> seen_ GUARDED_BY(mutex_);
};

struct LatencySummary {
  std::string method;
  uint64_t count = 0, errors = 0;
  double avg_ms = 0, p50_ms = 0, p95_ms = 0, p99_ms = 0, max_ms = 0;
  double per_second = 0;
};

struct WindowSummary {
  Duration window{0};
  LatencySummary total;
  std::vector<LatencySummary> methods;  // with calls, by name
};

// Times of calls since the start or the last reset: counts, means and quantiles by method.
//
// Times fall into buckets 1/64 of a power of two wide, so that a quantile is right within 1 %; a
// method takes 20 KiB however many calls it has. Any thread.
class LatencyWindow {
 public:
  explicit LatencyWindow(const Clock& clock) : clock_(clock), since_(clock.Now()) {}

  // `method` is one of a closed set.
  void Record(std::string_view method, Duration took, bool ok);
  WindowSummary Read(bool reset);

 private:
  static constexpr int kFine = 64;  // buckets of one power of two
  static constexpr int kPowers = 40;
  struct Histogram {
    std::array<uint64_t, static_cast<size_t>(kFine* kPowers)> buckets{};
    uint64_t count = 0, errors = 0;
    Duration sum{0}, max{0};
    void Add(const Histogram& other);
    double QuantileMs(double q) const;
  };
  static size_t BucketOf(Duration took);
  static double MiddleMs(size_t bucket);
  static LatencySummary Summary(std::string method, const Histogram& histogram, Duration window);

  const Clock& clock_;
  Mutex mutex_;
  TimePoint since_ GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Histogram>, std::less<>> methods_ GUARDED_BY(mutex_);
};

struct GrpcContext {
  GrpcContext(GrpcOptions server_options, const GrpcServer::Dependencies& dependencies);

  std::string NewRequestId();

  const GrpcOptions options;
  const GrpcServer::Dependencies deps;
  const bool loopback;
  Pump pump;
  Handlers handlers;  // waiting calls are run by the pump
  LatencyWindow window;
  ConnectionAccounts accounts;
  SeenCertificates certificates;
  std::atomic<int> active{0};  // calls being answered that a drain waits for
  std::atomic<bool> draining{false};

 private:
  const uint64_t id_key_;  // of this server's request ids
  std::atomic<uint64_t> next_id_{0};
};

}  // namespace tutti::rpc
