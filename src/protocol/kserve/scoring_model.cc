// Cross-encoders and classifiers (adapters.h).
#include <string>
#include <utility>
#include <vector>

#include "api/validate.h"
#include "protocol/kserve/adapters.h"
#include "protocol/kserve/encoding_model.h"
#include "protocol/kserve/request.h"

namespace tutti::kserve {
namespace {

class ScoringModel final : public EncodingModel {
 public:
  ScoringModel(const api::ModelInfo& info, api::Inference& inference, const Clock& clock)
      : EncodingModel(Config(info), inference, clock), pairs_(info.encoder->pairs) {}

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

  Tensor Output(api::EncodeResult& result, size_t items) const override {
    Tensor tensor{"score", DataType::kFp32, {static_cast<int64_t>(items)}, {}};
    if (config().outputs.front().dims.size() > 1) tensor.shape.push_back(result.width);
    tensor.data.assign(reinterpret_cast<const char*>(result.values.data()),
                       result.values.size() * sizeof(float));
    return tensor;
  }

  const bool pairs_;
};

}  // namespace

std::shared_ptr<Model> MakeScoringModel(const api::ModelInfo& info, api::Inference& inference,
                                        const Clock& clock) {
  return std::make_shared<ScoringModel>(info, inference, clock);
}

}  // namespace tutti::kserve
