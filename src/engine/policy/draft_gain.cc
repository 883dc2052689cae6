#include "engine/policy/draft_gain.h"

#include <algorithm>
#include <limits>

namespace tutti::engine {
namespace {

// Minimum expected gain for which draft tokens are used: the gain is an estimate, while a step
// without draft tokens is certain.
constexpr double kWorthIt = 1.05;
// Minimum gain, if additional rows were free, for which draft tokens that did not pay are retried.
constexpr double kWorthALook = 1.25;
// Weight of all sequences' counts in the estimate for one sequence, in trials.
constexpr double kTrialsOfOthers = 4;
constexpr uint16_t kMaxTrials = 64;
// Acceptance rates assumed before any were counted: rounded down from those of copied text.
constexpr std::array kFirstChances = {0.2, 0.35, 0.5, 0.7, 0.85};
// ... and for a draft model a tenth as large.
constexpr std::array kFirstOfModel = {0.5, 0.6, 0.7, 0.8, 0.85};
constexpr double kFirstTrials = 8;
// Cost of reading one prompt token as a part of a pass for one sequence, until it is measured: 0.1
// to 0.33 for small models.
constexpr double kRowOfPass = 0.2;

// Sets `take` and returns the gain of the choice, 1 if no draft token is used. With `look`, chooses
// the best drafts without the draft model, whether they pay or not.
double ChooseBest(const DraftCost& cost, const PassCost& passes, int room,
                  std::span<DraftOffer> offers, bool look) {
  for (DraftOffer& offer : offers) offer.take = 0;
  const auto sequences = static_cast<int>(offers.size());
  const int each = std::min(kMaxDrafts, kMaxDraftRows / sequences - 1);
  // Greedy: adds the most likely draft token of any sequence, and keeps the number of tokens with
  // the best ratio of expected tokens to time.
  std::array<int, kMaxDraftSequences> taken{}, best{};
  double best_gain = look ? 0 : kWorthIt;
  double tokens = sequences;
  int modelled = 0, longest = 0;  // sequences for which the model is asked, and for how many tokens
  for (int rows = sequences + 1; rows <= sequences + room; ++rows) {
    int next = -1;
    double chance = 0;
    for (int i = 0; i < sequences; ++i) {
      const DraftOffer& offer = offers[static_cast<size_t>(i)];
      const int already = taken[static_cast<size_t>(i)];
      if (already >= std::min(offer.available, each)) continue;
      if (look && offer.source == DraftSource::kModel) continue;
      const double its = offer.chance[static_cast<size_t>(already)];
      if (its > chance) {
        next = i;
        chance = its;
      }
    }
    if (next < 0) break;
    const int now = ++taken[static_cast<size_t>(next)];
    if (offers[static_cast<size_t>(next)].source == DraftSource::kModel) {
      modelled += now == 1 ? 1 : 0;
      longest = std::max(longest, now);
    }
    tokens += chance;
    const double alone = tokens / sequences;
    double ratio = cost.Ratio(sequences, rows);
    if (longest > 0) {
      const double without = cost.Without(sequences);
      ratio += longest * passes.Pass(modelled, without) / without;
    }
    const double gain = alone / ratio;
    if (gain <= best_gain || (look && alone < kWorthALook)) continue;
    best_gain = gain;
    best = taken;
  }
  bool any = false;
  for (int i = 0; i < sequences; ++i) {
    offers[static_cast<size_t>(i)].take = best[static_cast<size_t>(i)];
    any |= best[static_cast<size_t>(i)] > 0;
  }
  return any ? best_gain : 1;
}

bool MayDraft(const DraftCost& cost, int sequences) {
  return sequences >= 1 && sequences <= kMaxDraftSequences && cost.Without(sequences) > 0;
}

}  // namespace

int AcceptanceStats::BucketOf(int agreed) {
  return agreed <= 2 ? 0 : agreed == 3 ? 1 : agreed <= 5 ? 2 : agreed <= 9 ? 3 : 4;
}

void AcceptanceStats::Note(int agreed, bool hit) {
  Count& count = counts_[static_cast<size_t>(BucketOf(agreed))];
  if (count.trials >= kMaxTrials) {
    count.trials /= 2;
    count.hits /= 2;
  }
  ++count.trials;
  count.hits = static_cast<uint16_t>(count.hits + (hit ? 1 : 0));
}

double AcceptanceStats::Chance(int agreed, const AcceptanceStats& others) const {
  const auto bucket = static_cast<size_t>(BucketOf(agreed));
  const Count& all = others.counts_[bucket];
  const double first = (source_ == DraftSource::kModel ? kFirstOfModel : kFirstChances)[bucket];
  const double usual = (all.hits + kFirstTrials * first) / (all.trials + kFirstTrials);
  const Count& own = counts_[bucket];
  return (own.hits + kTrialsOfOthers * usual) / (own.trials + kTrialsOfOthers);
}

void AcceptanceStats::Fade() {
  for (Count& count : counts_) {
    count.trials /= 2;
    count.hits /= 2;
  }
}

void DraftCost::Observe(int sequences, int rows, Duration took) {
  const auto ns = static_cast<double>(took.count());
  if (ns <= 0 || sequences < 1 || sequences > kMaxDraftSequences || rows < sequences ||
      rows > kMaxDraftRows)
    return;
  ++since_with_;
  ++since_without_;
  (rows > sequences ? since_with_ : since_without_) = 0;
  double& average = ns_[static_cast<size_t>(sequences)][static_cast<size_t>(rows)];
  // A single slow step (a busy host) counts at most as twice the average.
  average += average == 0 ? ns : (std::min(ns, 2 * average) - average) / 4;
}

double DraftCost::Without(int sequences) const {
  const auto n = static_cast<size_t>(std::clamp(sequences, 0, kMaxDraftSequences));
  return ns_[n][n];
}

double DraftCost::Ratio(int sequences, int rows) const {
  const auto& known = ns_[static_cast<size_t>(sequences)];
  const double without = known[static_cast<size_t>(sequences)];
  if (without == 0) return std::numeric_limits<double>::infinity();
  // Interpolates between measured numbers of rows; beyond them, uses the largest measured one.
  int below = sequences, above = rows;
  for (int r = sequences; r <= rows; ++r) {
    if (known[static_cast<size_t>(r)] > 0) below = r;
  }
  while (above < kMaxDraftRows && known[static_cast<size_t>(above)] == 0) ++above;
  const double low = known[static_cast<size_t>(below)], high = known[static_cast<size_t>(above)];
  const double ns = below == rows || high == 0
                        ? low
                        : low + (high - low) * (rows - below) / static_cast<double>(above - below);
  return std::max(1.0, ns / without);
}

void PassCost::ObservePasses(int sequences, int passes, Duration took) {
  if (took.count() <= 0 || passes < 1 || sequences < 1 || sequences > kMaxDraftSequences) return;
  const double ns = static_cast<double>(took.count()) / passes;
  double& average = ns_[static_cast<size_t>(sequences)];
  average += average == 0 ? ns : (std::min(ns, 2 * average) - average) / 4;
}

void PassCost::ObserveCatchUp(int rows, Duration took) {
  if (took.count() <= 0 || rows < 1) return;
  const double ns = static_cast<double>(took.count()) / rows;
  row_ns_ += row_ns_ == 0 ? ns : (std::min(ns, 2 * row_ns_) - row_ns_) / 4;
}

double PassCost::Pass(int sequences, double step) const {
  for (int away = 0; away < kMaxDraftSequences; ++away) {
    for (const int n : {sequences - away, sequences + away}) {
      if (n >= 1 && n <= kMaxDraftSequences && ns_[static_cast<size_t>(n)] > 0)
        return ns_[static_cast<size_t>(n)];
    }
  }
  return expected_ * step;
}

double PassCost::Row(double step) const {
  return row_ns_ > 0 ? row_ns_ : kRowOfPass * expected_ * step;
}

void ChooseDrafts(const DraftCost& cost, const PassCost& passes, int room,
                  std::span<DraftOffer> offers) {
  for (DraftOffer& offer : offers) offer.take = 0;
  if (!MayDraft(cost, static_cast<int>(offers.size())) || cost.DueWithout()) return;
  if (cost.DueWith()) {
    ChooseBest(cost, passes, room, offers, /*look=*/true);
    for (const DraftOffer& offer : offers) {
      if (offer.take > 0) return;
    }
  }
  ChooseBest(cost, passes, room, offers, /*look=*/false);
}

double ModelGain(const DraftCost& cost, const PassCost& passes, int sequences,
                 const std::array<double, kMaxDrafts>& chance) {
  if (!MayDraft(cost, sequences)) return 1;
  std::array<DraftOffer, kMaxDraftSequences> offers{};
  const auto all = std::span(offers).first(static_cast<size_t>(sequences));
  for (DraftOffer& offer : all) {
    offer.source = DraftSource::kModel;
    offer.available = kMaxDrafts;
    offer.chance = chance;
  }
  return ChooseBest(cost, passes, kMaxDraftRows, all, /*look=*/false);
}

}  // namespace tutti::engine
