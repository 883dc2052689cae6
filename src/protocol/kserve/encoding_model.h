// Common part of the KServe models that use api::Inference::Encode.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/inference.h"
#include "protocol/kserve/model.h"

namespace tutti::kserve {

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
  // The output tensor; `items` rows.
  virtual Tensor Output(api::EncodeResult& result, size_t items) const = 0;

 private:
  const ModelConfig config_;
  api::Inference& inference_;
  const Clock& clock_;
  friend class EncodingExecution;
};

// The texts of a BYTES tensor that has passed CheckRequest(); at most api::kMaxEncodeInputs.
Result<std::vector<std::string>> Texts(const Tensor& tensor);

}  // namespace tutti::kserve
