#include "app/process/memory_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti::app {
namespace {

using api::LoadLevel;

// The level for `share` after the level `before`: rises at once, falls with hysteresis.
LoadLevel Next(LoadLevel before, double share) {
  return std::max(api::LevelOf(share), std::min(before, api::LevelOf(share + MemoryWatch::kSlack)));
}

}  // namespace

MemoryWatch::MemoryWatch(const api::HealthProbe& inner, int64_t limit, Ports ports,
                         std::atomic<LoadLevel>& level, const Clock& clock, Logger& log)
    : inner_(inner),
      limit_(limit),
      ports_(std::move(ports)),
      level_(level),
      clock_(clock),
      log_(log) {}

Status MemoryWatch::CheckRoom() const {
  if (limit_ <= 0) return OkStatus();
  ports_.shrink();  // what only loading needed
  const int64_t resident = ports_.resident();
  const double share = static_cast<double>(resident - (limit_ - kLeastRoom)) / kLeastRoom;
  if (api::LevelOf(share) != LoadLevel::kRed) return OkStatus();
  return ResourceExhausted(
      "out_of_memory",
      fmt::format("memory use is {} MiB before the first request, limit {} MiB "
                  "(--memory-limit-bytes, default: the machine's); load smaller models",
                  resident >> 20, limit_ >> 20));
}

void MemoryWatch::ModelsAreLoaded(int64_t later) {
  ports_.shrink();  // releases memory that only loading needed
  const int64_t planned = ports_.resident() + later;
  planned_.store(planned);
  if (limit_ > 0 && limit_ - planned < kLeastRoom)
    log_.Warn("memory.tight", {{"limit_bytes", limit_}, {"models_bytes", planned}});
}

double MemoryWatch::Share(int64_t resident) const {
  // If the models alone exceed the limit, the limit minus a minimum counts as planned.
  const int64_t planned = std::min(planned_.load(), limit_ - kLeastRoom);
  return static_cast<double>(resident - planned) / static_cast<double>(limit_ - planned);
}

void MemoryWatch::Look() {
  const TimePoint now = clock_.Now();
  if (limit_ <= 0 || planned_.load() == 0 || now < next_look_) return;
  next_look_ = now + kEvery;
  int64_t resident = ports_.resident();
  if (Share(resident) >= kShrink && now >= next_shrink_) {
    ports_.shrink();
    next_shrink_ = now + kShrinkEvery;
    resident = ports_.resident();
  }
  resident_.store(resident);
  const LoadLevel before = level_.load(), next = Next(before, Share(resident));
  if (next == before) return;
  level_.store(next);
  log_.Log(next == LoadLevel::kGreen ? LogLevel::kInfo : LogLevel::kWarn, "memory.level",
           {{"level", api::LoadLevelName(next)},
            {"resident_bytes", resident},
            {"models_bytes", planned_.load()},
            {"limit_bytes", limit_}});
}

MemoryWatch::Figures MemoryWatch::figures() const {
  return {limit_, planned_.load(), resident_.load(), level_.load()};
}

Status MemoryWatch::ready() const {
  RETURN_IF_ERROR(inner_.ready());
  if (level_.load() == LoadLevel::kRed)
    return Unavailable("overloaded", "the server's memory is nearly used up");
  return OkStatus();
}

}  // namespace tutti::app
