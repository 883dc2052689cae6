#include "protocol/kserve/test_models.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/ascii.h"
#include "base/mutex.h"
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

constexpr int kMaxBatch = 8;

ModelConfig TestConfig(std::string name) {
  ModelConfig config;
  config.name = std::move(name);
  config.platform = "tutti_test";
  config.backend = "tutti_test";
  config.max_batch_size = kMaxBatch;
  return config;
}

// A model whose answer is there when Start() returns.
class ImmediateModel : public Model {
 public:
  ImmediateModel(ModelConfig config, const Clock& clock)
      : config_(std::move(config)), clock_(clock) {}
  const ModelConfig& config() const final { return config_; }

  Result<std::unique_ptr<Execution>> Start(InferRequest request, std::shared_ptr<Waker>) final {
    InferResponse response;
    response.spent.items = static_cast<uint64_t>(BatchOf(config_, request));
    const TimePoint begin = clock_.Now();
    const std::vector<std::string> wanted = std::move(request.outputs);
    ASSIGN_OR_RETURN(response.outputs, Compute(std::move(request)));
    KeepWanted(wanted, &response.outputs);
    response.spent.infer = clock_.Now() - begin;
    return std::unique_ptr<Execution>(std::make_unique<DoneExecution>(std::move(response)));
  }

 private:
  virtual Result<std::vector<Tensor>> Compute(InferRequest request) = 0;

  const ModelConfig config_;
  const Clock& clock_;
};

// Sums and differences of unsigned numbers wrap, and the bits are those of the signed ones.
template <typename Unsigned>
class AddSub final : public ImmediateModel {
 public:
  AddSub(std::string name, DataType type, const Clock& clock)
      : ImmediateModel(Config(std::move(name), type), clock), type_(type) {}

 private:
  static ModelConfig Config(std::string name, DataType type) {
    ModelConfig config = TestConfig(std::move(name));
    config.inputs = {{"INPUT0", type, {16}}, {"INPUT1", type, {16}}};
    config.outputs = {{"OUTPUT0", type, {16}}, {"OUTPUT1", type, {16}}};
    return config;
  }

  Result<std::vector<Tensor>> Compute(InferRequest request) override {
    const Tensor& a = *FindInput(request, "INPUT0");
    const Tensor& b = *FindInput(request, "INPUT1");
    Tensor sum{"OUTPUT0", type_, a.shape, {}}, difference{"OUTPUT1", type_, a.shape, {}};
    for (size_t i = 0; i < a.data.size() / sizeof(Unsigned); ++i) {
      const auto x = ElementAt<Unsigned>(a.data, i), y = ElementAt<Unsigned>(b.data, i);
      AppendElement(static_cast<Unsigned>(x + y), &sum.data);
      AppendElement(static_cast<Unsigned>(x - y), &difference.data);
    }
    std::vector<Tensor> outputs;
    outputs.push_back(std::move(sum));
    outputs.push_back(std::move(difference));
    return outputs;
  }

  const DataType type_;
};

class AddSubText final : public ImmediateModel {
 public:
  explicit AddSubText(const Clock& clock) : ImmediateModel(Config(), clock) {}

 private:
  static ModelConfig Config() {
    ModelConfig config = TestConfig("simple_string");
    config.inputs = {{"INPUT0", DataType::kBytes, {16}}, {"INPUT1", DataType::kBytes, {16}}};
    config.outputs = {{"OUTPUT0", DataType::kBytes, {16}}, {"OUTPUT1", DataType::kBytes, {16}}};
    return config;
  }

  static Result<std::vector<int64_t>> Numbers(const Tensor& input) {
    std::vector<int64_t> numbers;
    const auto elements = SplitBytes(input.data, *CountElements(input.shape));
    for (const std::string_view text : *elements) {
      const std::optional<int32_t> number = ParseNumber<int32_t>(text);
      if (!number.has_value()) {
        return InvalidArgument("invalid_value", "input '" + input.name +
                                                    "' for model 'simple_string' must hold "
                                                    "decimal numbers of 32 bits");
      }
      numbers.push_back(*number);
    }
    return numbers;
  }

  Result<std::vector<Tensor>> Compute(InferRequest request) override {
    const Tensor& first = *FindInput(request, "INPUT0");
    ASSIGN_OR_RETURN(const std::vector<int64_t> a, Numbers(first));
    ASSIGN_OR_RETURN(const std::vector<int64_t> b, Numbers(*FindInput(request, "INPUT1")));
    Tensor sum{"OUTPUT0", DataType::kBytes, first.shape, {}};
    Tensor difference{"OUTPUT1", DataType::kBytes, first.shape, {}};
    for (size_t i = 0; i < a.size(); ++i) {
      AppendBytesElement(std::to_string(a[i] + b[i]), &sum.data);
      AppendBytesElement(std::to_string(a[i] - b[i]), &difference.data);
    }
    std::vector<Tensor> outputs;
    outputs.push_back(std::move(sum));
    outputs.push_back(std::move(difference));
    return outputs;
  }
};

class Identity final : public ImmediateModel {
 public:
  explicit Identity(const Clock& clock) : ImmediateModel(Config(), clock) {}

 private:
  static ModelConfig Config() {
    ModelConfig config = TestConfig("simple_identity");
    config.inputs = {{"INPUT0", DataType::kBytes, {-1}}};
    config.outputs = {{"OUTPUT0", DataType::kBytes, {-1}}};
    return config;
  }
  Result<std::vector<Tensor>> Compute(InferRequest request) override {
    std::vector<Tensor> outputs;
    outputs.push_back(std::move(request.inputs.front()));
    outputs.front().name = "OUTPUT0";
    return outputs;
  }
};

// Nothing runs while it waits: the server asks again when the next response is due.
class RepeatExecution final : public Execution {
 public:
  RepeatExecution(InferRequest request, const Clock& clock)
      : request_(std::move(request)), clock_(clock), start_(clock.Now()), due_(start_) {
    in_ = FindInput(request_, "IN");
    delay_ = FindInput(request_, "DELAY");
    count_ = in_->data.size() / sizeof(int32_t);
    Plan();
  }

  TimePoint due() const override { return due_; }

  Result<std::optional<InferResponse>> Next() override {
    const TimePoint now = clock_.Now();
    if (now >= request_.deadline) {
      return Status(StatusCode::kDeadlineExceeded, "deadline_exceeded", "Request timeout expired");
    }
    if (now < due_) return std::optional<InferResponse>();
    InferResponse response;
    if (next_ == count_) {
      response.final = response.empty = true;
      response.spent.infer = now - start_;
      return std::optional(std::move(response));
    }
    Tensor out{"OUT", DataType::kInt32, {1}, {}}, index{"IDX", DataType::kUint32, {1}, {}};
    AppendElement(ElementAt<int32_t>(in_->data, next_), &out.data);
    AppendElement(static_cast<uint32_t>(next_), &index.data);
    response.outputs.push_back(std::move(out));
    response.outputs.push_back(std::move(index));
    KeepWanted(request_.outputs, &response.outputs);
    ++next_;
    Plan();
    return std::optional(std::move(response));
  }

 private:
  void Plan() {
    const uint32_t ms = next_ < count_ ? ElementAt<uint32_t>(delay_->data, next_)
                                       : ElementAt<uint32_t>(FindInput(request_, "WAIT")->data, 0);
    due_ = std::min(After(std::max(due_, clock_.Now()), std::chrono::milliseconds(ms)),
                    request_.deadline);
  }

  const InferRequest request_;
  const Clock& clock_;
  const TimePoint start_;
  const Tensor *in_, *delay_;
  size_t count_ = 0, next_ = 0;
  TimePoint due_;
};

class Repeat final : public Model {
 public:
  explicit Repeat(const Clock& clock) : clock_(clock) {
    config_ = TestConfig("repeat_int32");
    config_.max_batch_size = 0;
    config_.decoupled = true;
    config_.inputs = {{"IN", DataType::kInt32, {-1}},
                      {"DELAY", DataType::kUint32, {-1}},
                      {"WAIT", DataType::kUint32, {1}}};
    config_.outputs = {{"OUT", DataType::kInt32, {1}}, {"IDX", DataType::kUint32, {1}}};
  }
  const ModelConfig& config() const override { return config_; }
  Result<std::unique_ptr<Execution>> Start(InferRequest request, std::shared_ptr<Waker>) override {
    const Shape& in = FindInput(request, "IN")->shape;
    const Shape& delay = FindInput(request, "DELAY")->shape;
    if (in != delay) {
      return InvalidArgument("invalid_value", "expected IN and DELAY shape to match, got " +
                                                  ShapeText(in) + " and " + ShapeText(delay));
    }
    return std::unique_ptr<Execution>(
        std::make_unique<RepeatExecution>(std::move(request), clock_));
  }

 private:
  ModelConfig config_;
  const Clock& clock_;
};

}  // namespace

bool IsTestModel(std::string_view name) {
  const SteadyClock clock;
  const std::vector<std::shared_ptr<Model>> models = MakeTestModels(clock);
  return std::any_of(models.begin(), models.end(),
                     [&](const auto& model) { return model->config().name == name; });
}

std::vector<std::shared_ptr<Model>> MakeTestModels(const Clock& clock) {
  std::vector<std::shared_ptr<Model>> models;
  models.push_back(std::make_shared<AddSub<uint32_t>>("simple", DataType::kInt32, clock));
  models.push_back(std::make_shared<AddSub<uint8_t>>("simple_int8", DataType::kInt8, clock));
  models.push_back(std::make_shared<AddSubText>(clock));
  models.push_back(std::make_shared<Identity>(clock));
  for (const Kind kind : {Kind::kPlain, Kind::kCorrid, Kind::kRunning})
    models.push_back(std::make_shared<Sequences>(kind, clock));
  models.push_back(std::make_shared<Repeat>(clock));
  return models;
}

}  // namespace tutti::kserve
