#include "engine/policy/pick_batch.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tutti::engine {
namespace {

constexpr double kTokens = 128, kSquares = 128.0 * 128.0;  // of one unit of the features
constexpr double kKeep = 1 - 1.0 / 46;                     // half after 32 observations
// Ridge term: pulls every coefficient a little towards zero. Coefficients that the measured batches
// cannot separate (all of one length, say) then share the cost rather than cancel each other.
constexpr double kRidge = 1e-3;

// Solves the equations of the terms in `mask`, the others being zero. False when they are singular.
template <typename Matrix, typename Vector>
bool Solve(Matrix m, Vector y, unsigned mask, Vector* x) {
  const int n = static_cast<int>(y.size());
  for (int i = 0; i < n; ++i) {
    if ((mask >> i & 1) != 0) continue;
    for (int j = 0; j < n; ++j) m[i][j] = m[j][i] = 0;
    m[i][i] = 1;
    y[i] = 0;
  }
  for (int i = 0; i < n; ++i) {  // positive definite: no pivoting
    if (!(m[i][i] > 0)) return false;
    for (int r = i + 1; r < n; ++r) {
      const double factor = m[r][i] / m[i][i];
      for (int c = i; c < n; ++c) m[r][c] -= factor * m[i][c];
      y[r] -= factor * y[i];
    }
  }
  for (int i = n - 1; i >= 0; --i) {
    double value = y[i];
    for (int c = i + 1; c < n; ++c) value -= m[i][c] * (*x)[c];
    (*x)[i] = value / m[i][i];
  }
  return true;
}

// Scaled to a part of the batch, for the line that leaves the rest to the other one. The head of a
// batch is paid once, so only the time behind it is divided.
BatchLimits Part(const BatchLimits& whole, double part, const BatchCost& cost) {
  BatchLimits limits = whole;
  limits.items = static_cast<int>(std::floor(whole.items * part));
  limits.tokens = static_cast<int>(std::floor(whole.tokens * part));
  if (whole.time != Duration::max()) {
    const Duration head = std::min(cost.fixed(), whole.time);
    limits.time =
        head +
        Duration(static_cast<int64_t>(static_cast<double>((whole.time - head).count()) * part));
  }
  return limits;
}

class Picker {
 public:
  Picker(const PickInputs& in, std::vector<int>& scratch) : in_(in), by_length_(scratch) {}

  // Takes from `line` what fits into `limits`, the first in line before all others.
  void PickLine(std::span<Candidate> line, const BatchLimits& limits) {
    int barrier = static_cast<int>(line.size());  // nothing from here on
    int anchor = -1;
    for (int i = 0; i < barrier; ++i) {
      Candidate& c = line[i];
      if (c.picked) continue;
      const bool first = anchor < 0, due = c.passed >= in_.max_passed;
      if (first) anchor = c.tokens;
      if (!first && !due) continue;
      if (Take(c, limits)) {
        batch_.aged |= due;
      } else if (due) {
        barrier = i;  // those before it may still go
      }
    }
    if (anchor >= 0) PickRun(line.first(static_cast<size_t>(barrier)), anchor, limits);
  }

  // The first that was not taken, alone.
  bool TakeFirst(std::span<Candidate> line, const BatchLimits& limits) {
    for (Candidate& c : line) {
      if (!c.picked) return Take(c, limits);
    }
    return false;
  }

  PickedBatch& batch() { return batch_; }

 private:
  bool Take(Candidate& c, const BatchLimits& limits) {
    BatchShape with = batch_.shape;
    with.Add(c.tokens);
    const bool fits = with.items <= limits.items && with.tokens <= limits.tokens &&
                      (limits.time == Duration::max() || in_.cost->Estimate(with) <= limits.time);
    // One item always goes, even if it exceeds the limits.
    if (!fits && batch_.shape.items > 0) return false;
    batch_.shape = with;
    c.picked = true;
    return true;
  }

  // The others by how near their length is to `anchor`, outwards on both sides.
  void PickRun(std::span<Candidate> line, int anchor, const BatchLimits& limits) {
    by_length_.clear();
    for (int i = 0; i < static_cast<int>(line.size()); ++i) {
      if (!line[i].picked) by_length_.push_back(i);
    }
    std::sort(by_length_.begin(), by_length_.end(), [&](int a, int b) {
      return line[a].tokens != line[b].tokens ? line[a].tokens < line[b].tokens : a < b;
    });
    const auto begin = by_length_.begin();
    auto longer = std::lower_bound(begin, by_length_.end(), anchor,
                                   [&](int i, int tokens) { return line[i].tokens < tokens; });
    auto shorter = longer;  // one past the next on that side
    while (shorter != begin || longer != by_length_.end()) {
      const bool up = shorter == begin ||
                      (longer != by_length_.end() &&
                       line[*longer].tokens - anchor <= anchor - line[*(shorter - 1)].tokens);
      if (up) {
        // Where one does not fit no longer one does.
        longer = Take(line[*longer], limits) ? longer + 1 : by_length_.end();
      } else {
        Take(line[*--shorter], limits);
      }
    }
  }

  const PickInputs& in_;
  std::vector<int>& by_length_;
  PickedBatch batch_;
};

bool AllPicked(std::span<const Candidate> line) {
  return std::all_of(line.begin(), line.end(), [](const Candidate& c) { return c.picked; });
}

void CountPassed(std::span<Candidate> line) {
  bool behind = false;
  for (size_t i = line.size(); i > 0; --i) {
    Candidate& c = line[i - 1];
    if (c.picked) behind = true;
    if (!c.picked && behind) ++c.passed;
  }
}

}  // namespace

BatchCost::Vector BatchCost::Features(const BatchShape& batch) {
  return {1, static_cast<double>(batch.tokens) / kTokens,
          static_cast<double>(batch.squares) / kSquares};
}

void BatchCost::Observe(const BatchShape& batch, Duration took) {
  const auto ns = static_cast<double>(took.count());
  if (ns <= 0) return;
  const Vector f = Features(batch);
  // Relative errors count: a small batch is estimated as well as a large one, and one that took
  // many times what it should (a busy host) pulls less than an ordinary one.
  const double scale = std::max(ns, static_cast<double>(Estimate(batch).count()));
  const double w = 1 / (scale * scale);
  for (int i = 0; i < kTerms; ++i) {
    for (int j = 0; j < kTerms; ++j) products_[i][j] = products_[i][j] * kKeep + w * f[i] * f[j];
    targets_[i] = targets_[i] * kKeep + w * f[i] * ns;
  }
  weight_ = weight_ * kKeep + w;
  Fit();
}

void BatchCost::Fit() {
  auto m = products_;
  for (int i = 0; i < kTerms; ++i) m[i][i] += kRidge * weight_;
  // The best of all choices of terms whose terms are not negative. Eight of them: cheap.
  double best = 0;
  bool found = false;
  for (unsigned mask = 1; mask < 1u << kTerms; ++mask) {
    Vector x{};
    if (!Solve(m, targets_, mask, &x)) continue;
    if (std::any_of(x.begin(), x.end(), [](double t) { return !(t >= 0); })) continue;
    double explained = 0;  // the larger, the smaller the squared error
    for (int i = 0; i < kTerms; ++i) {
      double row = 0;
      for (int j = 0; j < kTerms; ++j) row += m[i][j] * x[j];
      explained += x[i] * (2 * targets_[i] - row);
    }
    if (found && explained <= best) continue;
    best = explained;
    found = true;
    terms_ = x;
  }
  known_ = known_ || found;
}

Duration BatchCost::Estimate(const BatchShape& batch) const {
  const Vector f = Features(batch);
  double ns = 0;
  for (int i = 0; i < kTerms; ++i) ns += terms_[i] * f[i];
  return Duration(static_cast<int64_t>(std::min(ns, 1e15)));
}

double BatchPart(int tokens, const BatchLimits& limits, const BatchCost& cost) {
  double part = std::max(1.0 / limits.items, static_cast<double>(tokens) / limits.tokens);
  if (limits.time != Duration::max()) {
    BatchShape one;
    one.Add(tokens);
    const auto room = static_cast<double>((limits.time - cost.fixed()).count());
    const auto own = static_cast<double>((cost.Estimate(one) - cost.fixed()).count());
    part = std::max(part, room > 0 ? own / room : 1.0);
  }
  return std::min(part, 1.0);
}

PickedBatch PickBatch(const PickInputs& in, std::span<Candidate> singles, std::span<Candidate> bulk,
                      std::vector<int>& scratch) {
  Picker picker(in, scratch);
  if (!bulk.empty() && !singles.empty()) {
    // A bulk item that has its part saved up goes first: otherwise a long one might never fit
    // behind the singles.
    double claim = in.bulk_claim;
    const double first = BatchPart(bulk.front().tokens, in.limits, *in.cost);
    if (claim >= first && picker.TakeFirst(bulk, in.limits)) claim -= first;
    picker.PickLine(singles, Part(in.limits, 1 - std::max(claim, 0.0), *in.cost));
  }
  picker.PickLine(bulk, in.limits);
  picker.PickLine(singles, in.limits);  // what bulk items could not use

  PickedBatch& batch = picker.batch();
  for (const Candidate& c : bulk) {
    if (c.picked) batch.bulk_part += BatchPart(c.tokens, in.limits, *in.cost);
  }
  CountPassed(singles);
  CountPassed(bulk);
  batch.full = !AllPicked(singles) || !AllPicked(bulk);
  batch.aged &= batch.full;
  return batch;
}

}  // namespace tutti::engine
