#include "bench/kserve_target.h"

#include <fmt/format.h>
#include <inference/grpc_service.pb.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstring>
#include <utility>

#include "base/quote.h"
#include "client/grpc/grpc_channel.h"
#include "client/http_connection.h"
#include "client/served_models.h"

namespace tutti::bench {
namespace {

constexpr char kService[] = "/inference.GRPCInferenceService/";

std::string Listed(const std::vector<KserveTensor>& tensors) {
  std::string text;
  for (const KserveTensor& tensor : tensors)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", tensor.datatype, tensor.name);
  return text.empty() ? "none" : text;
}

Status NoModelGiven() {
  return InvalidArgument("invalid_value", "--kserve needs the name of a model; give it as MODEL");
}

// Checks the number of values; the width follows from it.
Result<EncodeReply> ReplyOf(std::vector<float> values, size_t texts) {
  if (values.empty() || values.size() % texts != 0)
    return BadAnswer("the output has not as many values for each text");
  EncodeReply reply;
  reply.width = static_cast<int>(values.size() / texts);
  reply.values = std::move(values);
  return reply;
}

class KserveHttpClient final : public EncodeClient {
 public:
  KserveHttpClient(client::HttpConnection connection, std::string path, const KserveModel& model)
      : connection_(std::move(connection)), path_(std::move(path)), model_(model) {}

  Result<EncodeReply> Encode(const std::vector<std::string>& texts) override {
    boost::json::array shape{texts.size()};
    if (model_.input.rank > 1) shape.push_back(1);
    const boost::json::object body{
        {"inputs",
         {{{"name", model_.input.name},
           {"datatype", "BYTES"},
           {"shape", std::move(shape)},
           {"data", boost::json::array(texts.begin(), texts.end())}}}},
        {"outputs", {{{"name", model_.output.name}, {"parameters", {{"binary_data", false}}}}}}};
    ASSIGN_OR_RETURN(const client::HttpConnection::Answer answer,
                     connection_.Post(path_, boost::json::serialize(body)));
    if (answer.status != 200) return client::AnswerError(answer.status, answer.body);
    boost::system::error_code failed;
    const boost::json::value json = boost::json::parse(answer.body, failed);
    const boost::json::value* data =
        failed ? nullptr : json.find_pointer("/outputs/0/data", failed);
    if (data == nullptr || !data->is_array()) return BadAnswer("no data of an output");
    std::vector<float> values;
    values.reserve(data->get_array().size());
    if (const Status status = Append(data->get_array(), &values); !status.ok()) return status;
    return ReplyOf(std::move(values), texts.size());
  }

 private:
  // The protocol allows the data of a tensor flat, or nested by its dimensions.
  static Status Append(const boost::json::array& data, std::vector<float>* values) {
    for (const boost::json::value& item : data) {
      if (item.is_number()) {
        values->push_back(item.to_number<float>());
      } else if (!item.is_array()) {
        return BadAnswer("an output that is no number");
      } else {
        RETURN_IF_ERROR(Append(item.get_array(), values));
      }
    }
    return OkStatus();
  }

  client::HttpConnection connection_;
  const std::string path_;
  const KserveModel& model_;
};

class KserveHttp final : public EncodeTarget {
 public:
  KserveHttp(client::ModelServer at, std::string name, KserveModel model)
      : at_(std::move(at)),
        name_(std::move(name)),
        model_(std::move(model)),
        summary_(fmt::format("{} at http://{}:{}, KServe: {} to {}", name_, at_.server.host,
                             at_.server.port, model_.input.name, model_.output.name)) {}

  Result<std::unique_ptr<EncodeClient>> Connect() override {
    ASSIGN_OR_RETURN(client::HttpConnection connection,
                     client::HttpConnection::Open(at_.server, at_.api_key, kEncodePatience));
    return std::unique_ptr<EncodeClient>(std::make_unique<KserveHttpClient>(
        std::move(connection), "/v2/models/" + name_ + "/infer", model_));
  }
  Result<api::ModelStatistics> Statistics() override {
    return Status(StatusCode::kUnimplemented, "not_implemented",
                  "the protocol has no statistics that every server keeps");
  }
  const std::string& summary() const override { return summary_; }
  Status Explain(Status failure) override {
    return client::WithKeyHint(std::move(failure), at_.api_key);
  }

 private:
  const client::ModelServer at_;
  const std::string name_;
  const KserveModel model_;
  const std::string summary_;
};

class KserveGrpcClient final : public EncodeClient {
 public:
  KserveGrpcClient(client::GrpcChannel& channel, const std::string& name, const KserveModel& model)
      : channel_(channel), name_(name), model_(model) {}

  Result<EncodeReply> Encode(const std::vector<std::string>& texts) override {
    inference::ModelInferRequest request;
    request.set_model_name(name_);
    auto* input = request.add_inputs();
    input->set_name(model_.input.name);
    input->set_datatype("BYTES");
    input->add_shape(static_cast<int64_t>(texts.size()));
    if (model_.input.rank > 1) input->add_shape(1);
    std::string& raw = *request.add_raw_input_contents();
    for (const std::string& text : texts) {  // each after its length, little-endian
      const auto size = static_cast<uint32_t>(text.size());
      for (int shift = 0; shift < 32; shift += 8) raw += static_cast<char>(size >> shift & 0xff);
      raw += text;
    }
    request.add_outputs()->set_name(model_.output.name);
    ASSIGN_OR_RETURN(const std::string bytes, channel_.Call(std::string(kService) + "ModelInfer",
                                                            request.SerializeAsString()));
    inference::ModelInferResponse response;
    if (!response.ParseFromString(bytes) || response.outputs_size() != 1)
      return BadAnswer("no ModelInferResponse with one output");
    std::vector<float> values;
    if (response.raw_output_contents_size() == 1) {
      const std::string& data = response.raw_output_contents(0);
      values.resize(data.size() / sizeof(float));
      std::memcpy(values.data(), data.data(), values.size() * sizeof(float));
    } else {
      const auto& typed = response.outputs(0).contents().fp32_contents();
      values.assign(typed.begin(), typed.end());
    }
    return ReplyOf(std::move(values), texts.size());
  }

 private:
  client::GrpcChannel& channel_;
  const std::string& name_;
  const KserveModel& model_;
};

class KserveGrpc final : public GrpcTarget {
 public:
  KserveGrpc(std::unique_ptr<client::GrpcChannel> channel, std::string name, std::string api_key,
             KserveModel model)
      : channel_(std::move(channel)),
        name_(std::move(name)),
        api_key_(std::move(api_key)),
        model_(std::move(model)),
        summary_(fmt::format("{} at grpc://{}, KServe: {} to {}", name_, channel_->target(),
                             model_.input.name, model_.output.name)) {}

  Result<std::unique_ptr<EncodeClient>> Connect() override {
    return std::unique_ptr<EncodeClient>(
        std::make_unique<KserveGrpcClient>(*channel_, name_, model_));
  }
  Result<api::ModelStatistics> Statistics() override {
    return Status(StatusCode::kUnimplemented, "not_implemented",
                  "the protocol has no statistics that every server keeps");
  }
  const std::string& summary() const override { return summary_; }
  std::string method() const override { return std::string(kService) + "ModelInfer"; }
  int connections() const override { return channel_->connections(); }
  Status Explain(Status failure) override {
    return client::WithKeyHint(std::move(failure), api_key_);
  }

 private:
  const std::unique_ptr<client::GrpcChannel> channel_;
  const std::string name_, api_key_;
  const KserveModel model_;
  const std::string summary_;
};

// The tensors of a list in the JSON of a model's metadata.
std::vector<KserveTensor> TensorsIn(const boost::json::value& metadata, const char* key) {
  std::vector<KserveTensor> tensors;
  const boost::json::object* object = metadata.if_object();
  const boost::json::value* list = object == nullptr ? nullptr : object->if_contains(key);
  if (list == nullptr || !list->is_array()) return tensors;
  for (const boost::json::value& item : list->get_array()) {
    boost::system::error_code failed;
    const boost::json::value* name = item.find_pointer("/name", failed);
    const boost::json::value* datatype = item.find_pointer("/datatype", failed);
    const boost::json::value* shape = item.find_pointer("/shape", failed);
    if (name == nullptr || !name->is_string() || datatype == nullptr || !datatype->is_string())
      continue;
    tensors.push_back({std::string(name->get_string()), std::string(datatype->get_string()),
                       shape != nullptr && shape->is_array() ? shape->get_array().size() : 1});
  }
  return tensors;
}

std::vector<KserveTensor> TensorsIn(
    const google::protobuf::RepeatedPtrField<inference::ModelMetadataResponse::TensorMetadata>&
        list) {
  std::vector<KserveTensor> tensors;
  for (const auto& item : list)
    tensors.push_back({item.name(), item.datatype(), static_cast<size_t>(item.shape_size())});
  return tensors;
}

}  // namespace

Result<KserveModel> ChooseKserveTensors(const std::string& model,
                                        const std::vector<KserveTensor>& inputs,
                                        const std::vector<KserveTensor>& outputs) {
  const auto first = [](const std::vector<KserveTensor>& tensors, const char* datatype) {
    return std::find_if(tensors.begin(), tensors.end(),
                        [&](const KserveTensor& tensor) { return tensor.datatype == datatype; });
  };
  const auto input = first(inputs, "BYTES"), output = first(outputs, "FP32");
  if (input != inputs.end() && output != outputs.end()) return KserveModel{*input, *output};
  return InvalidArgument(
      "unsupported_model",
      fmt::format("{} has no input of type BYTES and output of type FP32; inputs: {}; outputs: {}",
                  Quote(model), Listed(inputs), Listed(outputs)));
}

Result<std::unique_ptr<EncodeTarget>> KserveHttpTarget(const client::Server& server,
                                                       const std::string& model,
                                                       const std::string& api_key) {
  if (model.empty()) return NoModelGiven();
  Result<std::string> text = client::Get(server, "/v2/models/" + model, api_key, kEncodePatience);
  if (!text.ok()) return client::WithKeyHint(text.status(), api_key);
  boost::system::error_code failed;
  const boost::json::value json = boost::json::parse(*text, failed);
  if (failed) return BadAnswer("no JSON");
  ASSIGN_OR_RETURN(KserveModel tensors, ChooseKserveTensors(model, TensorsIn(json, "inputs"),
                                                            TensorsIn(json, "outputs")));
  return std::unique_ptr<EncodeTarget>(std::make_unique<KserveHttp>(
      client::ModelServer{server, api_key, kEncodePatience}, model, std::move(tensors)));
}

Result<std::unique_ptr<GrpcTarget>> KserveGrpcTarget(const std::string& url,
                                                     const std::string& model,
                                                     const std::string& api_key) {
  if (model.empty()) return NoModelGiven();
  ASSIGN_OR_RETURN(auto channel, client::GrpcChannel::Open(url, api_key, kEncodePatience));
  inference::ModelMetadataRequest request;
  request.set_name(model);
  const Result<std::string> bytes =
      channel->Call(std::string(kService) + "ModelMetadata", request.SerializeAsString());
  if (!bytes.ok()) return client::WithKeyHint(bytes.status(), api_key);
  inference::ModelMetadataResponse metadata;
  if (!metadata.ParseFromString(*bytes)) return BadAnswer("no ModelMetadataResponse");
  ASSIGN_OR_RETURN(KserveModel tensors, ChooseKserveTensors(model, TensorsIn(metadata.inputs()),
                                                            TensorsIn(metadata.outputs())));
  return std::unique_ptr<GrpcTarget>(
      std::make_unique<KserveGrpc>(std::move(channel), model, api_key, std::move(tensors)));
}

}  // namespace tutti::bench
