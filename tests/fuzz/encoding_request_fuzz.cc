// Bodies of every route of encoders, and the answers to those that are understood: a client's
// mistake is a refusal with a known code, in either form, and every answer is JSON. Input: one byte
// (route, strict), one byte (rows' width and values), then the body.
#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "api/encoding.h"
#include "api/validate.h"
#include "base/check.h"
#include "fuzz_input.h"
#include "wire/encoding_request.h"
#include "wire/encoding_response.h"
#include "wire/error.h"
#include "wire/json.h"
#include "wire/tei_request.h"
#include "wire/tokenizer_routes.h"
#include "wire/utf8.h"

namespace {

namespace api = tutti::api;
namespace wire = tutti::wire;

constexpr int kRoutes = 9;  // the kinds of encodings in their order, then /decode

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty());
  for (const auto form : {wire::ErrorForm::kOpenAi, wire::ErrorForm::kTei}) {
    wire::ErrorOptions options;
    options.form = form;
    const wire::ErrorView view = wire::ViewError(status, options);
    CHECK(view.http >= 400 && view.http < 500) << status;
    CHECK(tutti::IsValidUtf8(view.message) && tutti::IsValidUtf8(view.param)) << status;
    CHECK(wire::ParseJson(wire::ErrorBody(view)).ok()) << "the error body is not JSON";
  }
}

tutti::Result<wire::EncodingCall> Parse(wire::EncodingKind kind, const wire::Json& body,
                                        const wire::ParseOptions& options) {
  switch (kind) {
    case wire::EncodingKind::kEmbeddings:
      return wire::ParseEmbeddings(body, options);
    case wire::EncodingKind::kRerank:
      return wire::ParseRerank(body, options);
    case wire::EncodingKind::kScore:
      return wire::ParseScore(body, options);
    default:
      return wire::ParseTei(kind, body, options);
  }
}

size_t BytesOf(const api::EncodeInput& input) {
  if (const auto* text = std::get_if<std::string>(&input)) return text->size();
  if (const auto* ids = std::get_if<std::vector<tutti::TokenId>>(&input)) return ids->size();
  const auto& pair = std::get<api::TextPair>(input);
  return std::min(pair.first.size(), pair.second.size());
}

// As a model might answer the call.
api::EncodeResult Answer(const wire::EncodingCall& call, uint8_t shape) {
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

size_t AnswersIn(const wire::EncodingCall& call, const wire::Json& body) {
  switch (call.kind) {
    case wire::EncodingKind::kEmbeddings:
    case wire::EncodingKind::kScore:
      return body.at("data").as_array().size();
    case wire::EncodingKind::kRerank:
      return body.at("results").as_array().size();
    case wire::EncodingKind::kTeiSimilarity:
      return body.as_array().size() + 1;
    case wire::EncodingKind::kTeiPredict:
      return call.listed ? body.as_array().size() : 1;
    default:
      return body.as_array().size();
  }
}

void CheckCall(const wire::EncodingCall& call, bool strict, uint8_t shape) {
  const size_t inputs = call.request.inputs.size();
  CHECK(inputs >= 1 && inputs <= api::kMaxEncodeInputs);
  CHECK(call.texts.empty() || call.texts.size() == inputs);
  CHECK(!strict || call.ignored.empty());
  size_t bytes = 0;
  for (size_t i = 0; i < inputs; ++i) {
    CHECK(BytesOf(call.request.inputs[i]) > 0) << "an empty input";
    CHECK(!wire::InputParam(call, i).empty());
    if (const auto* pair = std::get_if<api::TextPair>(&call.request.inputs[i]))
      bytes += pair->first.size() + pair->second.size();
  }
  CHECK(bytes <= api::kMaxPairBytes);
  const std::string text =
      wire::EncodingBody(call, {"id", "m", 1, {"a", "b"}}, Answer(call, shape));
  const tutti::Result<wire::JsonDocument> body = wire::ParseJson(text);
  CHECK(body.ok()) << body.status();
  const size_t most = call.top_n > 0 ? static_cast<size_t>(call.top_n) : inputs;
  CHECK(AnswersIn(call, body->root()) == std::min(inputs, most)) << text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t choice = input.Byte();
  const uint8_t shape = input.Byte();
  const tutti::Result<wire::JsonDocument> body = wire::ParseJson(input.Rest());
  if (!body.ok()) return 0;
  wire::ParseOptions options;
  options.strict = (choice & 128) != 0;
  const int route = choice % 128 % kRoutes;
  if (route == kRoutes - 1) {
    if (const auto call = wire::ParseDecode(body->root(), options); !call.ok())
      CheckRefusal(call.status());
    return 0;
  }
  const tutti::Result<wire::EncodingCall> call =
      Parse(static_cast<wire::EncodingKind>(route), body->root(), options);
  if (call.ok()) {
    CheckCall(*call, options.strict, shape);
  } else {
    CheckRefusal(call.status());
  }
  return 0;
}
