#include "protocol/kserve/encoding_model.h"

#include <chrono>

#include "api/validate.h"
#include "protocol/encoding/input_blame.h"
#include "protocol/json/utf8.h"
#include "protocol/kserve/adapters.h"
#include "protocol/kserve/refusal.h"
#include "protocol/kserve/request.h"
#include "protocol/schema/checked_object.h"

namespace tutti::kserve {

class EncodingExecution final : public Execution {
 public:
  EncodingExecution(const EncodingModel& model, api::Encoding encoding, std::string input,
                    std::vector<std::string> wanted, std::vector<std::string> unread, size_t items)
      : model_(model),
        encoding_(std::move(encoding)),
        input_(std::move(input)),
        wanted_(std::move(wanted)),
        unread_(std::move(unread)),
        items_(items) {}

  bool prepared() const override { return encoding_.prepared(); }
  std::vector<std::string> unread() const override { return unread_; }

  Result<std::optional<InferResponse>> Next() override {
    if (!encoding_.done()) return std::optional<InferResponse>();
    Result<api::EncodeResult> taken = encoding_.Take();
    if (!taken.ok()) return protocol::BlameList(input_, taken.status());
    api::EncodeResult result = *std::move(taken);
    const TimePoint begin = model_.clock_.Now();
    InferResponse response;
    response.outputs.push_back(model_.Output(result, items_));
    KeepWanted(wanted_, &response.outputs);
    response.final = true;
    response.spent = {.items = items_,
                      .executions = 0,
                      .queue = result.timings.queue,
                      .input = result.timings.prepare,
                      .infer = result.timings.inference,
                      .output = model_.clock_.Now() - begin};
    return std::optional(std::move(response));
  }

 private:
  const EncodingModel& model_;  // kept by its repository's entry
  api::Encoding encoding_;
  const std::string input_;  // the tensor of its inputs
  const std::vector<std::string> wanted_, unread_;
  const size_t items_;
};

namespace {

// The parameters that change what an encoder gives, by the names they have elsewhere; the others'
// names are added to `unread`.
Status ReadParameters(const Parameters& parameters, bool strict, api::EncodeRequest* encode,
                      protocol::IgnoredFields* unread) {
  const auto bad = [](const std::string& name, const char* what) {
    return InvalidArgument("invalid_value", "parameter '" + name + "' must be " + what)
        .WithParam(name);
  };
  for (const auto& [name, value] : parameters) {
    const bool* flag = std::get_if<bool>(&value);
    const auto* number = std::get_if<int64_t>(&value);
    const auto* text = std::get_if<std::string>(&value);
    if (name == "normalize" || name == "truncate" || name == "raw_scores") {
      if (flag == nullptr) return bad(name, "a bool");
      if (name == "normalize") encode->normalize = *flag;
      if (name == "raw_scores") encode->raw_scores = *flag;
      if (name == "truncate" && *flag) encode->truncation = api::Truncation::kRight;
    } else if (name == "dimensions" || name == "truncate_prompt_tokens") {
      if (number == nullptr || *number < 1 || *number > INT32_MAX) {
        return bad(name, "a positive integer");
      }
      if (name == "dimensions") {
        encode->dimensions = static_cast<int>(*number);
      } else {
        encode->truncate_tokens = static_cast<int>(*number);
      }
    } else if (name == "prompt_name") {
      if (text == nullptr) return bad(name, "a string");
      encode->prompt_name = *text;
    } else if (strict) {
      return InvalidArgument("unknown_parameter",
                             "there is no parameter " + Quoted(name) + " of encoders")
          .WithParam(protocol::Excerpt(name));
    } else {
      unread->Add(name);
    }
  }
  return OkStatus();
}

}  // namespace

ModelConfig EncodingModel::ConfigOf(const api::ModelInfo& info, std::string platform) {
  ModelConfig config;
  config.name = info.id;
  config.platform = std::move(platform);
  config.backend = "tutti";
  config.scheduling = ModelConfig::Scheduling::kDynamicBatching;
  config.preferred_batch = info.encoder->batch_items;
  config.max_queue_delay_us =
      std::chrono::duration_cast<std::chrono::microseconds>(info.encoder->batch_window).count();
  config.parameters = {{"max_tokens", std::to_string(info.max_model_len)},
                       {"architecture", info.architecture}};
  return config;
}

Result<std::unique_ptr<Execution>> EncodingModel::Start(InferRequest request,
                                                        std::shared_ptr<Waker> waker) {
  api::EncodeRequest encode;
  encode.request_id = std::move(request.request_id);
  encode.model = config_.name;
  encode.priority = request.priority;
  encode.deadline = request.deadline;
  encode.caller = std::move(request.caller);
  encode.rate_limits = std::move(request.rate_limits);
  encode.route = std::move(request.route);
  encode.cache = request.cache;
  encode.cache_report = std::move(request.cache_report);
  protocol::IgnoredFields unread;
  RETURN_IF_ERROR(ReadParameters(request.parameters, request.strict, &encode, &unread));
  ASSIGN_OR_RETURN(std::string input, Read(request, &encode));
  const size_t items = encode.inputs.size();
  Result<api::Encoding> encoding = inference_.Encode(std::move(encode), std::move(waker));
  if (!encoding.ok()) return protocol::BlameList(input, encoding.status());
  return std::unique_ptr<Execution>(
      std::make_unique<EncodingExecution>(*this, *std::move(encoding), std::move(input),
                                          std::move(request.outputs), unread.names(), items));
}

std::optional<std::pair<uint64_t, uint64_t>> EncodingModel::Executed() const {
  return ExecutedOf(inference_, config_.name);
}

Result<std::vector<std::string>> Texts(const Tensor& tensor) {
  const uint64_t count = *CountElements(tensor.shape);
  if (count < 1 || count > api::kMaxEncodeInputs) {
    return InvalidArgument("invalid_value", "input '" + tensor.name + "' must hold 1 to " +
                                                std::to_string(api::kMaxEncodeInputs) +
                                                " texts, not " + std::to_string(count))
        .WithParam(tensor.name);
  }
  std::vector<std::string> texts;
  texts.reserve(count);
  const auto elements = SplitBytes(tensor.data, count);
  for (size_t i = 0; i < elements->size(); ++i) {
    std::string text((*elements)[i]);
    RETURN_IF_ERROR(api::CheckUtf8(text, tensor.name + "[" + std::to_string(i) + "]"));
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace tutti::kserve
