// Bodies of the routes that load and unload models and adapters: a client's mistake is an invalid
// argument with a known code, and what is accepted has names within their bounds. Input: one byte
// (route, strict), then the body.
#include <cmath>

#include "base/check.h"
#include "fuzz_input.h"
#include "protocol/error.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/openai/adapters.h"
#include "protocol/openai/models.h"

namespace {

namespace protocol = tutti::protocol;

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty());
  const protocol::ErrorView view = protocol::ViewError(status);
  CHECK(view.http >= 400 && view.http < 500) << status;
  CHECK(tutti::IsValidUtf8(view.message) && tutti::IsValidUtf8(view.param)) << status;
  CHECK(protocol::ParseJson(protocol::ErrorBody(view)).ok()) << "the error body is not JSON";
}

void CheckAdapter(const tutti::Result<protocol::AdapterCall>& call, bool load, bool strict) {
  if (!call.ok()) return CheckRefusal(call.status());
  CHECK(tutti::IsValidUtf8(call->request.name));
  CHECK(!load || !call->request.path.empty());
  CHECK(std::isfinite(call->request.scale));
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
  switch (choice % 128 % 3) {
    case 0: {
      const auto call = protocol::ParseModelCall(body->root(), options);
      if (!call.ok()) {
        CheckRefusal(call.status());
        break;
      }
      CHECK(!call->model.empty() && tutti::IsValidUtf8(call->model));
      CHECK(!options.strict || call->ignored.empty());
      break;
    }
    case 1:
      CheckAdapter(protocol::ParseLoadAdapter(body->root(), options), true, options.strict);
      break;
    default:
      CheckAdapter(protocol::ParseUnloadAdapter(body->root(), options), false, options.strict);
  }
  return 0;
}
