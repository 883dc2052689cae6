// Cross-encoders and classifiers (adapters.h).
#include <utility>

#include "kserve/adapters.h"
#include "kserve/encoding_model.h"
#include "kserve/request.h"

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

  Status Read(InferRequest& request, api::EncodeRequest* encode) const override {
    encode->output = api::EncodeOutput::kScores;
    const char* const name = pairs_ ? "documents" : "text";
    ASSIGN_OR_RETURN(std::vector<std::string> texts, Texts(*FindInput(request, name)));
    std::string query;
    if (pairs_) {
      ASSIGN_OR_RETURN(std::vector<std::string> one, Texts(*FindInput(request, "query")));
      query = std::move(one.front());
    }
    for (std::string& text : texts) {
      if (pairs_) {
        encode->inputs.emplace_back(api::TextPair{query, std::move(text)});
      } else {
        encode->inputs.emplace_back(std::move(text));
      }
    }
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
