// EncoderStatistics: counters of an encoder's work.
//
// Owned by an EncoderInstance. Only the engine thread changes the counters; Publish() copies them
// to atomics that any thread reads without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "engine/admission_state.h"
#include "engine/encoder_stats.h"
#include "engine/mailbox.h"
#include "engine/pulse.h"

namespace tutti::engine {

class EncoderStatistics {
 public:
  EncoderStatistics(std::shared_ptr<const Mailbox> mailbox, std::shared_ptr<AdmissionState> ledger)
      : mailbox_(std::move(mailbox)), ledger_(std::move(ledger)) {}

  // --- engine thread ---
  EncoderStats& count() { return count_; }  // its counters, and waiting_*
  Pulse& pulse() { return pulse_; }
  // Records the time of a batch of this many tokens, and updates the pace in the ledger.
  void Served(int64_t tokens, Duration took);
  void Publish(bool has_requests, TimePoint oldest, TimePoint now);

  // --- any thread ---
  EncoderStats Snapshot(TimePoint now) const;
  Heartbeat heartbeat() const { return pulse_.Read(*mailbox_); }

 private:
  const std::shared_ptr<const Mailbox> mailbox_;
  const std::shared_ptr<AdmissionState> ledger_;
  EncoderStats count_;                        // engine thread
  double served_ns_ = 0, served_tokens_ = 0;  // decayed; engine thread
  Pulse pulse_;

  // Published after each batch; read by any thread.
  struct Published {
    std::atomic<int> waiting_items{0}, longest_passed{0};
    std::atomic<int64_t> waiting_tokens{0}, oldest_ns{INT64_MAX}, busy_ns{0};
    std::atomic<uint64_t> batches{0}, items{0}, tokens{0}, padded{0}, failed_batches{0}, retried{0},
        failed_items{0}, passed{0}, wasted{0}, finished{0};
    std::array<std::atomic<uint64_t>, kDispatchReasons> reasons{};
  } published_;
};

// Predicted device time of `tokens` waiting tokens, at `per_kilotoken` for 1,024 tokens.
inline Duration PredictEncodeWait(int64_t tokens, Duration per_kilotoken) {
  return Duration(static_cast<int64_t>(static_cast<double>(per_kilotoken.count()) / 1024.0 *
                                       static_cast<double>(tokens)));
}

}  // namespace tutti::engine
