#include "protocol/kserve/json/request.h"

#include <algorithm>
#include <charconv>

#include "protocol/json/field_error.h"
#include "protocol/kserve/json/elements.h"
#include "protocol/kserve/request.h"
#include "protocol/schema/neutral_values.h"

namespace tutti::kserve {
namespace {

using protocol::Json;
using protocol::JsonObject;

constexpr size_t kMaxIndexValues = 64;  // of an index request: more than it has members
constexpr size_t kMaxTensors = 64;      // of a request: more than any model here has
constexpr size_t kMaxNameBytes = 256;

std::string_view View(const boost::json::string& text) { return {text.data(), text.size()}; }

// A member that is there and not null.
const Json* Given(const JsonObject& object, std::string_view name) {
  const Json* value = object.if_contains({name.data(), name.size()});
  return value == nullptr || value->is_null() ? nullptr : value;
}

Status Missing(std::string_view name, std::string_view where) {
  return InvalidArgument("missing_required_parameter",
                         "the request needs '" + std::string(name) + "'" + std::string(where));
}

Result<std::string> RequiredText(const JsonObject& object, std::string_view name,
                                 std::string_view where) {
  const Json* value = Given(object, name);
  if (value == nullptr) return Missing(name, where);
  const auto* text = value->if_string();
  if (text == nullptr)
    return Bad("'" + std::string(name) + "'" + std::string(where) + " must be a string");
  return std::string(View(*text));
}

// A whole number that is not negative; nothing for anything else.
std::optional<uint64_t> Amount(const Json& value) {
  if (const int64_t* number = value.if_int64(); number != nullptr && *number >= 0) {
    return static_cast<uint64_t>(*number);
  }
  if (const uint64_t* number = value.if_uint64()) return *number;
  return std::nullopt;
}

Result<Shape> ReadShape(const JsonObject& input, const std::string& name) {
  const Json* value = Given(input, "shape");
  if (value == nullptr) return Missing("shape", " of input " + Quoted(name));
  const protocol::JsonArray* list = value->if_array();
  const auto bad = [&] {
    return Bad("'shape' of input " + Quoted(name) + " must be a list of at most " +
               std::to_string(kMaxDimensions) + " whole numbers from 0");
  };
  if (list == nullptr || list->size() > kMaxDimensions) return bad();
  Shape shape;
  for (const Json& dimension : *list) {
    const int64_t* number = dimension.if_int64();
    if (number == nullptr || *number < 0) return bad();
    shape.push_back(*number);
  }
  return shape;
}

// The `parameters` of an input or an output, or null. Shared memory and classification change what
// a request means, and are not offered.
Result<const JsonObject*> TensorParameters(const JsonObject& tensor, const std::string& name) {
  const Json* value = Given(tensor, "parameters");
  if (value == nullptr) return static_cast<const JsonObject*>(nullptr);
  const JsonObject* object = value->if_object();
  if (object == nullptr) return Bad("'parameters' of " + Quoted(name) + " must be an object");
  for (const char* const refused : {"shared_memory_region", "classification"}) {
    if (Given(*object, refused) == nullptr) continue;
    return InvalidArgument("unsupported_parameter",
                           std::string(refused) + " is not offered by this server")
        .WithParam(refused);
  }
  return object;
}

// The bytes behind the JSON, taken from the front in the order of the inputs.
class Blobs {
 public:
  explicit Blobs(std::string_view bytes) : left_(bytes) {}

  Status Take(const Json& size, Tensor* tensor) {
    const std::optional<uint64_t> bytes = Amount(size);
    if (!bytes.has_value()) {
      return Bad("'binary_data_size' of input " + Quoted(tensor->name) +
                 " must be a whole number from 0");
    }
    if (*bytes > left_.size()) {
      return Bad("unexpected end of the binary data of input " + Quoted(tensor->name) +
                 ": it has " + std::to_string(*bytes) + " bytes, but " +
                 std::to_string(left_.size()) + " follow; check Inference-Header-Content-Length");
    }
    tensor->data = left_.substr(0, *bytes);
    left_.remove_prefix(*bytes);
    return OkStatus();
  }
  size_t left() const { return left_.size(); }

 private:
  std::string_view left_;
};

// Notes a field that has no meaning here; an error in strict mode.
Status NoteUnknown(std::string_view name, const JsonReadOptions& options, RequestBody* body) {
  if (options.strict) {
    return InvalidArgument("unknown_parameter", "there is no field " + Quoted(name))
        .WithParam(protocol::Excerpt(name));
  }
  body->ignored.Add(name);
  return OkStatus();
}

Status ReadInput(const Json& value, const JsonReadOptions& options, Blobs* blobs,
                 RequestBody* body) {
  const JsonObject* object = value.if_object();
  if (object == nullptr) return Bad("each of 'inputs' must be an object");
  Tensor tensor;
  ASSIGN_OR_RETURN(tensor.name, RequiredText(*object, "name", " of an input"));
  const std::string where = " of input " + Quoted(tensor.name);
  ASSIGN_OR_RETURN(const std::string type, RequiredText(*object, "datatype", where));
  tensor.type = DataTypeOf(type);
  if (tensor.type == DataType::kInvalid)
    return Bad("'datatype'" + where + " is unknown: " + Quoted(type));
  ASSIGN_OR_RETURN(tensor.shape, ReadShape(*object, tensor.name));
  ASSIGN_OR_RETURN(const JsonObject* parameters, TensorParameters(*object, tensor.name));
  const Json* size = parameters == nullptr ? nullptr : Given(*parameters, "binary_data_size");
  const Json* data = Given(*object, "data");
  if (size != nullptr && data != nullptr)
    return Bad("input " + Quoted(tensor.name) + " has both 'data' and binary data");
  if (size != nullptr) {
    RETURN_IF_ERROR(blobs->Take(*size, &tensor));
  } else if (data != nullptr) {
    RETURN_IF_ERROR(ReadElements(*data, &tensor));
  } else if (CountElements(tensor.shape) != 0) {
    return Bad("unable to find 'data'" + where + " in request.");
  }
  for (const auto& member : *object) {
    const std::string_view name = member.key();
    if (name != "name" && name != "datatype" && name != "shape" && name != "parameters" &&
        name != "data") {
      RETURN_IF_ERROR(NoteUnknown(name, options, body));
    }
  }
  body->request.inputs.push_back(std::move(tensor));
  return OkStatus();
}

Status ReadOutput(const Json& value, const JsonReadOptions& options, RequestBody* body) {
  const JsonObject* object = value.if_object();
  if (object == nullptr) return Bad("each of 'outputs' must be an object");
  ASSIGN_OR_RETURN(std::string name, RequiredText(*object, "name", " of an output"));
  ASSIGN_OR_RETURN(const JsonObject* parameters, TensorParameters(*object, name));
  if (parameters != nullptr) {
    if (const Json* binary = Given(*parameters, "binary_data")) {
      if (!binary->is_bool())
        return Bad("'binary_data' of output " + Quoted(name) + " must be a bool");
      body->outputs.emplace_back(name, binary->get_bool());
    }
  }
  for (const auto& member : *object) {
    if (member.key() != "name" && member.key() != "parameters")
      RETURN_IF_ERROR(NoteUnknown(member.key(), options, body));
  }
  body->request.outputs.push_back(std::move(name));
  return OkStatus();
}

// The list of that name, or null; at most kMaxTensors long.
Result<const protocol::JsonArray*> ListOf(const JsonObject& object, std::string_view name) {
  const Json* value = Given(object, name);
  if (value == nullptr) return static_cast<const protocol::JsonArray*>(nullptr);
  const protocol::JsonArray* list = value->if_array();
  if (list == nullptr || list->size() > kMaxTensors) {
    return Bad("'" + std::string(name) + "' must be a list of at most " +
               std::to_string(kMaxTensors) + " objects");
  }
  return list;
}

// --- generate ---

Status ReadTensor(const ModelConfig& config, const TensorSpec& spec, const Json& value,
                  RequestBody* body) {
  if (FindInput(body->request, spec.name) != nullptr)
    return Bad("input '" + spec.name + "' is given twice");
  Tensor tensor{spec.name, spec.type, ShapeOf(value), {}};
  if (tensor.shape.empty()) {
    tensor.shape = {1};
    RETURN_IF_ERROR(ReadElements(Json(protocol::JsonArray{value}), &tensor));
  } else {
    RETURN_IF_ERROR(ReadElements(value, &tensor));
  }
  if (config.max_batch_size > 0) tensor.shape.insert(tensor.shape.begin(), 1);
  body->request.inputs.push_back(std::move(tensor));
  return OkStatus();
}

Status ReadMembers(const ModelConfig& config, const JsonObject& object, bool outer, TimePoint now,
                   RequestBody* body) {
  for (const auto& member : object) {
    const std::string_view key = member.key();
    const Json& value = member.value();
    if (value.is_null()) continue;
    if (outer && key == "id") {
      if (!value.is_string()) return Bad("'id' must be a string");
      body->request.id = protocol::TextOf(value);
    } else if (outer && key == "parameters") {
      if (!value.is_object()) return Bad("'parameters' must be an object");
      RETURN_IF_ERROR(ReadMembers(config, value.get_object(), false, now, body));
    } else if (const TensorSpec* spec = FindSpec(config.inputs, key)) {
      RETURN_IF_ERROR(ReadTensor(config, *spec, value, body));
    } else {
      JsonObject one;
      one.emplace(member.key(), value);
      RETURN_IF_ERROR(ReadParameters(Json(std::move(one)), now, body));
    }
  }
  return OkStatus();
}

}  // namespace

bool RequestBody::Binary(std::string_view output) const {
  const auto found = std::find_if(outputs.begin(), outputs.end(),
                                  [&](const auto& each) { return each.first == output; });
  return found == outputs.end() ? binary_outputs : found->second;
}

Status ReadParameters(const Json& parameters, TimePoint now, RequestBody* body) {
  const JsonObject* object = parameters.if_object();
  if (object == nullptr) return Bad("'parameters' must be an object");
  for (const auto& member : *object) {
    if (member.value().is_null()) continue;
    const std::string name(member.key());
    if (name == "binary_data_output") {
      if (!member.value().is_bool()) return Bad("'binary_data_output' must be a bool");
      body->binary_outputs = member.value().get_bool();
      continue;
    }
    if (name.size() > kMaxNameBytes) {
      return Bad("the name of a parameter has more than " + std::to_string(kMaxNameBytes) +
                 " bytes");
    }
    // The protocol has no lists and objects here. Those that ask for nothing
    // (protocol/schema/neutral_values.h) are sent by some clients by default, and are ignored.
    const bool scalar = !member.value().is_array() && !member.value().is_object();
    if (!scalar && protocol::AsksForNothing(name, member.value())) continue;
    ASSIGN_OR_RETURN(ParameterValue value, ReadParameterValue(name, member.value()));
    if (name == "headers") continue;  // reserved, for fields of the head, and no model's
    RETURN_IF_ERROR(ReadParameter(name, std::move(value), now, &body->request));
  }
  return OkStatus();
}

Result<size_t> ReadHeaderLength(std::string_view field, size_t body_bytes) {
  size_t length = 0;
  const auto [end, fault] = std::from_chars(field.data(), field.data() + field.size(), length);
  if (fault == std::errc::invalid_argument || end != field.data() + field.size())
    return Bad("Inference-Header-Content-Length must be a whole number of bytes");
  if (fault != std::errc() || length > body_bytes) {
    return Bad("Inference-Header-Content-Length is larger than the body, which has " +
               std::to_string(body_bytes) + " bytes");
  }
  return length;
}

Result<RequestBody> ReadInfer(std::string_view body, std::optional<size_t> json_bytes,
                              const JsonReadOptions& options) {
  const size_t header = json_bytes.value_or(body.size());
  ASSIGN_OR_RETURN(const protocol::JsonDocument document,
                   protocol::ParseJson(body.substr(0, header), kMaxJsonValues));
  const JsonObject* object = document.root().if_object();
  if (object == nullptr) return Bad("the body must be a JSON object");
  RequestBody out;
  if (const Json* id = Given(*object, "id")) {
    if (!id->is_string()) return Bad("'id' must be a string");
    out.request.id = View(id->get_string());
  }
  if (const Json* parameters = Given(*object, "parameters"))
    RETURN_IF_ERROR(ReadParameters(*parameters, options.now, &out));
  ASSIGN_OR_RETURN(const protocol::JsonArray* inputs, ListOf(*object, "inputs"));
  if (inputs == nullptr) return Missing("inputs", "");
  Blobs blobs(body.substr(header));
  for (const Json& input : *inputs) RETURN_IF_ERROR(ReadInput(input, options, &blobs, &out));
  if (blobs.left() > 0) {
    return Bad("unexpected additional input data: " + std::to_string(blobs.left()) +
               " bytes follow those of the inputs");
  }
  ASSIGN_OR_RETURN(const protocol::JsonArray* outputs, ListOf(*object, "outputs"));
  if (outputs != nullptr) {
    for (const Json& output : *outputs) RETURN_IF_ERROR(ReadOutput(output, options, &out));
  }
  for (const auto& member : *object) {
    const std::string_view name = member.key();
    if (name != "id" && name != "parameters" && name != "inputs" && name != "outputs")
      RETURN_IF_ERROR(NoteUnknown(name, options, &out));
  }
  return out;
}

Result<RequestBody> ReadRawInput(const ModelConfig& config, std::string body) {
  const TensorSpec* only = nullptr;
  size_t count = 0;
  for (const TensorSpec& input : config.inputs) {
    if (input.alias) continue;
    only = &input;
    ++count;
  }
  if (count != 1) {
    return Bad("a raw request is for models with 1 input, and model '" + config.name + "' has " +
               std::to_string(count));
  }
  Tensor tensor{only->name, only->type, only->dims, {}};
  const auto variable = std::count(tensor.shape.begin(), tensor.shape.end(), -1);
  if (variable > 1) {
    return Bad("input '" + only->name + "' of model '" + config.name + "' has " +
               std::to_string(variable) + " variable dimensions; a raw request supports at most 1");
  }
  int64_t fixed = 1;  // elements of a model's own dimensions
  for (const int64_t dimension : only->dims) fixed *= dimension == -1 ? 1 : dimension;
  const bool texts = only->type == DataType::kBytes;
  if (texts && fixed != 1) {
    return Bad("a raw request holds one text, and input '" + only->name + "' of model '" +
               config.name + "' has " + std::to_string(fixed));
  }
  // A remainder is found when the amount of bytes is compared with the shape.
  const auto unit = static_cast<size_t>(std::max<int64_t>(fixed, 1)) *
                    std::max<size_t>(ElementBytes(only->type), 1);
  const auto fitting = texts ? int64_t{1} : static_cast<int64_t>(body.size() / unit);
  std::replace(tensor.shape.begin(), tensor.shape.end(), int64_t{-1}, fitting);
  if (config.max_batch_size > 0) tensor.shape.insert(tensor.shape.begin(), 1);
  if (texts) {
    AppendBytesElement(body, &tensor.data);
  } else {
    tensor.data = std::move(body);
  }
  RequestBody out;
  out.binary_outputs = true;
  out.request.inputs.push_back(std::move(tensor));
  return out;
}

Result<RequestBody> ReadGenerate(const ModelConfig& config, std::string_view body, bool stream,
                                 const JsonReadOptions& options) {
  ASSIGN_OR_RETURN(const protocol::JsonDocument document,
                   protocol::ParseJson(body, kMaxJsonValues));
  if (!document.root().is_object()) return Bad("the body must be a JSON object");
  RequestBody out;
  RETURN_IF_ERROR(ReadMembers(config, document.root().get_object(), true, options.now, &out));
  const TensorSpec* flag = FindSpec(config.inputs, "stream");
  if (stream && flag != nullptr && flag->type == DataType::kBool &&
      FindInput(out.request, "stream") == nullptr) {
    RETURN_IF_ERROR(ReadTensor(config, *flag, Json(true), &out));
  }
  return out;
}

Result<bool> ReadReadyOnly(std::string_view body) {
  if (body.empty()) return false;
  ASSIGN_OR_RETURN(const protocol::JsonDocument document,
                   protocol::ParseJson(body, kMaxIndexValues));
  const JsonObject* object = document.root().if_object();
  if (object == nullptr) return Bad("the body must be a JSON object");
  const Json* ready = Given(*object, "ready");
  if (ready == nullptr) return false;
  if (!ready->is_bool()) return Bad("'ready' must be a bool");
  return ready->get_bool();
}

}  // namespace tutti::kserve
