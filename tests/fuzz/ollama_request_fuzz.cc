// Bodies of Ollama's chat, generate, show, pull, copy and delete routes: a client's mistake is a
// refusal with a known code in Ollama's form, and what is accepted is a request that the inference
// API takes, or none. Input: one byte (route, strict), then the body.
#include "api/validate.h"
#include "base/check.h"
#include "fuzz_input.h"
#include "protocol/error.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/ollama/request.h"

namespace {

namespace protocol = tutti::protocol;

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty());
  protocol::ErrorOptions options;
  options.form = protocol::ErrorForm::kOllama;
  const protocol::ErrorView view = protocol::ViewError(status, options);
  CHECK(view.http >= 400 && view.http < 500) << status;
  CHECK(tutti::IsValidUtf8(view.message)) << status;
  CHECK(protocol::ParseJson(protocol::ErrorBody(view)).ok()) << "the error body is not JSON";
}

void CheckGeneration(const tutti::Result<protocol::GenerationCall>& call, bool strict) {
  if (!call.ok()) {
    CheckRefusal(call.status());
    return;
  }
  CHECK(call->requests.size() <= 1);
  CHECK(call->requests.empty() == !call->load_reason.empty());
  CHECK(!strict || call->ignored.empty());
  if (call->requests.empty()) return;
  CHECK(call->choices() == 1);
  if (const tutti::Status valid = tutti::api::ValidateRequest(call->requests.front()); !valid.ok())
    CheckRefusal(valid);
}

void CheckLibrary(const tutti::Result<protocol::ollama::LibraryCall>& call, bool strict) {
  if (!call.ok()) {
    CheckRefusal(call.status());
    return;
  }
  CHECK(!strict || call->ignored.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t choice = input.Byte();
  const tutti::Result<protocol::JsonDocument> body = protocol::ParseJson(input.Rest());
  if (!body.ok()) return 0;
  protocol::ParseOptions options;
  options.strict = (choice & 128) != 0;
  switch (choice % 128 % 6) {
    case 0:
      CheckGeneration(protocol::ollama::ParseChat(body->root(), options), options.strict);
      break;
    case 1:
      CheckGeneration(protocol::ollama::ParseGenerate(body->root(), options), options.strict);
      break;
    case 3:
      CheckLibrary(protocol::ollama::ParsePull(body->root(), options), options.strict);
      break;
    case 4:
      CheckLibrary(protocol::ollama::ParseCopy(body->root(), options), options.strict);
      break;
    case 5:
      CheckLibrary(protocol::ollama::ParseDelete(body->root(), options), options.strict);
      break;
    default:
      if (const auto call = protocol::ollama::ParseShow(body->root(), options); !call.ok())
        CheckRefusal(call.status());
  }
  return 0;
}
