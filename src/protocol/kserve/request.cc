#include "protocol/kserve/request.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "protocol/json/field_error.h"

namespace tutti::kserve {
namespace {

Status WrongKind(const std::string& name, const char* expected) {
  return Bad("invalid value type for '" + name + "' parameter, expected " + expected);
}

// The sequence id as this server's clients send it. A negative number is the same 64 bits.
Status ReadSequenceId(const ParameterValue& value, InferRequest* request) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    request->sequence_id = static_cast<uint64_t>(*number);
  } else if (const auto* positive = std::get_if<uint64_t>(&value)) {
    request->sequence_id = *positive;
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    if (text->size() > kMaxIdBytes) {
      return Bad("the sequence_id parameter has more than " + std::to_string(kMaxIdBytes) +
                 " bytes");
    }
    request->sequence_id = *text;
  } else {
    return WrongKind("sequence_id", "int64_param or string_param");
  }
  return OkStatus();
}

// 0 is the default; of the other numbers, a lower one is more urgent.
api::Priority PriorityOf(uint64_t priority) {
  if (priority <= 1) return api::Priority::kInteractive;
  return priority == 2 ? api::Priority::kFlex : api::Priority::kBatch;
}

// Whether `shape` is one of those that `spec` describes.
bool Fits(const TensorSpec& spec, bool batched, const Shape& shape) {
  const size_t first = batched ? 1 : 0;
  if (shape.size() != spec.dims.size() + first) return false;
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    if (spec.dims[i] != -1 && spec.dims[i] != shape[i + first]) return false;
  }
  return true;
}

Status CheckBatch(const ModelConfig& config, const InferRequest& request) {
  if (config.max_batch_size <= 0) return OkStatus();
  std::optional<int64_t> batch;
  for (const Tensor& input : request.inputs) {
    if (input.shape.empty()) {
      return Bad("input '" + input.name +
                 "' has no shape but model requires batch dimension for '" + config.name + "'");
    }
    if (batch.has_value() && *batch != input.shape.front()) {
      return Bad("input '" + input.name + "' batch size does not match other inputs for '" +
                 config.name + "'");
    }
    batch = input.shape.front();
  }
  if (batch.has_value() && *batch > config.max_batch_size) {
    return Bad("inference request batch-size must be <= " + std::to_string(config.max_batch_size) +
               " for '" + config.name + "'");
  }
  if (batch.has_value() && *batch < 1) {
    return Bad("inference request batch-size must be >= 1 for '" + config.name + "'");
  }
  return OkStatus();
}

Status CheckBytes(const ModelConfig& config, const Tensor& input, uint64_t count) {
  const std::string where =
      " for inference input '" + input.name + "' for model '" + config.name + "'";
  std::string_view data = input.data;
  uint64_t seen = 0;
  for (; !data.empty(); ++seen) {
    if (data.size() < sizeof(uint32_t)) {
      return Bad("incomplete string length indicator" + where + ", expecting 4 bytes but only " +
                 std::to_string(data.size()) + " bytes available");
    }
    if (seen == count) {
      return Bad("unexpected number of string elements " + std::to_string(seen + 1) + where +
                 ", expecting " + std::to_string(count));
    }
    const auto length = ElementAt<uint32_t>(data, 0);
    data.remove_prefix(sizeof(uint32_t));
    if (length > data.size()) {
      return Bad("incomplete string data" + where + ", expecting string of length " +
                 std::to_string(length) + " but only " + std::to_string(data.size()) +
                 " bytes available");
    }
    data.remove_prefix(length);
  }
  if (seen != count) {
    return Bad("expected " + std::to_string(count) + " string elements" + where + ", got " +
               std::to_string(seen));
  }
  return OkStatus();
}

// `input` has the name of an input of the model.
Status CheckInput(const ModelConfig& config, const Tensor& input) {
  const bool batched = config.max_batch_size > 0;
  bool shape_fits = false, type_fits = false;
  for (const TensorSpec& spec : config.inputs) {
    if (spec.name != input.name || spec.type != input.type) continue;
    type_fits = true;
    shape_fits = shape_fits || Fits(spec, batched, input.shape);
  }
  const TensorSpec& shown = *FindSpec(config.inputs, input.name);  // shown in errors
  if (!type_fits) {
    return Bad("inference input '" + input.name + "' data-type is '" +
               std::string(NameOf(input.type)) + "', but model '" + config.name + "' expects '" +
               std::string(NameOf(shown.type)) + "'");
  }
  const std::optional<uint64_t> count = CountElements(input.shape);
  if (!shape_fits || !count.has_value()) {
    Shape expected = shown.dims;
    if (batched) expected.insert(expected.begin(), -1);
    return Bad("unexpected shape for input '" + input.name + "' for model '" + config.name +
               "'. Expected " + ShapeText(expected) + ", got " + ShapeText(input.shape));
  }
  if (input.type == DataType::kBytes) return CheckBytes(config, input, *count);
  const size_t bytes = ElementBytes(input.type);
  if (input.data.size() % bytes != 0 || input.data.size() / bytes != *count) {
    const unsigned __int128 product = static_cast<unsigned __int128>(*count) * bytes;
    const std::string expected =
        product > UINT64_MAX ? "more than 2^64" : std::to_string(static_cast<uint64_t>(product));
    return Bad("input byte size mismatch for input '" + input.name + "' for model '" + config.name +
               "'. Expected " + expected + ", got " + std::to_string(input.data.size()));
  }
  return OkStatus();
}

std::string MissingInputs(const ModelConfig& config, const InferRequest& request) {
  size_t required = 0, listed = 0;
  std::string missing;
  for (const TensorSpec& spec : config.inputs) {
    if (spec.alias) continue;
    ++listed;
    if (spec.optional) continue;
    ++required;
    if (FindInput(request, spec.name) == nullptr) {
      missing += (missing.empty() ? "'" : ",'") + spec.name + "'";
    }
  }
  if (missing.empty()) return "";
  std::string got;  // all are known names
  for (const Tensor& input : request.inputs) got += (got.empty() ? "'" : ",'") + input.name + "'";
  const std::string amount = required == listed
                                 ? "expected " + std::to_string(listed)
                                 : "expected number of inputs between " + std::to_string(required) +
                                       " and " + std::to_string(listed);
  return amount + (required == listed ? " inputs but got " : " but got ") +
         std::to_string(request.inputs.size()) + " inputs for model '" + config.name +
         "'. Got input(s) [" + got + "], but missing required input(s) [" + missing +
         "]. Please provide all required input(s).";
}

}  // namespace

Status ReadParameter(std::string name, ParameterValue value, TimePoint now, InferRequest* request) {
  if (name == "sequence_id") return ReadSequenceId(value, request);
  if (name == "sequence_start" || name == "sequence_end" ||
      name == "triton_enable_empty_final_response") {
    const bool* flag = std::get_if<bool>(&value);
    if (flag == nullptr) return WrongKind(name, "bool_param");
    (name == "sequence_start" ? request->sequence_start
     : name == "sequence_end" ? request->sequence_end
                              : request->empty_final_response) = *flag;
    return OkStatus();
  }
  if (name == "priority") {
    const auto* number = std::get_if<int64_t>(&value);
    const auto* positive = std::get_if<uint64_t>(&value);
    if (number != nullptr && *number < 0) {
      return Bad("invalid value for 'priority', expected value >= 0.");
    }
    if (number == nullptr && positive == nullptr) {
      return WrongKind(name, "int64_param or uint64_param");
    }
    request->priority = PriorityOf(number != nullptr ? static_cast<uint64_t>(*number) : *positive);
    return OkStatus();
  }
  if (name == "timeout") {
    std::optional<int64_t> us;
    if (const auto* number = std::get_if<int64_t>(&value)) us = *number;
    if (const auto* positive = std::get_if<uint64_t>(&value)) {
      us = static_cast<int64_t>(std::min<uint64_t>(*positive, INT64_MAX));
    }
    if (!us.has_value()) return WrongKind(name, "int64_param");
    if (*us < 0) return Bad("invalid value for 'timeout', expected value >= 0.");
    if (*us > 0) {  // 0: the request sets no limit
      const auto wait = std::chrono::milliseconds(*us / 1000);
      const TimePoint until = After(now, wait);
      request->deadline = std::min(
          request->deadline,
          until == TimePoint::max() ? until : until + std::chrono::microseconds(*us % 1000));
    }
    return OkStatus();
  }
  if (name.starts_with("triton_")) {
    return Bad(
        "parameter keys starting with 'triton_' are reserved. Only the following keys starting "
        "with 'triton_' are allowed: triton_enable_empty_final_response");
  }
  if (request->parameters.size() >= kMaxParameters) {
    return Bad("a request has at most " + std::to_string(kMaxParameters) + " parameters");
  }
  request->parameters.emplace_back(std::move(name), std::move(value));
  return OkStatus();
}

Status UnknownModel(std::string_view name) {
  return NotFound("model_not_found", "Request for unknown model: " + Quoted(name) + " is not found")
      .WithParam("model");
}

Status NotOffered(std::string_view what) {
  return Status(StatusCode::kUnimplemented, "not_implemented",
                std::string(what) + " is not offered by this server");
}

Status CheckVersion(std::string_view model, std::string_view version) {
  if (version.empty() || version == kModelVersion) return OkStatus();
  const std::optional<int64_t> number = ParseNumber<int64_t>(version);
  if (!number.has_value()) {
    return Bad("failed to get model version from specified version string " + Quoted(version) +
               ", version should be an integral value > 0");
  }
  if (*number < 1) {
    return Bad("invalid model version specified " + Quoted(version) +
               ", version should be an integral value > 0");
  }
  return NotFound("model_not_found", "Request for unknown model: " + Quoted(model) + " version " +
                                         std::to_string(*number) + " is not found")
      .WithParam("model");
}

Status CheckRequest(const ModelConfig& config, const InferRequest& request) {
  if (request.id.size() > kMaxIdBytes) {
    return Bad("the id of a request has at most " + std::to_string(kMaxIdBytes) + " bytes");
  }
  if (request.inputs.size() > config.inputs.size()) {
    return Bad("expected at most " + std::to_string(config.inputs.size()) + " inputs but got " +
               std::to_string(request.inputs.size()) + " inputs for model '" + config.name + "'");
  }
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const Tensor& input = request.inputs[i];
    if (FindSpec(config.inputs, input.name) == nullptr) {
      return Bad("unexpected inference input " + Quoted(input.name) + " for model '" + config.name +
                 "'");
    }
    if (input.shape.size() > kMaxDimensions) {
      return Bad("unexpected shape for input '" + input.name + "' for model '" + config.name +
                 "': it has " + std::to_string(input.shape.size()) + " dimensions");
    }
    for (size_t j = 0; j < i; ++j) {
      if (request.inputs[j].name == input.name) {
        return Bad("input '" + input.name + "' already exists in request");
      }
    }
  }
  if (std::string missing = MissingInputs(config, request); !missing.empty()) {
    return Bad(std::move(missing));
  }
  RETURN_IF_ERROR(CheckBatch(config, request));
  for (const Tensor& input : request.inputs) RETURN_IF_ERROR(CheckInput(config, input));
  if (request.outputs.size() > config.outputs.size()) {
    return Bad("expected at most " + std::to_string(config.outputs.size()) +
               " requested outputs but got " + std::to_string(request.outputs.size()) +
               " for model '" + config.name + "'");
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const std::string& output = request.outputs[i];
    if (FindSpec(config.outputs, output) == nullptr) {
      return Bad("unexpected inference output " + Quoted(output) + " for model '" + config.name +
                 "'");
    }
    if (std::find(request.outputs.begin(), request.outputs.begin() + static_cast<int64_t>(i),
                  output) != request.outputs.begin() + static_cast<int64_t>(i)) {
      return Bad("output '" + output + "' already exists in request");
    }
  }
  return OkStatus();
}

const TensorSpec* FindSpec(const std::vector<TensorSpec>& specs, std::string_view name) {
  const auto found = std::find_if(specs.begin(), specs.end(),
                                  [&](const TensorSpec& spec) { return spec.name == name; });
  return found == specs.end() ? nullptr : &*found;
}

const Tensor* FindInput(const InferRequest& request, std::string_view name) {
  for (const Tensor& input : request.inputs) {
    if (input.name == name) return &input;
  }
  return nullptr;
}

void KeepWanted(const std::vector<std::string>& wanted, std::vector<Tensor>* outputs) {
  if (wanted.empty()) return;
  std::vector<Tensor> kept;
  for (const std::string& name : wanted) {
    for (Tensor& output : *outputs) {
      if (output.name == name) kept.push_back(std::move(output));
    }
  }
  *outputs = std::move(kept);
}

int64_t BatchOf(const ModelConfig& config, const InferRequest& request) {
  return config.max_batch_size > 0 && !request.inputs.empty() ? request.inputs[0].shape[0] : 1;
}

Status Bad(std::string message) { return InvalidArgument("invalid_value", std::move(message)); }

std::string Quoted(std::string_view client_text) {
  return "'" + protocol::Excerpt(client_text) + "'";
}

}  // namespace tutti::kserve
