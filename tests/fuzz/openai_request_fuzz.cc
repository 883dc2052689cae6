// Bodies of every OpenAI-style route and of /infill: a client's mistake is an invalid argument with
// a known code, never more. Input: one byte (route, strict), then the body.
#include <string>

#include "base/check.h"
#include "fuzz_input.h"
#include "protocol/error.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/openai/request.h"
#include "protocol/openai/tokenizer_routes.h"

namespace {

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty());
  const tutti::protocol::ErrorView view = tutti::protocol::ViewError(status);
  CHECK(view.http >= 400 && view.http < 500) << status;
  CHECK(tutti::IsValidUtf8(view.message) && tutti::IsValidUtf8(view.param)) << status;
  CHECK(tutti::protocol::ParseJson(tutti::protocol::ErrorBody(view)).ok())
      << "the error body is not JSON";
}

void CheckGeneration(tutti::protocol::Dialect dialect, const tutti::protocol::Json& body,
                     const tutti::protocol::ParseOptions& options) {
  const tutti::Result<tutti::protocol::GenerationCall> call =
      tutti::protocol::ParseGeneration(dialect, body, options);
  if (!call.ok()) return CheckRefusal(call.status());
  CHECK(!call->requests.empty());
  CHECK(call->choices() >= 1);
  CHECK(!options.strict || call->ignored.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace protocol = tutti::protocol;
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t choice = input.Byte();
  const tutti::Result<protocol::JsonDocument> body = protocol::ParseJson(input.Rest());
  if (!body.ok()) return 0;
  protocol::ParseOptions options;
  options.strict = (choice & 128) != 0;
  if ((choice & 64) != 0) {
    CheckGeneration(protocol::Dialect::kInfill, body->root(), options);
    return 0;
  }
  if ((choice & 32) != 0) {
    CheckGeneration(
        (choice & 1) != 0 ? protocol::Dialect::kSystemOne : protocol::Dialect::kDecisions,
        body->root(), options);
    return 0;
  }
  switch (choice % 6) {
    case 0:
    case 1:
    case 2:
      CheckGeneration(static_cast<protocol::Dialect>(choice % 6), body->root(), options);
      break;
    case 3:
      if (const auto call = protocol::ParseTokenize(body->root(), options); !call.ok())
        CheckRefusal(call.status());
      break;
    case 4:
      if (const auto call = protocol::ParseDetokenize(body->root(), options); !call.ok())
        CheckRefusal(call.status());
      break;
    default:
      if (const auto call = protocol::ParseApplyTemplate(body->root(), options); !call.ok())
        CheckRefusal(call.status());
      break;
  }
  return 0;
}
