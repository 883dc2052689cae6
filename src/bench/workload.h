// The prompts and arrival times of a load test, both from a seed, so that two runs or two servers
// get the same. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::bench {

enum class Arrivals {
  kFixed,    // every 1 / rate seconds
  kPoisson,  // of a Poisson process, given that exactly `count` fall into count / rate seconds
  kBurst,    // kBurstSize at once, as often as the rate asks
};
inline constexpr int kBurstSize = 8;
Result<Arrivals> ArrivalsFromName(std::string_view name);  // "fixed", "poisson", "burst"

// Due times in seconds, ascending, the asked rate over count / rate seconds exactly.
std::vector<double> ArrivalTimes(Arrivals kind, double rate, int count, uint64_t seed);

enum class Workload {
  kRandom,  // every prompt about as long as asked, all different
  kChat,    // lengths from a quarter to four times as asked, most of them short, all different
  kShared,  // three quarters of every prompt are the same, at its beginning
};
Result<Workload> WorkloadFromName(std::string_view name);  // "random", "chat", "shared"

// Seed of the prompts of a level, so that no level of a run benefits from prompts of another in the
// server's prefix cache. Depends on the arguments only.
uint64_t LevelSeed(uint64_t seed, int level);

// The text of request `index`, of about `words` common English words, each about one token. Depends
// on the arguments only.
std::string PromptText(Workload kind, int words, uint64_t seed, int index);

}  // namespace tutti::bench
