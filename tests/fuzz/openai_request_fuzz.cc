// Bodies of every OpenAI-style route and of /infill: a client's mistake is an invalid argument with
// a known code, never more. Input: one byte (route, strict), then the body.
#include <string>

#include "base/check.h"
#include "fuzz_input.h"
#include "wire/error.h"
#include "wire/json.h"
#include "wire/openai_request.h"
#include "wire/tokenizer_routes.h"
#include "wire/utf8.h"

namespace {

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty());
  const tutti::wire::ErrorView view = tutti::wire::ViewError(status);
  CHECK(view.http >= 400 && view.http < 500) << status;
  CHECK(tutti::IsValidUtf8(view.message) && tutti::IsValidUtf8(view.param)) << status;
  CHECK(tutti::wire::ParseJson(tutti::wire::ErrorBody(view)).ok()) << "the error body is not JSON";
}

void CheckGeneration(tutti::wire::Dialect dialect, const tutti::wire::Json& body,
                     const tutti::wire::ParseOptions& options) {
  const tutti::Result<tutti::wire::GenerationCall> call =
      tutti::wire::ParseGeneration(dialect, body, options);
  if (!call.ok()) return CheckRefusal(call.status());
  CHECK(!call->requests.empty());
  CHECK(call->choices() >= 1);
  CHECK(!options.strict || call->ignored.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace wire = tutti::wire;
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t choice = input.Byte();
  const tutti::Result<wire::JsonDocument> body = wire::ParseJson(input.Rest());
  if (!body.ok()) return 0;
  wire::ParseOptions options;
  options.strict = (choice & 128) != 0;
  if ((choice & 64) != 0) {
    CheckGeneration(wire::Dialect::kInfill, body->root(), options);
    return 0;
  }
  switch (choice % 6) {
    case 0:
    case 1:
    case 2:
      CheckGeneration(static_cast<wire::Dialect>(choice % 6), body->root(), options);
      break;
    case 3:
      if (const auto call = wire::ParseTokenize(body->root(), options); !call.ok())
        CheckRefusal(call.status());
      break;
    case 4:
      if (const auto call = wire::ParseDetokenize(body->root(), options); !call.ok())
        CheckRefusal(call.status());
      break;
    default:
      if (const auto call = wire::ParseApplyTemplate(body->root(), options); !call.ok())
        CheckRefusal(call.status());
      break;
  }
  return 0;
}
