#include "engine/policy/draft_gain.h"

#include <algorithm>
#include <limits>

namespace tutti::engine {
namespace {

// Steps with proposals must promise so much more to be taken: the promise is an estimate, and a
// step without is sure.
constexpr double kWorthIt = 1.05;
// What steps must promise at no cost to be tried again where they did not pay.
constexpr double kWorthALook = 1.25;
// Trials of all sequences that speak for one that has none of its own.
constexpr double kTrialsOfOthers = 4;
constexpr uint16_t kMostTrials = 64;
// Before anything was counted: what copies of texts gave, rounded down.
constexpr std::array kFirstChances = {0.2, 0.35, 0.5, 0.7, 0.85};
constexpr double kFirstTrials = 8;

}  // namespace

int DraftHits::BucketOf(int agreed) {
  return agreed <= 2 ? 0 : agreed == 3 ? 1 : agreed <= 5 ? 2 : agreed <= 9 ? 3 : 4;
}

void DraftHits::Note(int agreed, bool hit) {
  Count& count = counts_[static_cast<size_t>(BucketOf(agreed))];
  if (count.trials >= kMostTrials) {
    count.trials /= 2;
    count.hits /= 2;
  }
  ++count.trials;
  count.hits = static_cast<uint16_t>(count.hits + (hit ? 1 : 0));
}

double DraftHits::Chance(int agreed, const DraftHits& others) const {
  const auto bucket = static_cast<size_t>(BucketOf(agreed));
  const Count& all = others.counts_[bucket];
  const double usual =
      (all.hits + kFirstTrials * kFirstChances[bucket]) / (all.trials + kFirstTrials);
  const Count& own = counts_[bucket];
  return (own.hits + kTrialsOfOthers * usual) / (own.trials + kTrialsOfOthers);
}

void DraftCost::Observe(int sequences, int rows, Duration took) {
  const auto ns = static_cast<double>(took.count());
  if (ns <= 0 || sequences < 1 || sequences > kMostDraftSequences || rows < sequences ||
      rows > kMostDraftRows)
    return;
  ++since_with_;
  ++since_without_;
  (rows > sequences ? since_with_ : since_without_) = 0;
  double& average = ns_[static_cast<size_t>(sequences)][static_cast<size_t>(rows)];
  // A single slow step (a busy host) counts at most as twice the average.
  average += average == 0 ? ns : (std::min(ns, 2 * average) - average) / 4;
}

double DraftCost::Ratio(int sequences, int rows) const {
  const auto& known = ns_[static_cast<size_t>(sequences)];
  const double without = known[static_cast<size_t>(sequences)];
  if (without == 0) return std::numeric_limits<double>::infinity();
  // Between what was measured, in proportion; beyond it, as the most that was.
  int below = sequences, above = rows;
  for (int r = sequences; r <= rows; ++r) {
    if (known[static_cast<size_t>(r)] > 0) below = r;
  }
  while (above < kMostDraftRows && known[static_cast<size_t>(above)] == 0) ++above;
  const double low = known[static_cast<size_t>(below)], high = known[static_cast<size_t>(above)];
  const double ns = below == rows || high == 0
                        ? low
                        : low + (high - low) * (rows - below) / static_cast<double>(above - below);
  return std::max(1.0, ns / without);
}

void ChooseDrafts(const DraftCost& cost, int room, std::span<DraftWish> wishes) {
  for (DraftWish& wish : wishes) wish.take = 0;
  const auto sequences = static_cast<int>(wishes.size());
  if (sequences < 1 || sequences > kMostDraftSequences || cost.DueWithout()) return;
  const int each = std::min(kMostDrafts, kMostDraftRows / sequences - 1);
  // The likeliest first, of whichever sequence; as far as the best ratio of tokens to time.
  std::array<int, kMostDraftSequences> taken{}, best{};
  const bool look = cost.DueWith();
  double best_gain = look ? 0 : kWorthIt;
  double tokens = sequences;
  for (int rows = sequences + 1; rows <= sequences + room; ++rows) {
    int next = -1;
    double chance = 0;
    for (int i = 0; i < sequences; ++i) {
      const DraftWish& wish = wishes[static_cast<size_t>(i)];
      const int already = taken[static_cast<size_t>(i)];
      if (already >= std::min(wish.available, each)) continue;
      const double its = wish.chance[static_cast<size_t>(already)];
      if (its > chance) {
        next = i;
        chance = its;
      }
    }
    if (next < 0) break;
    ++taken[static_cast<size_t>(next)];
    tokens += chance;
    const double alone = tokens / sequences;
    const double gain = alone / cost.Ratio(sequences, rows);
    if (gain <= best_gain || (look && alone < kWorthALook)) continue;
    best_gain = gain;
    best = taken;
  }
  for (int i = 0; i < sequences; ++i)
    wishes[static_cast<size_t>(i)].take = best[static_cast<size_t>(i)];
}

}  // namespace tutti::engine
