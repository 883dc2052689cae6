#include <map>
#include <numeric>
#include <utility>

#include "app/blocking_waker.h"
#include "app/config/settings.h"
#include "app/loading/loading.h"
#include "app/loading/model_loader.h"
#include "app/loading/model_registry.h"
#include "app/local_inference.h"
#include "bench/encode_target.h"

namespace tutti::bench {
namespace {

class LocalClient final : public EncodeClient {
 public:
  explicit LocalClient(api::Inference& inference) : inference_(inference) {}

  Result<EncodeReply> Encode(const std::vector<std::string>& texts) override {
    api::EncodeRequest request;
    request.inputs.assign(texts.begin(), texts.end());
    request.truncation = api::Truncation::kRight;
    ASSIGN_OR_RETURN(api::Encoding encoding, inference_.Encode(std::move(request), waker_));
    ASSIGN_OR_RETURN(api::EncodeResult result, waker_->Await(encoding));
    return EncodeReply{result.width, std::move(result.values), result.timings,
                       std::accumulate(result.tokens.begin(), result.tokens.end(), int64_t{0})};
  }

 private:
  api::Inference& inference_;
  const std::shared_ptr<app::BlockingWaker> waker_ = std::make_shared<app::BlockingWaker>();
};

class LocalTarget final : public EncodeTarget {
 public:
  explicit LocalTarget(app::Settings settings)
      : settings_(std::move(settings)), inference_(settings_, nullptr) {}

  Status Load(const std::string& model) {
    ASSIGN_OR_RETURN(summary_, LoadEncoder(inference_, model));
    return OkStatus();
  }

  Result<std::unique_ptr<EncodeClient>> Connect() override {
    return std::unique_ptr<EncodeClient>(std::make_unique<LocalClient>(inference_.gateway()));
  }
  Result<api::ModelStatistics> Statistics() override { return inference_.gateway().Statistics(""); }
  const std::string& summary() const override { return summary_; }

 private:
  const app::Settings settings_;
  app::LocalInference inference_;
  std::string summary_;
};

}  // namespace

Result<std::string> LoadEncoder(app::LocalInference& inference, const std::string& model) {
  ASSIGN_OR_RETURN(const app::ModelRef ref, app::ResolveModel(model));
  ASSIGN_OR_RETURN(app::OpenedModel opened, app::OpenOne(inference, ref));
  RETURN_IF_ERROR(inference.Load(std::move(opened)));
  ASSIGN_OR_RETURN(const auto served, inference.gateway().Find(""));
  return served->summary;
}

Result<app::Settings> EncodeSettings(const std::map<std::string, std::string>& settings) {
  app::Settings::Inputs inputs;
  inputs.flags = settings;
  inputs.flags.try_emplace("encode.decoders", "on");
  inputs.environment = app::TuttiEnvironment();
  return app::Settings::Resolve(inputs);
}

Result<std::unique_ptr<EncodeTarget>> LoadEncodeTarget(
    const std::string& model, const std::map<std::string, std::string>& settings) {
  ASSIGN_OR_RETURN(app::Settings resolved, EncodeSettings(settings));
  auto target = std::make_unique<LocalTarget>(std::move(resolved));
  RETURN_IF_ERROR(target->Load(model));
  return std::unique_ptr<EncodeTarget>(std::move(target));
}

}  // namespace tutti::bench
