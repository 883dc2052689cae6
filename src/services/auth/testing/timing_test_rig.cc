#include "services/auth/testing/timing_test_rig.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "base/random.h"

namespace tutti::auth {
namespace {

struct Moments {
  double count = 0, mean = 0, sum2 = 0;
  void Add(double x) {  // Welford
    count += 1;
    const double delta = x - mean;
    mean += delta / count;
    sum2 += delta * (x - mean);
  }
  double variance() const { return sum2 / (count - 1); }
};

// Writes one of two texts of the same length. Both are read and the same bytes written, whichever
// it is: where a text comes from would show in the time of what reads it next.
void Choose(const std::string& a, const std::string& b, bool second, std::string& out) {
  const char mask = second ? '\xff' : '\0';
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(a[i] ^ (mask & (a[i] ^ b[i])));
}

// Means of the times of `run` after each of two texts, in nanoseconds.
std::pair<double, double> ComparePair(int samples, const std::string& a, const std::string& b,
                                      std::string& shown, const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  Random random(static_cast<uint64_t>(Clock::now().time_since_epoch().count()));
  std::vector<float> times[2];
  std::vector<float> all;
  for (int i = 0; i < 1000; ++i) {  // caches and branch predictors
    Choose(a, b, i % 2 == 0, shown);
    run();
  }
  for (int i = 0; i < samples; ++i) {
    const bool second = random.Chance(0.5);
    Choose(a, b, second, shown);
    const auto begin = Clock::now();
    run();
    const std::chrono::duration<float, std::nano> took = Clock::now() - begin;
    times[second ? 1 : 0].push_back(took.count());
    all.push_back(took.count());
  }
  const auto cut = all.begin() + static_cast<std::ptrdiff_t>(all.size() * 9 / 10);
  std::nth_element(all.begin(), cut, all.end());
  Moments moments[2];
  for (int kind = 0; kind < 2; ++kind) {
    for (const float time : times[kind]) {
      if (time <= *cut) moments[kind].Add(time);
    }
  }
  return {moments[0].mean, moments[1].mean};
}

}  // namespace

TimingResult CompareTexts(std::span<const std::string> a, std::span<const std::string> b,
                          int samples, std::string& shown, const std::function<void(size_t)>& run) {
  Random random(static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  Moments times_a, times_b, difference;
  for (size_t i = 0; i < a.size(); ++i) {
    // The measurement may prefer its first or its second text. Which one that is, is drawn.
    const bool swapped = random.Chance(0.5);
    auto [mean_a, mean_b] =
        ComparePair(samples, swapped ? b[i] : a[i], swapped ? a[i] : b[i], shown, [&] { run(i); });
    if (swapped) std::swap(mean_a, mean_b);
    times_a.Add(mean_a);
    times_b.Add(mean_b);
    difference.Add(mean_a - mean_b);
  }
  const double error = std::sqrt(difference.variance() / difference.count);
  return {.t = error > 0 ? difference.mean / error : 0,
          .mean_a_ns = times_a.mean,
          .mean_b_ns = times_b.mean};
}

}  // namespace tutti::auth
