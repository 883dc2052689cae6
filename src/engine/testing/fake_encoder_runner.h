// FakeEncoderRunner: an EncoderRunner without a model, for tests and simulation. An item's floats
// depend on its tokens, their types and the output, so a result that went to another item shows;
// what it believes about its batches it says in violations().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/encoder_runner.h"
#include "engine/request.h"

namespace tutti::engine::testing {

// One batch, as it was launched.
struct BatchTrace {
  TimePoint begin{}, end{};
  std::vector<int> lengths;    // of its items
  std::vector<TokenId> first;  // first token of each item: names it in tests
  int64_t tokens = 0;
  bool ok = true;
};

class FakeEncoderRunner final : public EncoderRunner {
 public:
  static EncoderLimits DefaultLimits();

  explicit FakeEncoderRunner(const EncoderLimits& limits = DefaultLimits(),
                             ManualClock* clock = nullptr)
      : limits_(limits), clock_(clock) {}

  EncoderLimits limits() const override { return limits_; }
  void Launch(const EncodeBatch& batch) override;
  Status Collect() override;

  // The expected result of the request, computed from its tokens alone.
  std::vector<float> Answer(const TokenizedRequest& request) const;

  // Called for each batch: a status that is not OK is its result.
  std::function<Status(const EncodeBatch&)> fault;
  // How long a batch takes; moves the clock, where there is one. Called inside Launch.
  std::function<Duration(const EncodeBatch&)> time;
  // A batch with this token in it fails.
  TokenId poison = kNoToken;
  // An item that begins with this token yields a NaN.
  TokenId nan = kNoToken;

  bool trace = true;  // keep batches()

  const std::vector<BatchTrace>& batches() const { return batches_; }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  void CheckBatch(const EncodeBatch& batch);
  static void Fill(std::span<const TokenId> tokens, std::span<const uint8_t> types,
                   api::EncodeOutput output, std::span<float> out);
  int Width(api::EncodeOutput output) const { return limits_.of(output); }

  const EncoderLimits limits_;
  ManualClock* const clock_;
  Status status_;
  bool in_flight_ = false;
  std::vector<BatchTrace> batches_;
  std::vector<std::string> violations_;
};

// head + per_token * tokens + per_square * sum(length^2).
struct EncodeTimingModel {
  Duration head = std::chrono::milliseconds(1);
  Duration per_token = std::chrono::microseconds(20);
  Duration per_square = std::chrono::nanoseconds(10);
  Duration TimeOf(const EncodeBatch& batch) const;
};

// Items of the given lengths; the first token of each item is `name` + its index, the others follow
// from it.
TokenizedRequest TestEncoding(int name, const std::vector<int>& lengths);

}  // namespace tutti::engine::testing
