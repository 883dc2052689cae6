#include "services/responses/inference_guard.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tutti::responses {
namespace {

thread_local int open_sections = 0;

}  // namespace

void HoldTimes::Add(Duration held) {
  const auto ns = static_cast<uint64_t>(std::max<int64_t>(held.count(), 0));
  const size_t bucket =
      std::min<size_t>(static_cast<size_t>(std::bit_width(ns)), counts_.size() - 1);
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  int64_t most = max_ns_.load(std::memory_order_relaxed);
  while (held.count() > most && !max_ns_.compare_exchange_weak(most, held.count())) {
  }
}

uint64_t HoldTimes::count() const {
  uint64_t count = 0;
  for (const auto& each : counts_) count += each.load(std::memory_order_relaxed);
  return count;
}

Duration HoldTimes::most() const { return Duration(max_ns_.load(std::memory_order_relaxed)); }

Duration HoldTimes::Quantile(double part) const {
  const double wanted = part * static_cast<double>(count());
  uint64_t so_far = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    so_far += counts_[i].load(std::memory_order_relaxed);
    if (static_cast<double>(so_far) >= wanted) return Duration(int64_t{1} << i);
  }
  return most();
}

// Real time always: it is what a client would wait.
CriticalSection::CriticalSection(HoldTimes* times) : times_(times), begin_(SteadyClock().Now()) {
  ++open_sections;
}

CriticalSection::~CriticalSection() {
  --open_sections;
  if (times_ != nullptr) times_->Add(SteadyClock().Now() - begin_);
}

void CheckNoSection() { CHECK(open_sections == 0) << "inference begins with a dialog's data held"; }

}  // namespace tutti::responses
