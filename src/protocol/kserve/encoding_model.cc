// The KServe models that use api::Inference::Encode: encoders that give vectors, and cross-encoders
// and classifiers (adapters.h).
#include <algorithm>
#include <chrono>
#include <vector>

#include "api/validate.h"
#include "protocol/encoding/call.h"
#include "protocol/json/field_error.h"
#include "protocol/kserve/adapters.h"
#include "protocol/kserve/request.h"
#include "protocol/schema/checked_object.h"

namespace tutti::kserve {
namespace {

// Common part of the KServe models that use api::Inference::Encode.
class EncodingModel : public Model {
 public:
  EncodingModel(ModelConfig config, api::Inference& inference, const Clock& clock)
      : config_(std::move(config)), inference_(inference), clock_(clock) {}

  const ModelConfig& config() const final { return config_; }
  Result<std::unique_ptr<Execution>> Start(InferRequest request,
                                           std::shared_ptr<Waker> waker) final;
  std::optional<std::pair<uint64_t, uint64_t>> Executed() const final;

 protected:
  // A configuration with what every encoder's says: batches are formed across requests.
  static ModelConfig ConfigOf(const api::ModelInfo& info, std::string platform);
  // Sets inputs and output of `encode` from the tensors; takes what it needs from them. The name of
  // the tensor that holds the inputs, as the client has it.
  virtual Result<std::string> Read(InferRequest& request, api::EncodeRequest* encode) const = 0;
  // The output tensor; `items` rows. Error: model_loading, if the result is of another kind of
  // model.
  virtual Result<Tensor> Output(api::EncodeResult& result, size_t items) const = 0;

 private:
  const ModelConfig config_;
  api::Inference& inference_;
  const Clock& clock_;
  friend class EncodingExecution;
};

class EncodingExecution final : public Execution {
 public:
  EncodingExecution(const EncodingModel& model, api::Encoding encoding, std::string input,
                    std::vector<std::string> wanted, std::vector<std::string> unread, size_t items)
      : model_(model),
        encoding_(std::move(encoding)),
        input_(std::move(input)),
        wanted_(std::move(wanted)),
        unread_(std::move(unread)),
        items_(items) {}

  bool prepared() const override { return encoding_.prepared(); }
  std::vector<std::string> unread() const override { return unread_; }

  Result<std::optional<InferResponse>> Next() override {
    if (!encoding_.done()) return std::optional<InferResponse>();
    Result<api::EncodeResult> taken = encoding_.Take();
    if (!taken.ok()) return protocol::BlameList(input_, taken.status());
    api::EncodeResult result = *std::move(taken);
    const TimePoint begin = model_.clock_.Now();
    InferResponse response;
    ASSIGN_OR_RETURN(Tensor output, model_.Output(result, items_));
    response.outputs.push_back(std::move(output));
    KeepWanted(wanted_, &response.outputs);
    response.final = true;
    response.spent = {.items = items_,
                      .executions = 0,
                      .queue = result.timings.queue,
                      .input = result.timings.prepare,
                      .infer = result.timings.inference,
                      .output = model_.clock_.Now() - begin};
    return std::optional(std::move(response));
  }

 private:
  const EncodingModel& model_;  // kept by its repository's entry
  api::Encoding encoding_;
  const std::string input_;  // the tensor of its inputs
  const std::vector<std::string> wanted_, unread_;
  const size_t items_;
};

// The parameters that change what an encoder gives, by the names they have elsewhere; the others'
// names are added to `unread`.
Status ReadParameters(const Parameters& parameters, bool strict, api::EncodeRequest* encode,
                      protocol::IgnoredFields* unread) {
  const auto bad = [](const std::string& name, const char* what) {
    return InvalidArgument("invalid_value", "parameter '" + name + "' must be " + what)
        .WithParam(name);
  };
  for (const auto& [name, value] : parameters) {
    const bool* flag = std::get_if<bool>(&value);
    const auto* number = std::get_if<int64_t>(&value);
    const auto* text = std::get_if<std::string>(&value);
    if (name == "normalize" || name == "truncate" || name == "raw_scores") {
      if (flag == nullptr) return bad(name, "a bool");
      if (name == "normalize") encode->normalize = *flag;
      if (name == "raw_scores") encode->raw_scores = *flag;
      if (name == "truncate" && *flag) encode->truncation = api::Truncation::kRight;
    } else if (name == "dimensions" || name == "truncate_prompt_tokens") {
      if (number == nullptr || *number < 1 || *number > INT32_MAX) {
        return bad(name, "a positive integer");
      }
      if (name == "dimensions") {
        encode->dimensions = static_cast<int>(*number);
      } else {
        encode->truncate_tokens = static_cast<int>(*number);
      }
    } else if (name == "prompt_name") {
      if (text == nullptr) return bad(name, "a string");
      encode->prompt_name = *text;
    } else if (strict) {
      return InvalidArgument("unknown_parameter",
                             "there is no parameter " + Quoted(name) + " of encoders")
          .WithParam(protocol::Excerpt(name));
    } else {
      unread->Add(name);
    }
  }
  return OkStatus();
}

ModelConfig EncodingModel::ConfigOf(const api::ModelInfo& info, std::string platform) {
  ModelConfig config;
  config.name = info.id;
  config.platform = std::move(platform);
  config.backend = "tutti";
  config.scheduling = ModelConfig::Scheduling::kDynamicBatching;
  config.preferred_batch = info.encoder->batch_items;
  config.max_queue_delay_us =
      std::chrono::duration_cast<std::chrono::microseconds>(info.encoder->batch_window).count();
  config.parameters = {{"max_tokens", std::to_string(info.max_model_len)},
                       {"architecture", info.architecture}};
  return config;
}

Result<std::unique_ptr<Execution>> EncodingModel::Start(InferRequest request,
                                                        std::shared_ptr<Waker> waker) {
  api::EncodeRequest encode;
  encode.request_id = std::move(request.request_id);
  encode.trace_context = std::move(request.trace_context);
  encode.model = config_.name;
  encode.priority = request.priority;
  encode.deadline = request.deadline;
  encode.caller = std::move(request.caller);
  encode.rate_limits = std::move(request.rate_limits);
  encode.route = std::move(request.route);
  encode.cache = request.cache;
  encode.cache_report = std::move(request.cache_report);
  protocol::IgnoredFields unread;
  RETURN_IF_ERROR(ReadParameters(request.parameters, request.strict, &encode, &unread));
  ASSIGN_OR_RETURN(std::string input, Read(request, &encode));
  const size_t items = encode.inputs.size();
  Result<api::Encoding> encoding = inference_.Encode(std::move(encode), std::move(waker));
  if (!encoding.ok()) return protocol::BlameList(input, encoding.status());
  return std::unique_ptr<Execution>(
      std::make_unique<EncodingExecution>(*this, *std::move(encoding), std::move(input),
                                          std::move(request.outputs), unread.names(), items));
}

std::optional<std::pair<uint64_t, uint64_t>> EncodingModel::Executed() const {
  return ExecutedOf(inference_, config_.name);
}

Status BadInput(const Tensor& input, std::string message) {
  return InvalidArgument("invalid_value", "input '" + input.name + "' " + std::move(message))
      .WithParam(input.name);
}

Status CheckTextCount(const Tensor& input, uint64_t count) {
  if (count >= 1 && count <= api::kMaxEncodeInputs) return OkStatus();
  return BadInput(input, "must hold 1 to " + std::to_string(api::kMaxEncodeInputs) +
                             " texts, not " + std::to_string(count));
}

// The texts of a BYTES tensor that has passed CheckRequest(); at most api::kMaxEncodeInputs.
Result<std::vector<std::string>> Texts(const Tensor& tensor) {
  const uint64_t count = *CountElements(tensor.shape);
  RETURN_IF_ERROR(CheckTextCount(tensor, count));
  std::vector<std::string> texts;
  texts.reserve(count);
  const auto elements = SplitBytes(tensor.data, count);
  for (size_t i = 0; i < elements->size(); ++i) {
    std::string text((*elements)[i]);
    RETURN_IF_ERROR(api::CheckUtf8(text, api::ElementPath(tensor.name, i)));
    texts.push_back(std::move(text));
  }
  return texts;
}

// --- encoders that give vectors ---

int64_t IdAt(const Tensor& tensor, size_t index) {
  return tensor.type == DataType::kInt32 ? ElementAt<int32_t>(tensor.data, index)
                                         : ElementAt<int64_t>(tensor.data, index);
}

// Rows of ids without the padding at their ends: negative ids, or those that `mask` leaves out.
Result<std::vector<api::EncodeInput>> Ids(const Tensor& ids, const Tensor* mask) {
  if (mask != nullptr && mask->shape != ids.shape) {
    return BadInput(*mask, "must have the shape of '" + ids.name + "'");
  }
  const auto rows = static_cast<uint64_t>(ids.shape[0]);
  const auto length = static_cast<size_t>(ids.shape[1]);
  RETURN_IF_ERROR(CheckTextCount(ids, rows));
  std::vector<api::EncodeInput> inputs;
  for (size_t row = 0; row < rows; ++row) {
    const auto padding = [&](size_t i) {
      const size_t at = row * length + i;
      return mask != nullptr ? ElementAt<int64_t>(mask->data, at) == 0 : IdAt(ids, at) < 0;
    };
    size_t end = length;
    while (end > 0 && padding(end - 1)) --end;
    std::vector<TokenId> tokens;
    tokens.reserve(end);
    for (size_t i = 0; i < end; ++i) {
      const int64_t id = IdAt(ids, row * length + i);
      if (padding(i)) return BadInput(ids, "may be padded at the end of a row only");
      if (id < 0 || id > INT32_MAX) {
        return InvalidArgument("token_out_of_range", "input '" + ids.name + "' holds " +
                                                         std::to_string(id) + ", which is no token")
            .WithParam(ids.name);
      }
      tokens.push_back(static_cast<TokenId>(id));
    }
    inputs.emplace_back(std::move(tokens));
  }
  return inputs;
}

class EmbeddingModel final : public EncodingModel {
 public:
  EmbeddingModel(const api::ModelInfo& info, api::Inference& inference, const Clock& clock)
      : EncodingModel(Config(info), inference, clock) {}

 private:
  static ModelConfig Config(const api::ModelInfo& info) {
    ModelConfig config = ConfigOf(info, "tutti_embedding");
    config.task = ModelConfig::Task::kEmbed;
    config.inputs = {
        {.name = "text", .type = DataType::kBytes, .dims = {-1}, .optional = true},
        {.name = "token_ids", .type = DataType::kInt32, .dims = {-1, -1}, .optional = true}};
    const auto alias = [&](const char* name, DataType type, Shape dims) {
      config.inputs.push_back({name, type, std::move(dims), true, true});
    };
    alias("text", DataType::kBytes, {-1, 1});
    alias("text_input", DataType::kBytes, {-1});
    alias("text_input", DataType::kBytes, {-1, 1});
    alias("token_ids", DataType::kInt64, {-1, -1});
    alias("input_ids", DataType::kInt64, {-1, -1});
    alias("input_ids", DataType::kInt32, {-1, -1});
    alias("attention_mask", DataType::kInt64, {-1, -1});
    config.outputs = {{"embedding", DataType::kFp32, {-1, info.encoder->width}}};
    return config;
  }

  Result<std::string> Read(InferRequest& request, api::EncodeRequest* encode) const override {
    const Tensor *texts = nullptr, *ids = nullptr;
    int given = 0;
    for (const Tensor& input : request.inputs) {
      if (input.name == "attention_mask") continue;
      (input.type == DataType::kBytes ? texts : ids) = &input;
      ++given;
    }
    if (given != 1) {
      return InvalidArgument("invalid_value", "model '" + config().name +
                                                  "' takes one of the inputs 'text' and "
                                                  "'token_ids', not " +
                                                  std::to_string(given))
          .WithParam("text");
    }
    const Tensor* mask = FindInput(request, "attention_mask");
    if (ids != nullptr) {
      ASSIGN_OR_RETURN(encode->inputs, Ids(*ids, mask));
      return ids->name;
    }
    if (mask != nullptr) return BadInput(*mask, "belongs to token ids");
    ASSIGN_OR_RETURN(std::vector<std::string> list, Texts(*texts));
    for (std::string& text : list) encode->inputs.emplace_back(std::move(text));
    return texts->name;
  }

  Result<Tensor> Output(api::EncodeResult& result, size_t items) const override {
    Tensor tensor{"embedding", DataType::kFp32, {static_cast<int64_t>(items), result.width}, {}};
    tensor.data.assign(reinterpret_cast<const char*>(result.values.data()),
                       result.values.size() * sizeof(float));
    return tensor;
  }
};

// --- cross-encoders and classifiers ---

class ScoringModel final : public EncodingModel {
 public:
  ScoringModel(const api::ModelInfo& info, api::Inference& inference, const Clock& clock)
      : EncodingModel(Config(info), inference, clock),
        pairs_(info.encoder->pairs),
        labels_(info.encoder->labels.size()) {}

 private:
  static ModelConfig Config(const api::ModelInfo& info) {
    const bool pairs = info.encoder->pairs;
    ModelConfig config = ConfigOf(info, pairs ? "tutti_rerank" : "tutti_classify");
    config.task = ModelConfig::Task::kScore;
    const auto labels = static_cast<int64_t>(info.encoder->labels.size());
    if (pairs) {
      config.inputs = {{"query", DataType::kBytes, {1}},
                       {"documents", DataType::kBytes, {-1}},
                       {"documents", DataType::kBytes, {-1, 1}, false, true}};
      config.outputs = {{"score", DataType::kFp32, labels == 1 ? Shape{-1} : Shape{-1, labels}}};
    } else {
      config.inputs = {{"text", DataType::kBytes, {-1}},
                       {"text", DataType::kBytes, {-1, 1}, false, true}};
      config.outputs = {{"score", DataType::kFp32, {-1, labels}}};
    }
    return config;
  }

  Result<std::string> Read(InferRequest& request, api::EncodeRequest* encode) const override {
    encode->output = api::EncodeOutput::kScores;
    const std::string name = pairs_ ? "documents" : "text";
    ASSIGN_OR_RETURN(std::vector<std::string> texts, Texts(*FindInput(request, name)));
    if (pairs_) {
      ASSIGN_OR_RETURN(const std::vector<std::string> query, Texts(*FindInput(request, "query")));
      RETURN_IF_ERROR(AddPairs(query.front(), std::move(texts), encode));
    } else {
      for (std::string& text : texts) encode->inputs.emplace_back(std::move(text));
    }
    return name;
  }

  static Status AddPairs(const std::string& query, std::vector<std::string> documents,
                         api::EncodeRequest* encode) {
    size_t bytes = 0;
    for (const std::string& document : documents) bytes += document.size();
    RETURN_IF_ERROR(api::CheckPairBytes(query.size(), documents.size(), bytes, "documents"));
    for (std::string& document : documents)
      encode->inputs.emplace_back(api::TextPair{query, std::move(document)});
    return OkStatus();
  }

  Result<Tensor> Output(api::EncodeResult& result, size_t items) const override {
    // The model's file may have been replaced after the request was checked against the old kind.
    if (result.values.size() != items * labels_)
      return Unavailable("model_loading", "the model's file was replaced meanwhile; try again");
    Tensor tensor{"score", DataType::kFp32, {static_cast<int64_t>(items)}, {}};
    if (config().outputs.front().dims.size() > 1) tensor.shape.push_back(result.width);
    tensor.data.assign(reinterpret_cast<const char*>(result.values.data()),
                       result.values.size() * sizeof(float));
    return tensor;
  }

  const bool pairs_;
  const size_t labels_;
};

}  // namespace

std::shared_ptr<Model> MakeEmbeddingModel(const api::ModelInfo& info, api::Inference& inference,
                                          const Clock& clock) {
  return std::make_shared<EmbeddingModel>(info, inference, clock);
}

std::shared_ptr<Model> MakeScoringModel(const api::ModelInfo& info, api::Inference& inference,
                                        const Clock& clock) {
  return std::make_shared<ScoringModel>(info, inference, clock);
}

}  // namespace tutti::kserve
