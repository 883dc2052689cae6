// ModelPlan: a model that was opened and checked, and how it becomes a served one. One kind for
// decoders, one for encoders.
//
// Owned by an OpenedModel; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/device.h"
#include "app/model_loader.h"
#include "base/status.h"
#include "gateway/served_model.h"
#include "model/decoder_checkpoint.h"
#include "model/encoder_checkpoint.h"
#include "model/weights.h"

namespace tutti::app {

// Of tokens, where --context does not say.
inline constexpr int kDefaultContextCap = 8192;

class ModelPlan {
 public:
  virtual ~ModelPlan() = default;
  // Reads and packs the weights; as OpenedModel::Load. Once.
  virtual Result<std::shared_ptr<const gateway::ServedModel>> Load(
      std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) = 0;

  std::string summary, notice;  // as OpenedModel's
  bool generates = false;       // as OpenedModel's
  bool chats = false;           // as OpenedModel's
  int most_tokens = 0;          // as OpenedModel's
};

// What a decoder is computed in: MODEL:dtype, else --dtype, else what a packed file was made for.
std::string DTypeOf(const Settings& settings, const ModelRef& ref,
                    const model::DecoderCheckpoint& checkpoint);
model::WeightMode WeightModeOf(const std::string& dtype);
// How weights of that arithmetic are held for these kernels; on one thread, without progress.
model::LoadOptions LoadOptionsFor(model::WeightMode mode, const kernels::KernelTable& kernels);

// The remarks of a checkpoint in one line, with the model's path; "" without any.
std::string RemarksNotice(const ModelRef& ref, const std::vector<std::string>& remarks);

// Errors: as OpenedModel::Open.
Result<std::unique_ptr<ModelPlan>> PlanDecoder(const ModelRef& ref, const LoadContext& context,
                                               model::DecoderCheckpoint checkpoint);
Result<std::unique_ptr<ModelPlan>> PlanEncoder(const ModelRef& ref, const LoadContext& context,
                                               model::EncoderCheckpoint checkpoint);

}  // namespace tutti::app
