// Decoders (adapters.h).
#include <algorithm>
#include <utility>

#include "api/names.h"
#include "api/validate.h"
#include "protocol/json/json.h"
#include "protocol/kserve/adapters.h"
#include "protocol/kserve/request.h"
#include "protocol/openai/request.h"

namespace tutti::kserve {
namespace {

using Json = protocol::Json;

Json JsonOf(const ParameterValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

// Sampling fields of the request in the form that the completions route reads: the members of the
// JSON tensor `sampling_parameters` override the request's own parameters.
Result<protocol::JsonObject> SamplingFields(const InferRequest& request) {
  protocol::JsonObject object;
  for (const auto& [name, value] : request.parameters) object[name] = JsonOf(value);
  if (const Tensor* tensor = FindInput(request, "sampling_parameters"); tensor != nullptr) {
    const auto elements = SplitBytes(tensor->data, 1);
    ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(elements->front()));
    if (!document.root().is_object()) {
      return BadValue("sampling_parameters", "sampling_parameters must hold a JSON object");
    }
    for (const auto& member : document.root().get_object()) object[member.key()] = member.value();
  }
  return object;
}

bool Flag(const InferRequest& request, const char* name, bool otherwise) {
  const Tensor* tensor = FindInput(request, name);
  return tensor == nullptr ? otherwise : tensor->data.front() != 0;
}

Tensor TextTensor(const char* name, const std::vector<std::string>& texts) {
  Tensor tensor{name, DataType::kBytes, {static_cast<int64_t>(texts.size())}, {}};
  for (const std::string& text : texts) AppendBytesElement(text, &tensor.data);
  return tensor;
}

class GenerationExecution final : public Execution {
 public:
  GenerationExecution(api::Generation generation, std::vector<std::string> wanted,
                      std::vector<std::string> unread, int n, bool stream, std::string before)
      : generation_(std::move(generation)),
        wanted_(std::move(wanted)),
        unread_(std::move(unread)),
        stream_(stream),
        texts_(static_cast<size_t>(n), before),
        reasons_(static_cast<size_t>(n)) {}

  bool prepared() const override { return generation_.stream().size() > 0; }
  std::vector<std::string> unread() const override { return unread_; }

  Result<std::optional<InferResponse>> Next() override {
    bool ended = false;
    while (const api::StreamEvent* event = generation_.Next()) {
      generation_.Consumed(event->text.size());
      if (event->kind == api::StreamEvent::Kind::kEnd) {
        if (!generation_.stream().status().ok()) return generation_.stream().status();
        timings_ = event->timings;
        ended = true;
        break;
      }
      const auto choice = static_cast<size_t>(event->choice);
      if (choice >= texts_.size()) continue;  // a token of the prompt
      texts_[choice] += event->text;
      news_ = news_ || !event->text.empty();
      if (event->kind == api::StreamEvent::Kind::kChoiceEnd) {
        reasons_[choice] = api::FinishReasonName(event->finish_reason);
        news_ = true;
      }
    }
    // The last text of a stream is sent with its end, which follows at once, in one final response.
    if (!ended && (!stream_ || !news_ || AllEnded())) return std::optional<InferResponse>();
    InferResponse response;
    response.outputs.push_back(TextTensor("text_output", texts_));
    response.outputs.push_back(TextTensor("finish_reason", reasons_));
    KeepWanted(wanted_, &response.outputs);
    for (std::string& text : texts_) text.clear();
    news_ = false;
    response.final = ended;
    if (ended) {
      response.spent = {.items = 1,
                        .executions = 0,
                        .queue = timings_.queue,
                        .input = timings_.prepare,
                        .infer = timings_.prefill + timings_.decode,
                        .output = Duration::zero()};
    }
    return std::optional(std::move(response));
  }

 private:
  bool AllEnded() const {
    for (const std::string& reason : reasons_) {
      if (reason.empty()) return false;
    }
    return true;
  }

  api::Generation generation_;
  const std::vector<std::string> wanted_, unread_;
  const bool stream_;
  std::vector<std::string> texts_;    // of each choice, not sent yet
  std::vector<std::string> reasons_;  // of each choice, empty until it ends
  bool news_ = false;                 // there is something to send
  api::Timings timings_;
};

class GenerationModel final : public Model {
 public:
  GenerationModel(const api::ModelInfo& info, api::Inference& inference, const Clock& clock)
      : inference_(inference), clock_(clock) {
    config_.name = info.id;
    config_.platform = "tutti_generation";
    config_.backend = "tutti";
    config_.decoupled = true;
    config_.task = ModelConfig::Task::kGenerate;
    config_.inputs = {{"text_input", DataType::kBytes, {1}},
                      {"stream", DataType::kBool, {1}, true},
                      {"sampling_parameters", DataType::kBytes, {1}, true},
                      {"exclude_input_in_output", DataType::kBool, {1}, true},
                      {"text_input", DataType::kBytes, {1, 1}, false, true}};
    config_.outputs = {{"text_output", DataType::kBytes, {-1}},
                       {"finish_reason", DataType::kBytes, {-1}}};
    config_.parameters = {{"max_tokens", std::to_string(info.max_model_len)},
                          {"architecture", info.architecture}};
  }

  const ModelConfig& config() const override { return config_; }

  Result<std::unique_ptr<Execution>> Start(InferRequest request,
                                           std::shared_ptr<Waker> waker) override {
    const bool stream = Flag(request, "stream", false);
    const bool exclude = Flag(request, "exclude_input_in_output", stream);
    if (stream && !exclude) {
      return BadValue("exclude_input_in_output",
                      "When streaming, exclude_input_in_output = False is not allowed.");
    }
    const Tensor& input = *FindInput(request, "text_input");
    std::string text(SplitBytes(input.data, 1)->front());
    RETURN_IF_ERROR(api::CheckUtf8(text, "text_input"));
    protocol::IgnoredFields unread;
    ASSIGN_OR_RETURN(api::GenerateRequest generate, Parse(request, &unread));
    std::get<api::TextPrompt>(generate.prompt).text = text;
    if (exclude) text.clear();
    const int n = generate.n;
    ASSIGN_OR_RETURN(api::Generation generation,
                     inference_.Generate(std::move(generate), std::move(waker)));
    return std::unique_ptr<Execution>(
        std::make_unique<GenerationExecution>(std::move(generation), std::move(request.outputs),
                                              unread.names(), n, stream, std::move(text)));
  }

  std::optional<std::pair<uint64_t, uint64_t>> Executed() const override {
    return ExecutedOf(inference_, config_.name);
  }

 private:
  // Parses everything except the prompt's text, which is not part of the JSON.
  Result<api::GenerateRequest> Parse(const InferRequest& request,
                                     protocol::IgnoredFields* unread) const {
    ASSIGN_OR_RETURN(protocol::JsonObject fields, SamplingFields(request));
    protocol::ParseOptions options;
    options.now = clock_.Now();
    options.strict = request.strict;
    ASSIGN_OR_RETURN(api::GenerateRequest generate,
                     protocol::ParseSampling(Json(std::move(fields)), options, unread));
    generate.model = config_.name;
    generate.request_id = request.request_id;
    generate.trace_context = request.trace_context;
    generate.deadline = std::min(generate.deadline, request.deadline);
    if (generate.priority == api::Priority::kInteractive) generate.priority = request.priority;
    generate.caller = request.caller;
    generate.rate_limits = request.rate_limits;
    generate.route = request.route;
    generate.cache = request.cache;
    generate.cache_report = request.cache_report;
    return generate;
  }

  ModelConfig config_;
  api::Inference& inference_;
  const Clock& clock_;
};

}  // namespace

std::shared_ptr<Model> MakeGenerationModel(const api::ModelInfo& info, api::Inference& inference,
                                           const Clock& clock) {
  return std::make_shared<GenerationModel>(info, inference, clock);
}

}  // namespace tutti::kserve
