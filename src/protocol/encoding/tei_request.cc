#include "protocol/encoding/tei_request.h"

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "protocol/encoding/inputs.h"
#include "protocol/json/field_error.h"
#include "protocol/schema/checked_object.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

Scope ScopeOf(EncodingKind kind) {
  switch (kind) {
    case EncodingKind::kTeiEmbed:
      return kTeiEmbed;
    case EncodingKind::kTeiEmbedAll:
      return kTeiEmbedAll;
    case EncodingKind::kTeiPredict:
      return kTeiPredict;
    case EncodingKind::kTeiRerank:
      return kTeiRerank;
    case EncodingKind::kTeiSimilarity:
      return kTeiSimilarity;
    default:
      break;
  }
  CHECK(false) << "not a kind of TEI's";
  return kTeiEmbed;
}

void ReadTeiTruncation(const CheckedObject& object, api::EncodeRequest* request) {
  if (!object.Bool("truncate").value_or(false)) return;
  const std::string side = object.Text("truncation_direction").value_or("Right");
  request->truncation =
      side == "Left" || side == "left" ? api::Truncation::kLeft : api::Truncation::kRight;
}

Status ReadEmbed(const CheckedObject& object, EncodingCall* call) {
  ReadTeiTruncation(object, &call->request);
  call->request.prompt_name = object.Text("prompt_name");
  if (call->kind == EncodingKind::kTeiEmbed) {
    call->request.normalize = object.Bool("normalize").value_or(true);
    if (const std::optional<int64_t> width = object.Int("dimensions"); width.has_value())
      call->request.dimensions = static_cast<int>(*width);
  } else {
    call->request.output = api::EncodeOutput::kTokens;
  }
  return ReadInputs(*object.Find("inputs"), /*mixed=*/true, call);
}

// One text, or a pair.
Status AddSequence(std::vector<std::string> texts, const std::string& param, EncodingCall* call) {
  if (texts.size() > 2) return MustBe(param, "a text or a pair of texts");
  if (texts.size() == 1) return AddText(std::move(texts[0]), param, call);
  AddPair(std::move(texts[0]), std::move(texts[1]), call);
  return OkStatus();
}

// string | [string] | [string, string], one input; [[string], [string, string], ...]
Status ReadPredict(const CheckedObject& object, EncodingCall* call) {
  ReadTeiTruncation(object, &call->request);
  call->request.output = api::EncodeOutput::kScores;
  call->request.raw_scores = object.Bool("raw_scores").value_or(false);
  const std::string name = call->input_name;
  const Json& inputs = *object.Find("inputs");
  if (inputs.is_string()) return ReadInputs(inputs, /*mixed=*/false, call);
  if (!inputs.is_array()) return MustBe(name, "a string, a pair of strings, or a list of these");
  const JsonArray& array = inputs.get_array();
  if (array.empty()) return EmptyInput(name);
  if (array.size() > api::kMaxEncodeInputs) return TooManyInputs(name);
  if (array[0].is_string()) {
    call->listed = false;
    ASSIGN_OR_RETURN(std::vector<std::string> texts, ReadTexts(inputs, name));
    return AddSequence(std::move(texts), name, call);
  }
  for (size_t i = 0; i < array.size(); ++i) {
    const std::string param = name + "[" + std::to_string(i) + "]";
    if (!array[i].is_array()) return MustBe(param, "a list of one text or two");
    ASSIGN_OR_RETURN(std::vector<std::string> texts, ReadTexts(array[i], param));
    RETURN_IF_ERROR(AddSequence(std::move(texts), param, call));
  }
  return OkStatus();
}

Status ReadRerank(const CheckedObject& object, EncodingCall* call) {
  ReadTeiTruncation(object, &call->request);
  call->request.output = api::EncodeOutput::kScores;
  call->request.raw_scores = object.Bool("raw_scores").value_or(false);
  ASSIGN_OR_RETURN(std::vector<std::string> texts, ReadTexts(*object.Find("texts"), "texts"));
  RETURN_IF_ERROR(AddPairs(*object.Text("query"), texts, call));
  if (object.Bool("return_text").value_or(false)) call->texts = std::move(texts);
  return OkStatus();
}

Status ReadSimilarity(const CheckedObject& object, bool strict, IgnoredFields* ignored,
                      EncodingCall* call) {
  ASSIGN_OR_RETURN(
      const CheckedObject inputs,
      CheckedObject::Check(kSimilarityInputs, *object.Find("inputs"), "inputs", strict, ignored));
  if (const Json* parameters = object.Find("parameters"); parameters != nullptr) {
    ASSIGN_OR_RETURN(
        const CheckedObject checked,
        CheckedObject::Check(kSimilarityParameters, *parameters, "parameters", strict, ignored));
    ReadTeiTruncation(checked, &call->request);
    call->request.prompt_name = checked.Text("prompt_name");
  }
  // The cosine looks at directions alone.
  call->request.normalize = false;
  ASSIGN_OR_RETURN(std::vector<std::string> texts,
                   ReadTexts(*inputs.Find("sentences"), "inputs.sentences"));
  if (texts.size() + 1 > api::kMaxEncodeInputs) return TooManyInputs("inputs.sentences");
  RETURN_IF_ERROR(AddText(*inputs.Text("source_sentence"), "inputs.source_sentence", call));
  for (std::string& text : texts)  // none is empty
    RETURN_IF_ERROR(AddText(std::move(text), "inputs.sentences", call));
  return OkStatus();
}

// The field that identifies a request of Text Generation Inference (its docs/openapi.json,
// CompatGenerateRequest and GenerateParameters), or "". `parameters` alone does not: LangChain
// sends an empty one with texts to embed.
std::string FieldOfTextGeneration(const Json& body) {
  if (!body.is_object()) return "";
  const JsonObject& object = body.get_object();
  if (object.contains("stream")) return "stream";
  const Json* parameters = object.if_contains("parameters");
  if (parameters == nullptr || !parameters->is_object()) return "";
  for (const char* name :
       {"max_new_tokens", "temperature", "do_sample", "top_k", "top_p", "typical_p", "seed",
        "repetition_penalty", "frequency_penalty", "return_full_text", "stop", "stop_sequences",
        "best_of", "details", "decoder_input_details", "top_n_tokens", "watermark", "grammar"}) {
    if (parameters->get_object().contains(name)) return std::string("parameters.") + name;
  }
  return "";
}

}  // namespace

Result<EncodingCall> ParseTei(EncodingKind kind, const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(ScopeOf(kind), body, "", options.strict, &ignored));
  const bool ranks = kind == EncodingKind::kTeiRerank;
  ASSIGN_OR_RETURN(EncodingCall call, BeginCall(kind, ranks ? "texts" : "inputs", object, options));
  switch (kind) {
    case EncodingKind::kTeiPredict:
      RETURN_IF_ERROR(ReadPredict(object, &call));
      break;
    case EncodingKind::kTeiRerank:
      RETURN_IF_ERROR(ReadRerank(object, &call));
      break;
    case EncodingKind::kTeiSimilarity:
      RETURN_IF_ERROR(ReadSimilarity(object, options.strict, &ignored, &call));
      break;
    default:
      RETURN_IF_ERROR(ReadEmbed(object, &call));
  }
  call.ignored = ignored.names();
  return call;
}

Result<EncodingKind> KindOfRoot(const Json& body, bool vectors) {
  if (const std::string field = FieldOfTextGeneration(body); !field.empty()) {
    return InvalidArgument("unsupported_parameter",
                           "text generation is not at this address; use POST "
                           "/v1/chat/completions or /v1/completions")
        .WithParam(field);
  }
  if (HasField(body, "texts")) return EncodingKind::kTeiRerank;
  const Json* inputs = body.is_object() ? body.get_object().if_contains("inputs") : nullptr;
  if (inputs != nullptr && inputs->is_object()) return EncodingKind::kTeiSimilarity;
  return vectors ? EncodingKind::kTeiEmbed : EncodingKind::kTeiPredict;
}

bool HasField(const Json& body, std::string_view field) {
  if (!body.is_object()) return false;
  const Json* value = body.get_object().if_contains(field);
  return value != nullptr && !value->is_null();
}

}  // namespace tutti::protocol
