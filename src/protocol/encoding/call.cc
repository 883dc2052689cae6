#include "protocol/encoding/call.h"

#include <algorithm>
#include <utility>

#include "api/models.h"
#include "api/validate.h"
#include "base/ascii.h"
#include "protocol/json/field_error.h"
#include "protocol/schema/field_check.h"

namespace tutti::protocol {
namespace {

std::string Copy(const Json& text) { return std::string(TextOf(text)); }

Status AddIds(const JsonArray& array, const std::string& param, EncodingCall* call) {
  if (array.empty()) return EmptyInput(param);
  ASSIGN_OR_RETURN(std::vector<TokenId> ids, ReadTokenIds(array, param));
  call->characters += ids.size();
  call->request.inputs.emplace_back(std::move(ids));
  return OkStatus();
}

}  // namespace

std::string InputParam(const EncodingCall& call, size_t index) {
  if (call.kind == EncodingKind::kTeiSimilarity) {
    if (index == 0) return call.input_name + ".source_sentence";
    return ElementPath(call.input_name + ".sentences", index - 1);
  }
  return call.listed ? ElementPath(call.input_name, index) : call.input_name;
}

Status BlameInput(const EncodingCall& call, Status status) {
  if (status.param() == "input") return std::move(status).WithParam(call.input_name);
  const std::optional<size_t> index = BlamedInput(status.param());
  if (!index.has_value()) return status;
  return std::move(status).WithParam(InputParam(call, *index));
}

Result<const api::ModelInfo*> ChooseModel(const EncodingCall& call,
                                          std::span<const api::ModelInfo> models) {
  const auto refuse = [](std::string message) { return BadValue("model", std::move(message)); };
  const bool named = !call.request.model.empty();
  const auto is_sparse = [](const api::ModelInfo& each) {
    return each.encoder.has_value() && each.encoder->sparse;
  };
  const api::ModelInfo* model = api::EncoderFor(models, call.request);
  // Nothing is known yet of a listed model whose files have not been read.
  if (model != nullptr && model->architecture.empty() &&
      model->status.state != api::ModelState::kLoaded)
    return model;
  if (call.kind == EncodingKind::kTeiSparse) {
    const auto found = std::find_if(models.begin(), models.end(), is_sparse);
    if (!named && found != models.end()) model = &*found;
    if (model != nullptr && !is_sparse(*model))
      return refuse("model " + model->id + " gives no sparse vectors; use /embed");
  }
  // A score of several labels is no measure of how well two texts fit.
  if (model != nullptr && (!call.ranks() || api::Ranks(*model))) return model;
  if (named && model != nullptr) return RanksNothing(model->id);
  if (named || models.empty()) return model;
  const bool scores = call.request.output == api::EncodeOutput::kScores;
  return refuse(std::string("none of the models served here gives ") +
                (scores ? "such scores" : "vectors"));
}

Status EmptyInput(const std::string& param) {
  return InvalidArgument("empty_prompt", param + " is empty").WithParam(param);
}

Status TooManyInputs(const std::string& param) {
  return MustBe(param, "a list of at most " + std::to_string(api::kMaxEncodeInputs));
}

Result<EncodingCall> BeginCall(EncodingKind kind, std::string input_name,
                               const CheckedObject& object, const ParseOptions& options) {
  EncodingCall call;
  call.kind = kind;
  call.input_name = std::move(input_name);
  call.request.model = object.Text("model").value_or("");
  ASSIGN_OR_RETURN(Placement placement, ReadPlacement(object, options));
  if (!call.tei()) call.request.user = object.Text("user").value_or("");
  call.request.request_id = std::move(placement.request_id);
  call.request.priority = placement.priority;
  call.request.deadline = placement.deadline;
  return call;
}

Status AddText(std::string text, const std::string& param, EncodingCall* call) {
  if (text.empty()) return EmptyInput(param);
  call->characters += CountCharacters(text);
  call->request.inputs.emplace_back(std::move(text));
  return OkStatus();
}

void AddPair(std::string first, std::string second, EncodingCall* call) {
  call->characters += CountCharacters(first) + CountCharacters(second);
  call->request.inputs.emplace_back(api::TextPair{std::move(first), std::move(second)});
}

Status ReadInputs(const Json& value, bool mixed, EncodingCall* call) {
  const std::string& name = call->input_name;
  const bool alone =
      !value.is_array() || (!value.get_array().empty() && value.get_array().front().is_number());
  call->listed = !alone;
  if (value.is_string()) return AddText(Copy(value), name, call);
  if (!value.is_array()) return MustBe(name, "a string, or a list of strings or token ids");
  const JsonArray& array = value.get_array();
  if (alone) return AddIds(array, name, call);
  if (array.empty()) return EmptyInput(name);
  if (array.size() > api::kMaxEncodeInputs) return TooManyInputs(name);
  call->request.inputs.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const std::string param = InputParam(*call, i);
    if (!array[i].is_string() && !array[i].is_array())
      return MustBe(param, "a string or a list of token ids");
    if (!mixed && array[i].kind() != array[0].kind())
      return MustBe(param, "of the same kind as the elements before it");
    RETURN_IF_ERROR(array[i].is_string() ? AddText(Copy(array[i]), param, call)
                                         : AddIds(array[i].get_array(), param, call));
  }
  return OkStatus();
}

Result<std::vector<std::string>> ReadTexts(const Json& value, const std::string& name) {
  if (!value.is_array()) return MustBe(name, "a list of strings");
  const JsonArray& array = value.get_array();
  if (array.empty()) return EmptyInput(name);
  if (array.size() > api::kMaxEncodeInputs) return TooManyInputs(name);
  std::vector<std::string> texts;
  texts.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const std::string param = ElementPath(name, i);
    if (!array[i].is_string()) return MustBe(param, "a string");
    if (array[i].get_string().empty()) return EmptyInput(param);
    texts.push_back(Copy(array[i]));
  }
  return texts;
}

Status AddPairs(const std::string& query, const std::vector<std::string>& texts,
                EncodingCall* call) {
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  RETURN_IF_ERROR(api::CheckPairBytes(query.size(), texts.size(), bytes, call->input_name));
  call->request.inputs.reserve(texts.size());
  for (const std::string& text : texts) AddPair(query, text, call);
  return OkStatus();
}

}  // namespace tutti::protocol
