#include "server/grpc/kserve_run.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "protocol/kserve/request.h"
#include "server/counting/request_counts.h"
#include "server/grpc/server_context.h"

namespace tutti::rpc {
namespace {

using inference::InferParameter;
using inference::InferTensorContents;
using inference::ModelInferRequest;
using kserve::Bad;
using kserve::DataType;
using kserve::Quoted;

// Names the tensor and the request for an error message.
std::string Where(const std::string& tensor, const ModelInferRequest& request) {
  return " for input tensor " + Quoted(tensor) + " for model " + Quoted(request.model_name());
}

Result<kserve::ParameterValue> ToValue(const std::string& name, const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return kserve::ParameterValue(parameter.bool_param());
    case InferParameter::kInt64Param:
      return kserve::ParameterValue(int64_t{parameter.int64_param()});
    case InferParameter::kStringParam:
      return kserve::ParameterValue(parameter.string_param());
    case InferParameter::kDoubleParam:
      return kserve::ParameterValue(parameter.double_param());
    case InferParameter::kUint64Param:
      return kserve::ParameterValue(uint64_t{parameter.uint64_param()});
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return Bad("invalid value type for " + Quoted(name) +
             " parameter, expected int64_param, bool_param, or string_param.");
}

// Rejects shared memory and classification, which change the meaning of a request.
template <typename Tensor>
Status CheckTensorParameters(const Tensor& tensor) {
  for (const char* const name : {"shared_memory_region", "classification"}) {
    if (tensor.parameters().contains(name)) {
      return InvalidArgument("unsupported_parameter",
                             std::string(name) + " is not offered by this server")
          .WithParam(name);
    }
  }
  return OkStatus();
}

// A list of typed contents: the types that it may carry, and the number of elements sent.
struct Contents {
  int size = 0;
  DataType first = DataType::kInvalid, second = DataType::kInvalid, third = DataType::kInvalid;
};

template <typename Narrow, typename List>
bool AppendNarrow(const List& list, std::string* data) {
  for (const auto value : list) {
    if (value < std::numeric_limits<Narrow>::min() || value > std::numeric_limits<Narrow>::max()) {
      return false;
    }
    kserve::AppendElement(static_cast<Narrow>(value), data);
  }
  return true;
}
template <typename List>
bool AppendAll(const List& list, std::string* data) {
  data->assign(reinterpret_cast<const char*>(list.data()),
               static_cast<size_t>(list.size()) * sizeof(*list.data()));
  return true;
}

// Appends the elements of the list that belongs to `type`; false if an element is out of range.
bool Append(const InferTensorContents& contents, DataType type, std::string* data) {
  switch (type) {
    case DataType::kBool:
      return AppendAll(contents.bool_contents(), data);
    case DataType::kInt8:
      return AppendNarrow<int8_t>(contents.int_contents(), data);
    case DataType::kInt16:
      return AppendNarrow<int16_t>(contents.int_contents(), data);
    case DataType::kInt32:
      return AppendAll(contents.int_contents(), data);
    case DataType::kInt64:
      return AppendAll(contents.int64_contents(), data);
    case DataType::kUint8:
      return AppendNarrow<uint8_t>(contents.uint_contents(), data);
    case DataType::kUint16:
      return AppendNarrow<uint16_t>(contents.uint_contents(), data);
    case DataType::kUint32:
      return AppendAll(contents.uint_contents(), data);
    case DataType::kUint64:
      return AppendAll(contents.uint64_contents(), data);
    case DataType::kFp32:
      return AppendAll(contents.fp32_contents(), data);
    case DataType::kFp64:
      return AppendAll(contents.fp64_contents(), data);
    case DataType::kBytes:
      for (const std::string& element : contents.bytes_contents()) {
        kserve::AppendBytesElement(element, data);
      }
      return true;
    default:
      return true;  // no list for this type: the element count is checked
  }
}

Status ReadContents(const ModelInferRequest& request,
                    const ModelInferRequest::InferInputTensor& input, kserve::Tensor* tensor) {
  const InferTensorContents& contents = input.contents();
  const Contents lists[] = {
      {contents.bool_contents_size(), DataType::kBool},
      {contents.int_contents_size(), DataType::kInt32, DataType::kInt8, DataType::kInt16},
      {contents.int64_contents_size(), DataType::kInt64},
      {contents.uint_contents_size(), DataType::kUint32, DataType::kUint8, DataType::kUint16},
      {contents.uint64_contents_size(), DataType::kUint64},
      {contents.fp32_contents_size(), DataType::kFp32},
      {contents.fp64_contents_size(), DataType::kFp64},
      {contents.bytes_contents_size(), DataType::kBytes},
  };
  for (const Contents& list : lists) {
    if (list.size == 0) continue;
    if (tensor->type == list.first || tensor->type == list.second || tensor->type == list.third)
      continue;
    return Bad("unexpected explicit tensor data" + Where(tensor->name, request) + " of type '" +
               std::string(kserve::NameOf(list.first)) + "', expected datatype '" +
               std::string(kserve::NameOf(tensor->type)) + "'");
  }
  if (!Append(contents, tensor->type, &tensor->data)) {
    return Bad("explicit tensor data" + Where(tensor->name, request) + " does not fit '" +
               std::string(kserve::NameOf(tensor->type)) + "'");
  }
  return OkStatus();
}

}  // namespace

Result<kserve::InferRequest> ToRequest(ModelInferRequest& message, TimePoint now) {
  kserve::InferRequest request;
  for (const auto& [name, parameter] : message.parameters()) {
    ASSIGN_OR_RETURN(kserve::ParameterValue value, ToValue(name, parameter));
    RETURN_IF_ERROR(kserve::ReadParameter(name, std::move(value), now, &request));
  }
  const int raw = message.raw_input_contents_size();
  for (int i = 0; i < message.inputs_size(); ++i) {
    auto& input = *message.mutable_inputs(i);
    RETURN_IF_ERROR(CheckTensorParameters(input));
    kserve::Tensor tensor;
    tensor.name = std::move(*input.mutable_name());
    tensor.type = kserve::DataTypeOf(input.datatype());
    tensor.shape.assign(input.shape().begin(), input.shape().end());
    if (raw > 0) {
      if (input.has_contents()) {
        return Bad("contents field must not be specified when using raw_input_contents" +
                   Where(tensor.name, message));
      }
      if (i >= raw)
        return Bad("unable to find data" + Where(tensor.name, message) + " in request.");
      tensor.data = std::move(*message.mutable_raw_input_contents(i));
    } else if (input.has_contents()) {
      RETURN_IF_ERROR(ReadContents(message, input, &tensor));
    } else if (kserve::CountElements(tensor.shape) != 0) {
      return Bad("unable to find data" + Where(tensor.name, message) + " in request.");
    }
    request.inputs.push_back(std::move(tensor));
  }
  if (raw > message.inputs_size()) {
    return Bad("expected " + std::to_string(message.inputs_size()) +
               " raw_input_contents, one for each input, but got " + std::to_string(raw));
  }
  for (int i = 0; i < message.outputs_size(); ++i) {
    auto& output = *message.mutable_outputs(i);
    RETURN_IF_ERROR(CheckTensorParameters(output));
    request.outputs.push_back(std::move(*output.mutable_name()));
  }
  request.model = std::move(*message.mutable_model_name());
  request.version = std::move(*message.mutable_model_version());
  request.id = message.id();  // also of the response
  return request;
}

void FromResponse(kserve::InferResponse& response, inference::ModelInferResponse* message) {
  for (auto& [name, value] : response.parameters) {
    InferParameter& parameter = (*message->mutable_parameters())[name];
    if (const auto* flag = std::get_if<bool>(&value)) parameter.set_bool_param(*flag);
    if (const auto* number = std::get_if<int64_t>(&value)) parameter.set_int64_param(*number);
    if (const auto* number = std::get_if<uint64_t>(&value)) parameter.set_uint64_param(*number);
    if (const auto* number = std::get_if<double>(&value)) parameter.set_double_param(*number);
    if (const auto* text = std::get_if<std::string>(&value)) parameter.set_string_param(*text);
  }
  for (kserve::Tensor& tensor : response.outputs) {
    auto& output = *message->add_outputs();
    output.set_name(std::move(tensor.name));
    output.set_datatype(std::string(kserve::NameOf(tensor.type)));
    output.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    message->add_raw_output_contents(std::move(tensor.data));
  }
}

Run Run::Begin(Call& call, inference::ModelInferRequest& message,
               std::shared_ptr<api::CacheReport> report) {
  Run run;
  run.id = message.id();
  run.model = message.model_name();
  const GrpcServer::Dependencies& deps = call.context().deps;
  const Result<std::shared_ptr<kserve::Model>> model =
      deps.repository->Find(message.model_name(), message.model_version(), CallerOf(call));
  if (model.ok()) {
    run.op = counting::OpOf((*model)->config().task);
    call.CountAs(run.op);
  }
  Result<kserve::InferRequest> request = ToRequest(message, deps.clock->Now());
  if (!request.ok()) {
    run.failure = std::move(request).status();
    return run;
  }
  request->deadline = std::min(request->deadline, call.info().deadline);
  request->request_id = call.info().request_id;
  request->trace_context = call.info().trace_context;
  request->caller = CallerOf(call);
  request->route = "kserve.infer";
  request->cache = call.cache_control();
  request->cache_report = std::move(report);
  run.empty_final = request->empty_final_response;
  if (model.ok()) {
    run.model = (*model)->config().name;
    run.decoupled = (*model)->config().decoupled;
  }
  Result<std::unique_ptr<kserve::Execution>> started =
      deps.repository->Infer(*std::move(request), call.waker());
  if (started.ok()) {
    run.execution = *std::move(started);
  } else {
    run.failure = std::move(started).status();
  }
  return run;
}

void Run::RecordStages(const Call& call, const kserve::Spent& spent) const {
  counting::CountStages(op, spent, call.context().deps.metrics);
}

void Run::Fill(kserve::InferResponse& response, inference::ModelInferResponse* message) const {
  message->set_model_name(model);
  message->set_model_version(std::string(kserve::kModelVersion));
  message->set_id(id);
  FromResponse(response, message);
}

}  // namespace tutti::rpc
