#include "bench/encode_target.h"

#include <inference/grpc_service.pb.h>
#include <openssl/evp.h>
#include <tutti/v1/tutti.pb.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cstring>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "app/blocking_waker.h"
#include "app/config/settings.h"
#include "app/loading/loading.h"
#include "app/loading/model_loader.h"
#include "app/loading/model_registry.h"
#include "app/local_inference.h"
#include "bench/loopback.h"
#include "client/grpc/grpc_channel.h"
#include "client/http_connection.h"
#include "client/served_models.h"

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

// A float32 array in base64, appended to `out`.
Status DecodeFloats(std::string_view text, std::vector<float>& out) {
  std::vector<unsigned char> bytes(text.size() / 4 * 3 + 3);
  const int decoded =
      EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(text.data()),
                      static_cast<int>(std::min<size_t>(text.size(), 1 << 30)));
  const auto padding = static_cast<int>(std::count(text.begin(), text.end(), '='));
  if (decoded < padding || (decoded - padding) % static_cast<int>(sizeof(float)) != 0)
    return BadAnswer("a vector that is no array of floats in base64");
  const auto size = static_cast<size_t>(decoded - padding);
  const size_t before = out.size();
  out.resize(before + size / sizeof(float));
  std::memcpy(out.data() + before, bytes.data(), size);
  return OkStatus();
}

class HttpEncodeClient final : public EncodeClient {
 public:
  HttpEncodeClient(client::HttpConnection connection, std::string model)
      : connection_(std::move(connection)), model_(std::move(model)) {}

  Result<EncodeReply> Encode(const std::vector<std::string>& texts) override {
    boost::json::object body{{"model", model_}, {"encoding_format", "base64"}};
    body["input"] = boost::json::array(texts.begin(), texts.end());
    ASSIGN_OR_RETURN(const client::HttpConnection::Answer answer,
                     connection_.Post("/v1/embeddings", boost::json::serialize(body)));
    if (answer.status != 200) return client::AnswerError(answer.status, answer.body);
    boost::system::error_code failed;
    const boost::json::value json = boost::json::parse(answer.body, failed);
    const boost::json::value* data = failed ? nullptr : json.find_pointer("/data", failed);
    if (failed || data == nullptr || !data->is_array() || data->get_array().size() != texts.size())
      return BadAnswer("not one vector for each text");
    EncodeReply reply;
    for (const boost::json::value& item : data->get_array()) {
      const boost::json::value* vector = item.find_pointer("/embedding", failed);
      if (failed || vector == nullptr || !vector->is_string()) return BadAnswer("no vector");
      const boost::json::string& text = vector->get_string();
      RETURN_IF_ERROR(DecodeFloats({text.data(), text.size()}, reply.values));
    }
    reply.width = static_cast<int>(reply.values.size() / texts.size());
    const boost::json::value* read = json.find_pointer("/usage/prompt_tokens", failed);
    if (read != nullptr && read->is_int64()) reply.tokens = read->get_int64();
    return reply;
  }

 private:
  client::HttpConnection connection_;
  const std::string model_;
};

// The value of a metric's series that has `label`, 0 where it is not there.
double MetricOf(std::string_view exposition, std::string_view name, std::string_view label) {
  size_t at = 0;
  while ((at = exposition.find(name, at)) != std::string_view::npos) {
    const size_t end = std::min(exposition.find('\n', at), exposition.size());
    const std::string_view line = exposition.substr(at, end - at);
    const bool begins = at == 0 || exposition[at - 1] == '\n';
    at = end;
    if (!begins || line.size() <= name.size() || line[name.size()] != '{') continue;
    if (line.find(label) == std::string_view::npos) continue;
    const std::string_view number = line.substr(line.rfind(' ') + 1);
    double value = 0;
    std::from_chars(number.data(), number.data() + number.size(), value);
    return value;
  }
  return 0;
}

class HttpTarget final : public EncodeTarget {
 public:
  HttpTarget(client::ModelServer at, std::string model)
      : at_(std::move(at)),
        model_(std::move(model)),
        summary_(model_ + " at http://" + at_.server.host + ":" + at_.server.port) {}

  Result<std::unique_ptr<EncodeClient>> Connect() override {
    ASSIGN_OR_RETURN(client::HttpConnection connection,
                     client::HttpConnection::Open(at_.server, at_.api_key, kEncodePatience));
    return std::unique_ptr<EncodeClient>(
        std::make_unique<HttpEncodeClient>(std::move(connection), model_));
  }

  Result<api::ModelStatistics> Statistics() override {
    ASSIGN_OR_RETURN(const std::string text,
                     client::Get(at_.server, "/metrics", at_.api_key, kEncodePatience));
    const std::string label = "model=\"" + model_ + "\"";
    api::ModelStatistics statistics;
    statistics.executions =
        static_cast<uint64_t>(MetricOf(text, "tutti_encode_batch_items_count", label));
    statistics.items = static_cast<uint64_t>(MetricOf(text, "tutti_encode_items_total", label));
    statistics.busy = FromSeconds(MetricOf(text, "tutti_engine_busy_seconds_total", label));
    return statistics;
  }
  const std::string& summary() const override { return summary_; }
  Status Explain(Status failure) override {
    return client::Explained(at_, model_, "embed", std::move(failure));
  }

 private:
  const client::ModelServer at_;
  const std::string model_, summary_;
};

class GrpcEncodeClient final : public EncodeClient {
 public:
  GrpcEncodeClient(client::GrpcChannel& channel, const std::string& model)
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

class ChannelTarget : public GrpcTarget {
 public:
  ChannelTarget(std::unique_ptr<client::GrpcChannel> channel, std::string model,
                std::string api_key)
      : channel_(std::move(channel)),
        api_key_(std::move(api_key)),
        model_(std::move(model)),
        summary_((model_.empty() ? "the first model that gives vectors" : model_) + " at grpc://" +
                 channel_->target()) {}

  Result<std::unique_ptr<EncodeClient>> Connect() override {
    return std::unique_ptr<EncodeClient>(std::make_unique<GrpcEncodeClient>(*channel_, model_));
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
    ASSIGN_OR_RETURN(server_, GrpcLoopback::Start(inference_));
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
  std::unique_ptr<GrpcLoopback> server_;
  std::unique_ptr<GrpcTarget> target_;
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

Result<std::unique_ptr<EncodeTarget>> HttpEncodeTarget(const client::Server& server,
                                                       const std::string& model,
                                                       const std::string& api_key) {
  client::ModelServer at{server, api_key, kEncodePatience};
  ASSIGN_OR_RETURN(std::string name, client::ChooseModel(at, model, "embed"));
  return std::unique_ptr<EncodeTarget>(
      std::make_unique<HttpTarget>(std::move(at), std::move(name)));
}

Result<std::unique_ptr<GrpcTarget>> GrpcEncodeTarget(const std::string& url,
                                                     const std::string& model,
                                                     const std::string& api_key) {
  ASSIGN_OR_RETURN(auto channel, client::GrpcChannel::Open(url, api_key, kEncodePatience));
  return std::unique_ptr<GrpcTarget>(
      std::make_unique<ChannelTarget>(std::move(channel), model, api_key));
}

Result<std::unique_ptr<GrpcTarget>> LoadGrpcTarget(
    const std::string& model, const std::map<std::string, std::string>& settings) {
  ASSIGN_OR_RETURN(app::Settings resolved, EncodeSettings(settings));
  auto target = std::make_unique<LoadedTarget>(std::move(resolved));
  RETURN_IF_ERROR(target->Load(model));
  return std::unique_ptr<GrpcTarget>(std::move(target));
}

}  // namespace tutti::bench
