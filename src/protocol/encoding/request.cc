#include "protocol/encoding/request.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "protocol/json/field_error.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

// Voyage's `truncation`, and vLLM's fields: -1 is as much as the model reads, and any value
// means that a text that is too long is cut.
Status ReadTruncation(const CheckedObject& object, api::EncodeRequest* request) {
  std::optional<int64_t> most = object.Int("truncate_prompt_tokens");
  if (!most.has_value() && object.Bool("truncation").value_or(false)) most = -1;
  if (!most.has_value()) return OkStatus();
  if (*most == 0) {
    return BadValue("truncate_prompt_tokens",
                    "truncate_prompt_tokens must be at least 1, or -1 for the model's own limit");
  }
  request->truncation = object.Text("truncation_side").value_or("right") == "left"
                            ? api::Truncation::kLeft
                            : api::Truncation::kRight;
  if (*most > 0) request->truncate_tokens = static_cast<int>(*most);
  return OkStatus();
}

// raw_scores, or vLLM's word for the contrary.
Status ReadScale(const CheckedObject& object, api::EncodeRequest* request) {
  const std::optional<bool> raw = object.Bool("raw_scores");
  const std::optional<bool> activation = object.Bool("use_activation");
  if (raw.has_value() && activation.has_value() && *raw == *activation)
    return BadValue("use_activation", "raw_scores and use_activation contradict each other");
  request->raw_scores = raw.value_or(!activation.value_or(true));
  return OkStatus();
}

// [string | {"text": string}], or one of them.
Result<std::vector<std::string>> ReadDocuments(const Json& value, const std::string& name,
                                               bool lone, bool strict, IgnoredFields* ignored) {
  const auto text = [&](const Json& element, const std::string& param) -> Result<std::string> {
    if (element.is_object()) {
      ASSIGN_OR_RETURN(const CheckedObject document,
                       CheckedObject::Check(kDocument, element, param, strict, ignored));
      return *document.Text("text");
    }
    if (!element.is_string())
      return BadValue(param, param + " must be a string, or an object with text");
    if (element.get_string().empty()) return EmptyInput(param);
    return std::string(TextOf(element));
  };
  std::vector<std::string> texts;
  if (lone && !value.is_array()) {
    ASSIGN_OR_RETURN(std::string one, text(value, name));
    texts.push_back(std::move(one));
    return texts;
  }
  if (!value.is_array()) return BadValue(name, name + " must be a list of texts");
  const JsonArray& array = value.get_array();
  if (array.empty()) return EmptyInput(name);
  if (array.size() > api::kMaxEncodeInputs) return TooManyInputs(name);
  texts.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    ASSIGN_OR_RETURN(std::string one, text(array[i], ElementPath(name, i)));
    texts.push_back(std::move(one));
  }
  return texts;
}

constexpr int kMaxEmbeddingTokens = 300'000;  // OpenAI's bound of a request to /v1/embeddings

struct TextLists {
  const char* first;
  const char* second;
};
// The names vLLM has for the two sides of a score.
constexpr std::array<TextLists, 4> kTextLists = {
    {{"text_1", "text_2"}, {"queries", "documents"}, {"queries", "items"}, {"data_1", "data_2"}}};

Result<TextLists> NamesOfScore(const CheckedObject& object) {
  int given = 0;
  for (const char* name : {"text_1", "text_2", "queries", "documents", "items", "data_1", "data_2"})
    given += object.Has(name);
  for (const TextLists& lists : kTextLists) {
    if (!object.Has(lists.first) || !object.Has(lists.second)) continue;
    if (given > 2)
      return BadValue(lists.first, "the two sides of a score are given more than once");
    return lists;
  }
  const auto other = [&] {
    for (const TextLists& lists : kTextLists) {
      if (object.Has(lists.first)) return lists.second;
      if (object.Has(lists.second)) return lists.first;
    }
    return kTextLists[0].first;
  }();
  return IsMissing(other, std::string(other) +
                              " is missing; a score needs text_1 and text_2, or queries and "
                              "documents");
}

Scope ScopeOf(EncodingKind kind) {
  switch (kind) {
    case EncodingKind::kTeiEmbed:
      return kTeiEmbed;
    case EncodingKind::kTeiEmbedAll:
    case EncodingKind::kTeiSparse:  // the same fields
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
  } else if (call->kind == EncodingKind::kTeiEmbedAll) {
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
    const std::string param = ElementPath(name, i);
    if (!array[i].is_array()) return MustBe(param, "a list of one text or two");
    ASSIGN_OR_RETURN(std::vector<std::string> texts, ReadTexts(array[i], param));
    RETURN_IF_ERROR(AddSequence(std::move(texts), param, call));
  }
  return OkStatus();
}

Status ReadRerank(const CheckedObject& object, EncodingCall* call) {
  ReadTeiTruncation(object, &call->request);
  call->request.prompt_name = object.Text("prompt_name");
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

Result<EncodingCall> ParseEmbeddings(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kEmbeddings, body, "", options.strict, &ignored));
  ASSIGN_OR_RETURN(EncodingCall call,
                   BeginCall(EncodingKind::kEmbeddings, "input", object, options));
  RETURN_IF_ERROR(ReadTruncation(object, &call.request));
  call.request.normalize = object.Bool("normalize");
  call.request.prompt_name = object.Text("prompt_name");
  if (const std::optional<int64_t> width = object.Int("dimensions"); width.has_value())
    call.request.dimensions = static_cast<int>(*width);
  call.request.total_tokens = kMaxEmbeddingTokens;
  call.base64 = object.Text("encoding_format").value_or("float") == "base64";
  RETURN_IF_ERROR(ReadInputs(*object.Find("input"), /*mixed=*/false, &call));
  call.ignored = ignored.names();
  return call;
}

Result<EncodingCall> ParseRerank(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kRerank, body, "", options.strict, &ignored));
  ASSIGN_OR_RETURN(EncodingCall call,
                   BeginCall(EncodingKind::kRerank, "documents", object, options));
  RETURN_IF_ERROR(ReadTruncation(object, &call.request));
  RETURN_IF_ERROR(ReadScale(object, &call.request));
  call.request.prompt_name = object.Text("prompt_name");
  call.request.output = api::EncodeOutput::kScores;
  call.top_n = static_cast<int>(object.Int("top_n").value_or(0));
  ASSIGN_OR_RETURN(std::vector<std::string> texts,
                   ReadDocuments(*object.Find("documents"), "documents", /*lone=*/false,
                                 options.strict, &ignored));
  RETURN_IF_ERROR(AddPairs(*object.Text("query"), texts, &call));
  if (object.Bool("return_documents").value_or(true)) call.texts = std::move(texts);
  call.ignored = ignored.names();
  return call;
}

Result<EncodingCall> ParseScore(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kScore, body, "", options.strict, &ignored));
  ASSIGN_OR_RETURN(const TextLists names, NamesOfScore(object));
  ASSIGN_OR_RETURN(EncodingCall call,
                   BeginCall(EncodingKind::kScore, names.second, object, options));
  RETURN_IF_ERROR(ReadTruncation(object, &call.request));
  RETURN_IF_ERROR(ReadScale(object, &call.request));
  call.request.prompt_name = object.Text("prompt_name");
  call.request.output = api::EncodeOutput::kScores;
  call.listed = object.Find(names.second)->is_array();
  const auto read = [&](const char* name) {
    return ReadDocuments(*object.Find(name), name, /*lone=*/true, options.strict, &ignored);
  };
  ASSIGN_OR_RETURN(const std::vector<std::string> first, read(names.first));
  ASSIGN_OR_RETURN(const std::vector<std::string> second, read(names.second));
  if (first.size() == 1) {
    RETURN_IF_ERROR(AddPairs(first[0], second, &call));
  } else if (first.size() == second.size()) {
    for (size_t i = 0; i < first.size(); ++i) AddPair(first[i], second[i], &call);
  } else {
    return BadValue(names.second, std::string(names.first) + " holds " +
                                      std::to_string(first.size()) + " texts and " + names.second +
                                      " " + std::to_string(second.size()) +
                                      "; one, or as many, can be scored with them");
  }
  call.ignored = ignored.names();
  return call;
}

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
    return NotSupported(field,
                        "text generation is not at this address; use POST "
                        "/v1/chat/completions or /v1/completions");
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
