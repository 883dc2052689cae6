#include "protocol/kserve/adapters.h"

namespace tutti::kserve {

std::shared_ptr<Model> MakeAdapter(const api::ModelInfo& info, api::Inference& inference,
                                   const Clock& clock) {
  if (info.generates) return MakeGenerationModel(info, inference, clock);
  if (!info.encoder.has_value()) return nullptr;
  if (!info.encoder->labels.empty()) return MakeScoringModel(info, inference, clock);
  return info.encoder->width > 0 ? MakeEmbeddingModel(info, inference, clock) : nullptr;
}

std::optional<std::pair<uint64_t, uint64_t>> ExecutedOf(const api::Inference& inference,
                                                        const std::string& model) {
  const Result<api::ModelStatistics> statistics = inference.Statistics(model);
  if (!statistics.ok()) return std::nullopt;
  return std::pair(statistics->executions, statistics->items);
}

}  // namespace tutti::kserve
