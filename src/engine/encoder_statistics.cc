#include "engine/encoder_statistics.h"

namespace tutti::engine {

void EncoderStatistics::Served(int64_t tokens, Duration took) {
  constexpr double kKeep = 15.0 / 16;
  served_ns_ = served_ns_ * kKeep + static_cast<double>(took.count());
  served_tokens_ = served_tokens_ * kKeep + static_cast<double>(tokens);
  ledger_->service_ns.store(static_cast<int64_t>(served_ns_ / served_tokens_ * 1024),
                            std::memory_order_relaxed);
}

void EncoderStatistics::Publish(bool has_requests, TimePoint oldest, TimePoint now) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  published_.waiting_items.store(count_.waiting_items, kRelaxed);
  published_.waiting_tokens.store(count_.waiting_tokens, kRelaxed);
  published_.oldest_ns.store(oldest.time_since_epoch().count(), kRelaxed);
  published_.batches.store(count_.batches, kRelaxed);
  published_.items.store(count_.items, kRelaxed);
  published_.tokens.store(count_.tokens, kRelaxed);
  published_.padded.store(count_.padded_tokens, kRelaxed);
  for (size_t i = 0; i < count_.reasons.size(); ++i)
    published_.reasons[i].store(count_.reasons[i], kRelaxed);
  published_.failed_batches.store(count_.failed_batches, kRelaxed);
  published_.retried.store(count_.retried_items, kRelaxed);
  published_.failed_items.store(count_.failed_items, kRelaxed);
  published_.passed.store(count_.passed_over, kRelaxed);
  published_.longest_passed.store(count_.longest_passed, kRelaxed);
  published_.wasted.store(count_.wasted_tokens, kRelaxed);
  published_.finished.store(count_.finished, kRelaxed);
  published_.busy_ns.store(count_.busy.count(), kRelaxed);
  pulse_.Publish(has_requests, now);
}

EncoderStats EncoderStatistics::Snapshot(TimePoint now) const {
  EncoderStats s;
  s.requests = ledger_->unfinished.load();
  s.preparing = ledger_->preparing.load();
  s.inputs = ledger_->items.load();
  s.waiting_items = published_.waiting_items.load();
  s.waiting_tokens = published_.waiting_tokens.load();
  s.queued_bytes = ledger_->queued_bytes.load();
  s.level = ledger_->Level();
  s.result_bytes = ledger_->result_bytes.load();
  const TimePoint oldest{Duration(published_.oldest_ns.load())};
  s.oldest_waiting = oldest > now ? Duration(0) : now - oldest;
  s.predicted_wait =
      PredictEncodeWait(ledger_->queued_tokens.load(), Duration(ledger_->service_ns.load()));
  s.batches = published_.batches.load();
  s.items = published_.items.load();
  s.tokens = published_.tokens.load();
  s.padded_tokens = published_.padded.load();
  for (size_t i = 0; i < s.reasons.size(); ++i) s.reasons[i] = published_.reasons[i].load();
  s.failed_batches = published_.failed_batches.load();
  s.retried_items = published_.retried.load();
  s.failed_items = published_.failed_items.load();
  s.passed_over = published_.passed.load();
  s.longest_passed = published_.longest_passed.load();
  s.wasted_tokens = published_.wasted.load();
  s.refused = ledger_->refused.load();
  s.finished = published_.finished.load();
  s.busy = Duration(published_.busy_ns.load());
  return s;
}

}  // namespace tutti::engine
