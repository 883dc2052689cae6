// Bodies of KServe v2 over HTTP, in every form, for the built-in test models: a client's mistake is
// a refusal with a known code in KServe's form; tensors that a model may see come back the same
// through JSON and as binary data. Input: one byte (form, strict), one byte (model), the field
// Inference-Header-Content-Length up to a line break, then the body.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "fuzz_input.h"
#include "protocol/error.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/kserve/json/elements.h"
#include "protocol/kserve/json/request.h"
#include "protocol/kserve/json/response.h"
#include "protocol/kserve/request.h"
#include "protocol/kserve/test_models.h"

namespace {

namespace kserve = tutti::kserve;
namespace protocol = tutti::protocol;

enum class Form { kJson, kLength, kRaw, kGenerate, kStream };
constexpr int kForms = 5;

const kserve::ModelConfig& ConfigOf(uint8_t choice) {
  static const tutti::SteadyClock clock;
  static const std::vector<std::shared_ptr<kserve::Model>> models = kserve::MakeTestModels(clock);
  return models[choice % models.size()]->config();
}

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty());
  const protocol::ErrorView view =
      protocol::ViewError(status, {.form = protocol::ErrorForm::kKserve});
  CHECK(view.http == 400) << status;
  CHECK(tutti::IsValidUtf8(view.message)) << status;
  CHECK(protocol::ParseJson(protocol::ErrorBody(view)).ok()) << "the error body is not JSON";
}

tutti::Result<kserve::RequestBody> Read(Form form, const kserve::ModelConfig& config,
                                        std::string_view length, std::string_view body,
                                        bool strict) {
  const kserve::JsonReadOptions options{tutti::TimePoint(), strict};
  switch (form) {
    case Form::kJson:
      return kserve::ReadInfer(body, std::nullopt, options);
    case Form::kLength: {
      ASSIGN_OR_RETURN(const size_t json_bytes, kserve::ReadHeaderLength(length, body.size()));
      CHECK(json_bytes <= body.size());
      return kserve::ReadInfer(body, json_bytes, options);
    }
    case Form::kRaw:
      return kserve::ReadRawInput(config, std::string(body));
    case Form::kGenerate:
    case Form::kStream:
      return kserve::ReadGenerate(config, body, form == Form::kStream, options);
  }
  return tutti::Internal("no form");
}

// Through JSON the elements read again to the same bytes, where they have such a form at all.
void CheckElements(const kserve::Tensor& tensor) {
  std::string text;
  protocol::JsonWriter json(&text);
  if (!kserve::WriteElements(tensor, false, &json).ok()) return;
  const tutti::Result<protocol::JsonDocument> list = protocol::ParseJson(text);
  CHECK(list.ok()) << list.status();
  kserve::Tensor again{tensor.name, tensor.type, tensor.shape, {}};
  const tutti::Status read = kserve::ReadElements(list->root(), &again);
  CHECK(read.ok()) << read;
  CHECK(again.data == tensor.data) << text;
}

void CheckBody(const kserve::ModelConfig& config, const kserve::RequestBody& body, bool strict) {
  CHECK(!strict || body.ignored.names().empty());
  if (const tutti::Status fits = kserve::CheckRequest(config, body.request); !fits.ok())
    return CheckRefusal(fits);
  kserve::InferResponse response;
  response.outputs = body.request.inputs;
  for (const kserve::Tensor& tensor : response.outputs) CheckElements(tensor);

  kserve::RequestBody binary = body;
  binary.binary_outputs = true;
  binary.outputs.clear();
  const tutti::Result<kserve::ResponseBody> answer =
      kserve::WriteInfer(config.name, binary, response);
  CHECK(answer.ok()) << answer.status();
  const size_t json_bytes = answer->json_bytes.value_or(answer->text.size());
  const auto head = protocol::ParseJson(std::string_view(answer->text).substr(0, json_bytes));
  CHECK(head.ok()) << head.status();
  size_t blobs = 0;
  for (const protocol::Json& output : head->root().at("outputs").as_array())
    blobs += static_cast<size_t>(output.at("parameters").at("binary_data_size").as_int64());
  CHECK(json_bytes + blobs == answer->text.size());

  if (const auto flat = kserve::GenerateBody(body.request.id, config.name, response); flat.ok())
    CHECK(protocol::ParseJson(*flat).ok()) << *flat;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t choice = input.Byte();
  const kserve::ModelConfig& config = ConfigOf(input.Byte());
  const std::string_view length = input.Until('\n');
  const std::string_view text = input.Rest();
  const bool strict = (choice & 128) != 0;
  const auto body = Read(static_cast<Form>(choice % 128 % kForms), config, length, text, strict);
  if (body.ok()) {
    CheckBody(config, *body, strict);
  } else {
    CheckRefusal(body.status());
  }
  return 0;
}
