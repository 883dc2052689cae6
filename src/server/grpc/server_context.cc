#include "server/grpc/server_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "server/access/client_certificate.h"
#include "server/grpc/acceptor.h"

namespace tutti::rpc {

std::optional<auth::CertifiedName> SeenCertificates::NameOf(std::string_view pem) {
  const auth::Digest digest = auth::DigestOf(pem);
  {
    const MutexLock lock(mutex_);
    if (const auto found = seen_.find(digest); found != seen_.end()) return found->second;
  }
  auto read = access::ReadClientCertificate(pem);
  if (!read.has_value()) return std::nullopt;
  auth::CertifiedName name{.name = std::move(read->name), .expires_s = read->expires_s};
  const MutexLock lock(mutex_);
  if (seen_.size() >= kMost) seen_.clear();
  seen_[digest] = name;
  return name;
}

size_t SeenCertificates::size() const {
  const MutexLock lock(mutex_);
  return seen_.size();
}

GrpcContext::GrpcContext(GrpcOptions server_options, const GrpcServer::Dependencies& dependencies)
    : options(std::move(server_options)),
      deps(dependencies),
      loopback(IsLoopback(options.host).ok() && *IsLoopback(options.host)),
      pump(*dependencies.clock,
           std::min<Duration>(std::chrono::seconds(5), options.limits.reader_stall / 2)),
      handlers(options.handlers, options.limits.waiting_calls, options.limits.waiting_bytes,
               [this](std::function<void()> run) { pump.Post(std::move(run)); }),
      window(*dependencies.clock),
      id_key_(RandomBits()) {
  CHECK(deps.authority != nullptr) << "a server that asks nobody who may call";
}

std::string GrpcContext::NewRequestId() {
  const uint64_t n = next_id_.fetch_add(1, std::memory_order_relaxed);
  const auto block =
      Philox4x32({static_cast<uint32_t>(n), static_cast<uint32_t>(n >> 32), 0, 0},
                 {static_cast<uint32_t>(id_key_), static_cast<uint32_t>(id_key_ >> 32)});
  return fmt::format("grpc-{:08x}{:08x}{:08x}", block[0], block[1], block[2]);
}

// --- LatencyWindow ---

// Microseconds as a number with six bits behind its first: exact below 128, then 1.6 % wide.
size_t LatencyWindow::BucketOf(Duration took) {
  const auto us = static_cast<uint64_t>(
      std::max<int64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count(), 0));
  if (us < 2 * kFine) return static_cast<size_t>(us);
  const int power = static_cast<int>(std::bit_width(us)) - 1;  // 7 and more
  const size_t fine = (us >> (power - 6)) & (kFine - 1);
  const size_t bucket = static_cast<size_t>(power - 5) * kFine + fine;
  return std::min(bucket, static_cast<size_t>(kFine * kPowers - 1));
}

double LatencyWindow::MiddleMs(size_t bucket) {
  if (bucket < 2 * kFine) return (static_cast<double>(bucket) + 0.5) / 1e3;
  const int power = static_cast<int>(bucket / kFine) + 5;
  const double low = static_cast<double>(kFine + bucket % kFine);
  return std::ldexp(low + 0.5, power - 6) / 1e3;
}

void LatencyWindow::Histogram::Add(const Histogram& other) {
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
  count += other.count;
  errors += other.errors;
  sum += other.sum;
  max = std::max(max, other.max);
}

double LatencyWindow::Histogram::QuantileMs(double q) const {
  // The smallest time that at least this share of the calls did not exceed.
  const auto rank = std::max<uint64_t>(
      1, static_cast<uint64_t>(std::ceil(q * static_cast<double>(count) - 1e-9)));
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets.size(); ++i) {
    seen += buckets[i];
    if (seen >= rank) return std::min(MiddleMs(i), ToMillis(max));
  }
  return 0;
}

LatencySummary LatencyWindow::Summary(std::string method, const Histogram& histogram,
                                      Duration window) {
  LatencySummary out;
  out.method = std::move(method);
  out.count = histogram.count;
  out.errors = histogram.errors;
  if (histogram.count == 0) return out;
  out.avg_ms = ToMillis(histogram.sum) / static_cast<double>(histogram.count);
  out.p50_ms = histogram.QuantileMs(0.50);
  out.p95_ms = histogram.QuantileMs(0.95);
  out.p99_ms = histogram.QuantileMs(0.99);
  out.max_ms = ToMillis(histogram.max);
  if (window > Duration::zero()) {
    out.per_second = static_cast<double>(histogram.count) / ToSeconds(window);
  }
  return out;
}

void LatencyWindow::Record(std::string_view method, Duration took, bool ok) {
  const MutexLock lock(mutex_);
  auto found = methods_.find(method);
  if (found == methods_.end()) {
    found = methods_.emplace(method, std::make_unique<Histogram>()).first;
  }
  Histogram& histogram = *found->second;
  ++histogram.buckets[BucketOf(took)];
  ++histogram.count;
  histogram.errors += ok ? 0 : 1;
  histogram.sum += took;
  histogram.max = std::max(histogram.max, took);
}

WindowSummary LatencyWindow::Read(bool reset) {
  WindowSummary out;
  const MutexLock lock(mutex_);
  const TimePoint now = clock_.Now();
  out.window = now - since_;
  Histogram total;
  for (const auto& [method, histogram] : methods_) {
    total.Add(*histogram);
    out.methods.push_back(Summary(method, *histogram, out.window));
  }
  out.total = Summary("", total, out.window);
  if (reset) {
    methods_.clear();
    since_ = now;
  }
  return out;
}

}  // namespace tutti::rpc
