#include "protocol/kserve/sequence_models.h"

#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "protocol/kserve/refusal.h"
#include "protocol/kserve/request.h"

namespace tutti::kserve {
namespace {

enum class Kind {
  kPlain,    // input, + 1 at the start
  kCorrid,   // as kPlain, + the correlation id at the end
  kRunning,  // running sum, + the correlation id at the end
};

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kPlain:
      return "simple_sequence";
    case Kind::kCorrid:
      return "simple_dyna_sequence";
    case Kind::kRunning:
      return "simple_string_dyna_sequence";
  }
  return "";
}

bool IsNone(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr ? *number == 0 : std::get<std::string>(id).empty();
}

// A text counts as the number it spells, and as nothing if it spells none.
uint64_t NumberOf(const CorrelationId& id) {
  if (const auto* number = std::get_if<uint64_t>(&id)) return *number;
  const std::string& text = std::get<std::string>(id);
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

class Sequences final : public Model {
 public:
  Sequences(Kind kind, const Clock& clock) : kind_(kind), clock_(clock) {
    config_.name = NameOf(kind);
    config_.platform = config_.backend = "tutti_test";
    config_.max_batch_size = 8;
    config_.inputs = {{"INPUT", DataType::kInt32, {1}}};
    config_.outputs = {{"OUTPUT", DataType::kInt32, {1}}};
    config_.scheduling = kind == Kind::kPlain ? ModelConfig::Scheduling::kSequence
                                              : ModelConfig::Scheduling::kOldestSequence;
    config_.controls_corrid = config_.controls_end = kind != Kind::kPlain;
  }

  const ModelConfig& config() const override { return config_; }

  Result<std::unique_ptr<Execution>> Start(InferRequest request, std::shared_ptr<Waker>) override {
    if (IsNone(request.sequence_id)) {
      return Bad("inference request to model '" + config_.name +
                 "' must specify a non-zero or non-empty correlation ID");
    }
    const Tensor& input = *FindInput(request, "INPUT");
    ASSIGN_OR_RETURN(const std::vector<uint32_t> sums, Add(request, input));
    Tensor output{"OUTPUT", DataType::kInt32, input.shape, {}};
    for (const uint32_t sum : sums) AppendElement(sum, &output.data);
    InferResponse response;
    response.spent.items = static_cast<uint64_t>(input.shape[0]);
    response.outputs.push_back(std::move(output));
    return std::unique_ptr<Execution>(std::make_unique<DoneExecution>(std::move(response)));
  }

 private:
  struct State {
    TimePoint last;
    std::vector<uint32_t> sums;  // of each item of the batch
  };

  // The result for each item of the batch, in wrapping 32-bit arithmetic.
  Result<std::vector<uint32_t>> Add(const InferRequest& request, const Tensor& input) {
    const auto items = static_cast<size_t>(input.shape[0]);
    const TimePoint now = clock_.Now();
    const MutexLock lock(mutex_);
    auto found = sequences_.find(request.sequence_id);
    if (found != sequences_.end() && now - found->second.last > kSequenceIdle) {
      sequences_.erase(found);
      found = sequences_.end();
    }
    if (request.sequence_start) {
      if (found == sequences_.end()) {
        MakeRoom();
        found = sequences_.emplace(request.sequence_id, State()).first;
      }
      found->second.sums.assign(items, 0);
    } else if (found == sequences_.end()) {
      return Bad("inference request for model '" + config_.name +
                 "' must specify the START flag on the first request of the sequence");
    }
    State& state = found->second;
    if (state.sums.size() != items) {
      return Bad("the batch of a sequence of model '" + config_.name + "' must stay " +
                 std::to_string(state.sums.size()));
    }
    state.last = now;
    std::vector<uint32_t> out;
    for (size_t i = 0; i < items; ++i) {
      uint32_t value = ElementAt<uint32_t>(input.data, i);
      if (kind_ == Kind::kRunning) value += state.sums[i];
      if (kind_ != Kind::kRunning && request.sequence_start) value += 1;
      if (kind_ != Kind::kPlain && request.sequence_end) {
        value += static_cast<uint32_t>(NumberOf(request.sequence_id));
      }
      state.sums[i] = value;
      out.push_back(value);
    }
    if (request.sequence_end) sequences_.erase(found);
    return out;
  }

  // The one without a request for longest goes.
  void MakeRoom() REQUIRES(mutex_) {
    if (sequences_.size() < kMaxSequences) return;
    auto oldest = sequences_.begin();
    for (auto it = sequences_.begin(); it != sequences_.end(); ++it) {
      if (it->second.last < oldest->second.last) oldest = it;
    }
    sequences_.erase(oldest);
  }

  const Kind kind_;
  const Clock& clock_;
  ModelConfig config_;
  Mutex mutex_;
  std::map<CorrelationId, State> sequences_ GUARDED_BY(mutex_);
};

}  // namespace

std::vector<std::shared_ptr<Model>> MakeSequenceModels(const Clock& clock) {
  std::vector<std::shared_ptr<Model>> models;
  for (const Kind kind : {Kind::kPlain, Kind::kCorrid, Kind::kRunning}) {
    models.push_back(std::make_shared<Sequences>(kind, clock));
  }
  return models;
}

}  // namespace tutti::kserve
