#include <inference/grpc_service.pb.h>
#include <tutti/v1/tutti.pb.h>

#include <chrono>
#include <utility>
#include <vector>

#include "app/config/settings.h"
#include "app/loading/loading.h"
#include "app/loading/model_loader.h"
#include "app/loading/model_registry.h"
#include "app/local_inference.h"
#include "app/loopback.h"
#include "bench/encode_target.h"
#include "client/grpc/grpc_channel.h"
#include "client/served_models.h"

namespace tutti::bench {
namespace {

class Client final : public EncodeClient {
 public:
  Client(client::GrpcChannel& channel, const std::string& model)
      : channel_(channel), model_(model) {}

  Result<EncodeReply> Encode(const std::vector<std::string>& texts) override {
    v1::EmbedRequest request;
    request.set_model(model_);
    request.mutable_texts()->Add(texts.begin(), texts.end());
    request.set_truncation(v1::TRUNCATION_RIGHT);
    ASSIGN_OR_RETURN(const std::string bytes,
                     channel_.Call("/tutti.v1.Tutti/Embed", request.SerializeAsString()));
    v1::EmbedResponse response;
    if (!response.ParseFromString(bytes)) return BadAnswer("no EmbedResponse");
    if (static_cast<size_t>(response.vectors_size()) != texts.size())
      return BadAnswer("not one vector for each text");
    EncodeReply reply;
    reply.width = response.dimension();
    for (const v1::Vector& vector : response.vectors()) {
      if (vector.values_size() != reply.width) return BadAnswer("vectors of different lengths");
      reply.values.insert(reply.values.end(), vector.values().begin(), vector.values().end());
    }
    for (const int32_t tokens : response.tokens()) reply.tokens += tokens;
    return reply;
  }

 private:
  client::GrpcChannel& channel_;
  const std::string& model_;
};

class Target : public GrpcTarget {
 public:
  Target(std::unique_ptr<client::GrpcChannel> channel, std::string model, std::string api_key)
      : channel_(std::move(channel)),
        api_key_(std::move(api_key)),
        model_(std::move(model)),
        summary_((model_.empty() ? "the first model that gives vectors" : model_) + " at grpc://" +
                 channel_->target()) {}

  Result<std::unique_ptr<EncodeClient>> Connect() override {
    return std::unique_ptr<EncodeClient>(std::make_unique<Client>(*channel_, model_));
  }
  Result<api::ModelStatistics> Statistics() override {
    return Status(StatusCode::kUnimplemented, "not_implemented",
                  "the protocol does not tell of forward passes");
  }
  const std::string& summary() const override { return summary_; }
  int connections() const override { return channel_->connections(); }

  Status Explain(Status failure) override {
    if (failure.code() == StatusCode::kUnimplemented) {
      return std::move(failure).WithContext("the server at grpc://" + channel_->target() +
                                            " has no tutti.v1.Tutti/Embed");
    }
    if (failure.code() == StatusCode::kNotFound) {
      const auto picked = client::PickModel(Models(), model_, "", "grpc://" + channel_->target());
      return picked.ok() ? failure : picked.status();
    }
    return client::WithKeyHint(std::move(failure), api_key_);
  }

 private:
  // The models of KServe's repository index, without their tasks; empty if the call fails.
  std::vector<client::ListedModel> Models() {
    std::vector<client::ListedModel> models;
    const Result<std::string> bytes =
        channel_->Call("/inference.GRPCInferenceService/RepositoryIndex",
                       inference::RepositoryIndexRequest().SerializeAsString());
    inference::RepositoryIndexResponse index;
    if (!bytes.ok() || !index.ParseFromString(*bytes)) return models;
    for (const auto& model : index.models()) models.push_back({model.name(), {}});
    return models;
  }

  const std::unique_ptr<client::GrpcChannel> channel_;
  const std::string api_key_, model_, summary_;
};

// Owns the server that it calls: constructed first, destroyed last.
class LoadedTarget final : public GrpcTarget {
 public:
  explicit LoadedTarget(app::Settings settings)
      : settings_(std::move(settings)), inference_(settings_, nullptr) {}

  Status Load(const std::string& model) {
    ASSIGN_OR_RETURN(summary_, LoadEncoder(inference_, model));
    ASSIGN_OR_RETURN(server_, app::GrpcLoopback::Start(inference_));
    ASSIGN_OR_RETURN(target_, GrpcEncodeTarget(server_->address(), "", ""));
    summary_ += "\nat " + server_->address() + " in this process";
    return OkStatus();
  }

  Result<std::unique_ptr<EncodeClient>> Connect() override { return target_->Connect(); }
  Result<api::ModelStatistics> Statistics() override { return inference_.gateway().Statistics(""); }
  const std::string& summary() const override { return summary_; }
  int connections() const override { return server_->connections(); }

 private:
  const app::Settings settings_;
  app::LocalInference inference_;
  std::unique_ptr<app::GrpcLoopback> server_;
  std::unique_ptr<GrpcTarget> target_;
  std::string summary_;
};

}  // namespace

Result<std::unique_ptr<GrpcTarget>> GrpcEncodeTarget(const std::string& url,
                                                     const std::string& model,
                                                     const std::string& api_key) {
  ASSIGN_OR_RETURN(auto channel, client::GrpcChannel::Open(url, api_key, kEncodePatience));
  return std::unique_ptr<GrpcTarget>(std::make_unique<Target>(std::move(channel), model, api_key));
}

Result<std::unique_ptr<GrpcTarget>> LoadGrpcTarget(
    const std::string& model, const std::map<std::string, std::string>& settings) {
  ASSIGN_OR_RETURN(app::Settings resolved, EncodeSettings(settings));
  auto target = std::make_unique<LoadedTarget>(std::move(resolved));
  RETURN_IF_ERROR(target->Load(model));
  return std::unique_ptr<GrpcTarget>(std::move(target));
}

}  // namespace tutti::bench
