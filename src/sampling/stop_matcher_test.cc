#include "sampling/stop_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/random.h"

namespace tutti::sampling {
namespace {

struct Outcome {
  std::string text;
  std::optional<size_t> stop;
  friend bool operator==(const Outcome&, const Outcome&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Outcome& o) {
    return out << '"' << o.text << "\" stop " << (o.stop ? static_cast<int>(*o.stop) : -1);
  }
};

Outcome Match(const StopSet& set, bool include, const std::vector<std::string>& pieces) {
  StopMatcher matcher(&set, include);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    outcome.stop = matcher.Push(piece, outcome.text);
    if (outcome.stop) return outcome;
  }
  matcher.Finish(outcome.text);
  return outcome;
}

// By trying every end of the text.
Outcome Reference(const std::vector<std::string>& stops, bool include, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> hit;
    for (size_t s = 0; s < stops.size(); ++s) {
      if (end >= stops[s].size() &&
          text.compare(end - stops[s].size(), stops[s].size(), stops[s]) == 0 &&
          (!hit || stops[s].size() > stops[*hit].size())) {
        hit = s;
      }
    }
    if (hit) return {text.substr(0, include ? end : end - stops[*hit].size()), hit};
  }
  return {text, std::nullopt};
}

// U86: a stop string split over tokens is caught and not emitted.
TEST(StopMatcher, CatchesAStopStringSplitOverTokens) {
  const StopSet set({"</end>"});
  EXPECT_EQ(Match(set, false, {"Hello", " <", "/e", "nd", "> more"}), (Outcome{"Hello ", 0}));
  EXPECT_EQ(Match(set, true, {"Hello", " <", "/e", "nd", "> more"}), (Outcome{"Hello </end>", 0}));
  EXPECT_EQ(Match(set, false, {"Hello", " <", "/e", "x"}), (Outcome{"Hello </ex", std::nullopt}));
}

TEST(StopMatcher, HoldsBackOnlyWhatMayStillBecomeAStop) {
  const StopSet set({"abc", "bcd"});
  StopMatcher matcher(&set, false);
  std::string out;
  matcher.Push("xab", out);
  EXPECT_EQ(out, "x");
  matcher.Push("b", out);
  EXPECT_EQ(out, "xab");
  matcher.Finish(out);
  EXPECT_EQ(out, "xabb");
}

TEST(StopMatcher, EqualsTheReferenceForAnyStopsAndAnyCutting) {
  Random random(21);
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops(1 + random.Below(4));
    for (std::string& stop : stops) {
      for (uint64_t i = 1 + random.Below(5); i > 0; --i)
        stop.push_back(static_cast<char>('a' + random.Below(2)));
    }
    std::string text;
    for (uint64_t i = random.Below(30); i > 0; --i)
      text.push_back(static_cast<char>('a' + random.Below(3)));
    std::vector<std::string> pieces;
    for (size_t i = 0; i < text.size();) {
      const size_t take = std::min<size_t>(random.Below(4), text.size() - i);
      pieces.push_back(text.substr(i, take));
      i += take;
    }
    const bool include = random.Chance(0.5);
    EXPECT_EQ(Match(StopSet(stops), include, pieces), Reference(stops, include, text)) << text;
  }
}

TEST(StopMatcher, IsLinearOnRepetitiveText) {
  const StopSet set({std::string(255, 'a') + "b"});
  StopMatcher matcher(&set, false);
  std::string out;
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(matcher.Push(std::string(5000, 'a'), out));
  EXPECT_EQ(out.size(), 1'000'000u - 255u);
}

}  // namespace
}  // namespace tutti::sampling
