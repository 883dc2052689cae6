// Requests to encoders and their results: embeddings of texts, and scores of texts or pairs.
//
// Unlike a generation an encoding has one event of interest, its end, so its state is a flag, a
// result, and a second flag for "inputs tokenized". Values and plain types; no JSON.
// Threads: EncodingState has one writer (the gateway until the request is submitted, then the
// engine thread) and one reader, the Encoding.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/caller.h"
#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"

namespace tutti::api {

// A query and a document, read by a cross-encoder as one sequence with two kinds of tokens.
struct TextPair {
  std::string first, second;
};

// Token ids are used as given: nothing is added to them.
using EncodeInput = std::variant<std::string, std::vector<TokenId>, TextPair>;

// Treatment of an input that is longer than the model's maximum; special tokens are kept.
enum class Truncation : uint8_t {
  kRefuse,  // context_length_exceeded, with the index of the input
  kRight,   // keep the beginning
  kLeft,    // keep the end
};

enum class EncodeOutput : uint8_t {
  kPooled,  // one vector for each input
  kTokens,  // one vector for each token of each input, as the last layer leaves them
  kScores,  // the labels' scores of each input: cross-encoders and classifiers
};

struct EncodeRequest {
  std::string request_id;           // <= 128 of [A-Za-z0-9._-]; appears in logs
  std::string model;                // served name or alias
  std::vector<EncodeInput> inputs;  // 1..kMaxEncodeInputs, none empty
  EncodeOutput output = EncodeOutput::kPooled;
  std::optional<bool> normalize;  // to length 1; absent: the default of the model's files
  std::optional<int> dimensions;  // leading components kept, then normalised again; 1..width
  std::optional<std::string> prompt_name;  // of the model's named prompts; absent: its default
  bool raw_scores = false;                 // scores as the model leaves them, no sigmoid or softmax
  Truncation truncation = Truncation::kRefuse;
  std::optional<int> truncate_tokens;  // read at most this many tokens, special ones included
  std::optional<int> total_tokens;     // refuse to read more of all inputs together
  Priority priority = Priority::kInteractive;
  TimePoint deadline = TimePoint::max();
  std::shared_ptr<const Caller> caller;  // this and the following as in GenerateRequest
  std::string user, route;
  std::shared_ptr<RateLimits> rate_limits;
  CacheControl cache;
  std::shared_ptr<CacheReport> cache_report;
  std::optional<Duration> keep_alive = {};
  std::string tenant;
  double tenant_weight = 1.0;
  std::shared_ptr<RequestObserver> observer;
  std::string cache_scope;
  TraceContext trace_context = {};
  std::shared_ptr<RequestTrace> trace = nullptr;
};

inline constexpr int kMaxEncodeInputs = 2048;

// Duration of each stage of an encoding; zero for stages that it did not reach.
struct EncodeTimings {
  Duration prepare{0};    // tokeniser
  Duration queue{0};      // submitted until its first item was put in a batch
  Duration inference{0};  // first batch until the last item's result; other batches in between
};

struct EncodeResult {
  int width = 0;                // floats of one row
  std::vector<float> values;    // rows one after the other, in the order of the inputs
  std::vector<int32_t> rows;    // kTokens: rows of each input; otherwise empty, one row each
  std::vector<int32_t> tokens;  // read of each input, special ones included
  EncodeTimings timings;
};

class EncodingState {
 public:
  // `finish` post-processes a good result; it runs once, in Take(), on the reader's thread.
  using Finisher = std::function<void(EncodeResult&)>;
  explicit EncodingState(std::shared_ptr<Waker> waker, Finisher finish = nullptr,
                         std::shared_ptr<RequestObserver> observer = nullptr)
      : waker_(std::move(waker)), finish_(std::move(finish)), observer_(std::move(observer)) {}
  EncodingState(const EncodingState&) = delete;
  EncodingState& operator=(const EncodingState&) = delete;

  // --- writer ---
  // Called when the inputs have been tokenized, before the request is submitted; does not wake.
  void Prepared() { prepared_.store(true, std::memory_order_release); }
  void Finish(Result<EncodeResult> result);  // exactly once; does not wake
  const std::shared_ptr<Waker>& waker() const { return waker_; }

  // --- the reader ---
  bool done() const { return done_.load(std::memory_order_acquire); }
  // False while the inputs are being tokenized; true afterwards, and after an error.
  bool prepared() const { return prepared_.load(std::memory_order_acquire) || done(); }
  Result<EncodeResult> Take();  // after done(); once

 private:
  const std::shared_ptr<Waker> waker_;
  const Finisher finish_;
  std::shared_ptr<RequestObserver> observer_;   // writer only; null after the end
  std::optional<Result<EncodeResult>> result_;  // written before `done_`
  std::atomic<bool> prepared_{false}, done_{false};
};

// The read end of one request. Owned by the server's connection; **destroying it cancels the rest
// of the request**. Movable. Not thread-safe itself.
class Encoding {
 public:
  Encoding() = default;
  Encoding(std::shared_ptr<EncodingState> state, std::shared_ptr<Cancellable> control);
  Encoding(Encoding&&) noexcept = default;
  Encoding& operator=(Encoding&& other) noexcept;
  ~Encoding();

  explicit operator bool() const { return state_ != nullptr; }
  bool done() const { return state_->done(); }
  bool prepared() const { return state_->prepared(); }
  Result<EncodeResult> Take() { return state_->Take(); }
  void Cancel();
  // Cancels the request from outside its reader, for example when a client disconnects.
  const std::shared_ptr<Cancellable>& control() const { return control_; }

 private:
  std::shared_ptr<EncodingState> state_;
  std::shared_ptr<Cancellable> control_;
};

}  // namespace tutti::api
