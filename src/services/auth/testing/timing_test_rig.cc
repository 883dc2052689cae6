#include "services/auth/testing/timing_test_rig.h"

#include <algorithm>
#include <chrono>
#include <cmath>
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

}  // namespace

TimingResult CompareTimes(int samples, const std::function<void(bool second)>& prepare,
                          const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  Random random(static_cast<uint64_t>(Clock::now().time_since_epoch().count()));
  std::vector<float> times[2];
  std::vector<float> all;
  for (int i = 0; i < 1000; ++i) {  // caches and branch predictors
    prepare(i % 2 == 0);
    run();
  }
  for (int i = 0; i < samples; ++i) {
    const bool second = random.Chance(0.5);
    prepare(second);
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
  const auto& [a, b] = moments;
  const double error = std::sqrt(a.variance() / a.count + b.variance() / b.count);
  return {.t = error > 0 ? (a.mean - b.mean) / error : 0, .mean_a_ns = a.mean, .mean_b_ns = b.mean};
}

}  // namespace tutti::auth
