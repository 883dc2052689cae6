#include "engine/policy/batch_cost.h"

#include <algorithm>
#include <cmath>

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

}  // namespace tutti::engine
