// Encoders that give vectors (adapters.h).
#include <algorithm>
#include <utility>

#include "protocol/kserve/adapters.h"
#include "protocol/kserve/encoding_model.h"
#include "protocol/kserve/request.h"

namespace tutti::kserve {
namespace {

Status BadInput(const Tensor& input, std::string message) {
  return InvalidArgument("invalid_value", "input '" + input.name + "' " + std::move(message))
      .WithParam(input.name);
}

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
  if (rows < 1 || rows > api::kMaxEncodeInputs) {
    return BadInput(ids, "must hold 1 to " + std::to_string(api::kMaxEncodeInputs) +
                             " texts, not " + std::to_string(rows));
  }
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

  Tensor Output(api::EncodeResult& result, size_t items) const override {
    Tensor tensor{"embedding", DataType::kFp32, {static_cast<int64_t>(items), result.width}, {}};
    tensor.data.assign(reinterpret_cast<const char*>(result.values.data()),
                       result.values.size() * sizeof(float));
    return tensor;
  }
};

}  // namespace

std::shared_ptr<Model> MakeEmbeddingModel(const api::ModelInfo& info, api::Inference& inference,
                                          const Clock& clock) {
  return std::make_shared<EmbeddingModel>(info, inference, clock);
}

}  // namespace tutti::kserve
