// Bodies of every route of encoders, and the answers to those that are understood: a client's
// mistake is a refusal with a known code, in every form, and every answer is JSON. Input: one byte
// (route, strict), one byte (rows' width and values), then the body.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/encoding.h"
#include "api/validate.h"
#include "base/check.h"
#include "fuzz_input.h"
#include "protocol/encoding/request.h"
#include "protocol/encoding/response.h"
#include "protocol/error.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/ollama/request.h"
#include "protocol/openai/tokenizer_routes.h"

namespace {

namespace api = tutti::api;
namespace protocol = tutti::protocol;

using Kind = protocol::EncodingKind;
// By the input's first byte. New kinds go to the end, so that the corpus keeps its meaning.
constexpr std::array<std::optional<Kind>, 12> kRoutes = {
    Kind::kEmbeddings,  Kind::kRerank,          Kind::kScore,
    Kind::kTeiEmbed,    Kind::kTeiEmbedAll,     Kind::kTeiPredict,
    Kind::kTeiRerank,   Kind::kTeiSimilarity,   Kind::kTeiSparse,
    std::nullopt,  // POST /decode
    Kind::kOllamaEmbed, Kind::kOllamaEmbeddings};

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty());
  for (const auto form :
       {protocol::ErrorForm::kOpenAi, protocol::ErrorForm::kTei, protocol::ErrorForm::kOllama}) {
    protocol::ErrorOptions options;
    options.form = form;
    const protocol::ErrorView view = protocol::ViewError(status, options);
    CHECK(view.http >= 400 && view.http < 500) << status;
    CHECK(tutti::IsValidUtf8(view.message) && tutti::IsValidUtf8(view.param)) << status;
    CHECK(protocol::ParseJson(protocol::ErrorBody(view)).ok()) << "the error body is not JSON";
  }
}

bool IsOllama(Kind kind) { return kind == Kind::kOllamaEmbed || kind == Kind::kOllamaEmbeddings; }

tutti::Result<protocol::EncodingCall> Parse(Kind kind, const protocol::Json& body,
                                            const protocol::ParseOptions& options) {
  switch (kind) {
    case Kind::kEmbeddings:
      return protocol::ParseEmbeddings(body, options);
    case Kind::kRerank:
      return protocol::ParseRerank(body, options);
    case Kind::kScore:
      return protocol::ParseScore(body, options);
    case Kind::kOllamaEmbed:
    case Kind::kOllamaEmbeddings:
      return protocol::ollama::ParseEmbed(kind, body, options);
    default:
      return protocol::ParseTei(kind, body, options);
  }
}

size_t BytesOf(const api::EncodeInput& input) {
  if (const auto* text = std::get_if<std::string>(&input)) return text->size();
  if (const auto* ids = std::get_if<std::vector<tutti::TokenId>>(&input)) return ids->size();
  const auto& pair = std::get<api::TextPair>(input);
  return std::min(pair.first.size(), pair.second.size());
}

// A possible answer of a model to the call.
api::EncodeResult Answer(const protocol::EncodingCall& call, uint8_t shape) {
  api::EncodeResult result;
  result.width = call.ranks() ? 1 : 1 + shape % 5;
  for (size_t i = 0; i < call.request.inputs.size(); ++i) {
    const int32_t tokens = 1 + static_cast<int32_t>(i % 3);
    const bool all = call.request.output == api::EncodeOutput::kTokens;
    if (all) result.rows.push_back(tokens);
    result.tokens.push_back(tokens);
    for (int32_t n = 0; n < (all ? tokens : 1) * result.width; ++n)
      result.values.push_back(static_cast<float>(shape) / static_cast<float>(n - 1));
  }
  return result;
}

size_t AnswersIn(const protocol::EncodingCall& call, const protocol::Json& body) {
  switch (call.kind) {
    case Kind::kEmbeddings:
    case Kind::kScore:
      return body.at("data").as_array().size();
    case Kind::kRerank:
      return body.at("results").as_array().size();
    case Kind::kTeiSimilarity:
      return body.as_array().size() + 1;
    case Kind::kOllamaEmbed:
      return body.at("embeddings").as_array().size();
    case Kind::kOllamaEmbeddings:
      return body.at("embedding").as_array().empty() ? 0 : 1;
    case Kind::kTeiPredict:
      return call.listed ? body.as_array().size() : 1;
    default:
      return body.as_array().size();
  }
}

void CheckCall(const protocol::EncodingCall& call, bool strict, uint8_t shape) {
  const size_t inputs = call.request.inputs.size();
  if (inputs == 0 && IsOllama(call.kind)) return;  // asks only to load the model
  CHECK(inputs >= 1 && inputs <= api::kMaxEncodeInputs);
  CHECK(call.texts.empty() || call.texts.size() == inputs);
  CHECK(!strict || call.ignored.empty());
  size_t bytes = 0;
  for (size_t i = 0; i < inputs; ++i) {
    CHECK(BytesOf(call.request.inputs[i]) > 0) << "an empty input";
    CHECK(!protocol::InputParam(call, i).empty());
    if (const auto* pair = std::get_if<api::TextPair>(&call.request.inputs[i]))
      bytes += pair->first.size() + pair->second.size();
  }
  CHECK(bytes <= api::kMaxPairBytes);
  const api::EncodeResult answer = Answer(call, shape);
  const tutti::Result<std::string> written =
      protocol::EncodingBody(call, {"id", "m", 1, {"a", "b"}}, answer);
  if (!written.ok()) {
    CHECK(call.ranks() && answer.values.size() != inputs) << written.status();
    return;
  }
  const std::string& text = *written;
  const tutti::Result<protocol::JsonDocument> body = protocol::ParseJson(text);
  CHECK(body.ok()) << body.status();
  const size_t most = call.top_n > 0 ? static_cast<size_t>(call.top_n) : inputs;
  CHECK(AnswersIn(call, body->root()) == std::min(inputs, most)) << text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t choice = input.Byte();
  const uint8_t shape = input.Byte();
  const tutti::Result<protocol::JsonDocument> body = protocol::ParseJson(input.Rest());
  if (!body.ok()) return 0;
  protocol::ParseOptions options;
  options.strict = (choice & 128) != 0;
  const std::optional<Kind> kind = kRoutes[choice % 128 % kRoutes.size()];
  if (!kind.has_value()) {
    if (const auto call = protocol::ParseDecode(body->root(), options); !call.ok())
      CheckRefusal(call.status());
    return 0;
  }
  const tutti::Result<protocol::EncodingCall> call = Parse(*kind, body->root(), options);
  if (call.ok()) {
    CheckCall(*call, options.strict, shape);
  } else {
    CheckRefusal(call.status());
  }
  return 0;
}
