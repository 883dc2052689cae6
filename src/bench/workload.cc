#include "bench/workload.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.h"

namespace tutti::bench {
namespace {

constexpr std::array kWords = {
    "the",   "time",  "people", "water", "light",  "house", "story", "river",  "small",  "large",
    "early", "young", "local",  "first", "second", "under", "world", "part",   "number", "city",
    "group", "state", "work",   "life",  "year",   "place", "hand",  "school", "night",  "point"};

Status UnknownName(const char* what, std::string_view name, const char* known) {
  return InvalidArgument("invalid_value", std::string(what) + " must be one of " + known +
                                              ", not \"" + std::string(name.substr(0, 64)) + "\"");
}

void AppendWords(std::string& text, int words, Random random) {
  for (int w = 0; w < words; ++w) {
    if (!text.empty()) text += ' ';
    text += kWords[random.Below(kWords.size())];
  }
}

}  // namespace

Result<Arrivals> ArrivalsFromName(std::string_view name) {
  if (name == "fixed") return Arrivals::kFixed;
  if (name == "poisson") return Arrivals::kPoisson;
  if (name == "burst") return Arrivals::kBurst;
  return UnknownName("--arrivals", name, "fixed, poisson, burst");
}

std::vector<double> ArrivalTimes(Arrivals kind, double rate, int count, uint64_t seed) {
  std::vector<double> due;
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    switch (kind) {
      case Arrivals::kFixed:
        due.push_back(i / rate);
        break;
      // Given their number, the arrivals of a Poisson process are as many independent uniform
      // times.
      case Arrivals::kPoisson:
        due.push_back(random.Uniform() * count / rate);
        break;
      case Arrivals::kBurst:
        due.push_back(i / kBurstSize * kBurstSize / rate);
        break;
    }
  }
  std::sort(due.begin(), due.end());
  return due;
}

Result<Workload> WorkloadFromName(std::string_view name) {
  if (name == "random") return Workload::kRandom;
  if (name == "chat") return Workload::kChat;
  if (name == "shared") return Workload::kShared;
  return UnknownName("--workload", name, "random, chat, shared");
}

uint64_t LevelSeed(uint64_t seed, int level) {
  return Random(Random(seed).Next() + static_cast<uint64_t>(level)).Next();
}

std::string PromptText(Workload kind, int words, uint64_t seed, int index) {
  const Random own(seed * 1'000'003 + 1 + static_cast<uint64_t>(index));
  std::string text;
  switch (kind) {
    case Workload::kRandom:
      AppendWords(text, words, own);
      break;
    case Workload::kChat: {
      Random lengths = own;
      const double factor =
          std::exp2(4 * std::pow(lengths.Uniform(), 1.5) - 2);  // 1/4 .. 4, median below 1
      AppendWords(text, std::max(1, static_cast<int>(words * factor)), lengths);
      break;
    }
    case Workload::kShared:
      AppendWords(text, words * 3 / 4, Random(seed));
      AppendWords(text, words - words * 3 / 4, own);
      break;
  }
  return text;
}

}  // namespace tutti::bench
