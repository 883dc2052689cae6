// tutti.v1: Embed, Score and Metrics, which have one response each.
#include <tutti/v1/tutti.pb.h>

#include <string>
#include <utility>
#include <vector>

#include "api/models.h"
#include "api/validate.h"
#include "protocol/encoding/call.h"
#include "server/counting/request_counts.h"
#include "server/grpc/router.h"

namespace tutti::rpc {
namespace {

Result<api::Truncation> ToTruncation(v1::Truncation truncation) {
  switch (truncation) {
    case v1::TRUNCATION_REFUSE:
      return api::Truncation::kRefuse;
    case v1::TRUNCATION_RIGHT:
      return api::Truncation::kRight;
    case v1::TRUNCATION_LEFT:
      return api::Truncation::kLeft;
    default:
      return InvalidArgument("invalid_value", "truncation must be one of its named values")
          .WithParam("truncation");
  }
}

// Before they are copied.
Status CheckAmount(int64_t count, const char* param) {
  if (count >= 1 && count <= api::kMaxEncodeInputs) return OkStatus();
  return InvalidArgument("invalid_value", "a request holds 1 to " +
                                              std::to_string(api::kMaxEncodeInputs) + " " + param +
                                              ", not " + std::to_string(count))
      .WithParam(param);
}

// The fields of the inputs.
std::string ListOf(const v1::EmbedRequest&) { return "texts"; }
std::string ListOf(const v1::ScoreRequest& message) {
  return message.pairs_size() > 0 ? "pairs" : "documents";
}

// A refusal of the inference API with the names of these messages' fields.
Status Blame(const std::string& list, Status status) {
  if (status.param() == "truncate_prompt_tokens")
    return std::move(status).WithParam("truncate_tokens");
  return protocol::BlameList(list, std::move(status));
}

// A message's texts are UTF-8, or it was not read.
Result<api::EncodeRequest> ToRequest(v1::EmbedRequest& message) {
  RETURN_IF_ERROR(CheckAmount(message.texts_size(), "texts"));
  api::EncodeRequest request;
  for (std::string& text : *message.mutable_texts()) request.inputs.emplace_back(std::move(text));
  if (message.has_normalize()) request.normalize = message.normalize();
  if (message.has_dimensions()) request.dimensions = message.dimensions();
  if (message.has_prompt_name()) request.prompt_name = message.prompt_name();
  return request;
}

Result<api::EncodeRequest> ToRequest(v1::ScoreRequest& message) {
  const bool listed = message.documents_size() > 0 || !message.query().empty();
  if (listed && message.pairs_size() > 0) {
    return InvalidArgument("invalid_value", "pairs are given, or query and documents, not both")
        .WithParam("pairs");
  }
  api::EncodeRequest request;
  request.output = api::EncodeOutput::kScores;
  request.raw_scores = message.raw_scores();
  if (listed) {
    RETURN_IF_ERROR(CheckAmount(message.documents_size(), "documents"));
    size_t bytes = 0;
    for (const std::string& document : message.documents()) bytes += document.size();
    RETURN_IF_ERROR(api::CheckPairBytes(
        message.query().size(), static_cast<size_t>(message.documents_size()), bytes, "documents"));
    for (std::string& document : *message.mutable_documents()) {
      request.inputs.emplace_back(api::TextPair{message.query(), std::move(document)});
    }
    return request;
  }
  RETURN_IF_ERROR(CheckAmount(message.pairs_size(), "pairs"));
  for (v1::TextPair& pair : *message.mutable_pairs()) {
    request.inputs.emplace_back(
        api::TextPair{std::move(*pair.mutable_query()), std::move(*pair.mutable_document())});
  }
  return request;
}

void ToResponse(const api::EncodeResult& result, const std::vector<std::string>& /*labels*/,
                v1::EmbedResponse* response) {
  const size_t width = static_cast<size_t>(result.width);
  const size_t count = width == 0 ? 0 : result.values.size() / width;
  response->set_count(static_cast<int>(count));
  response->set_dimension(result.width);
  response->mutable_vectors()->Reserve(static_cast<int>(count));
  for (size_t i = 0; i < count; ++i) {
    const float* row = result.values.data() + i * width;
    response->add_vectors()->mutable_values()->Add(row, row + width);
  }
  response->mutable_tokens()->Add(result.tokens.begin(), result.tokens.end());
}

void ToResponse(const api::EncodeResult& result, const std::vector<std::string>& labels,
                v1::ScoreResponse* response) {
  const size_t width = static_cast<size_t>(result.width);
  response->set_count(static_cast<int>(width == 0 ? 0 : result.values.size() / width));
  response->mutable_scores()->Add(result.values.begin(), result.values.end());
  response->mutable_tokens()->Add(result.tokens.begin(), result.tokens.end());
  for (const std::string& label : labels) response->add_labels(label);
}

template <typename Request, typename Response>
class EncodeHandler final : public CallHandler {
 public:
  using CallHandler::CallHandler;

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& stream) override {
    Request message;
    if (!message.ParseFromZeroCopyStream(&stream)) return call_.Finish(Unreadable());
    const Status status = Submit(message);
    if (!status.ok()) return call_.Finish(status);
    Pump();
  }
  void OnEnd() override {
    if (!encoding_) call_.Finish(Unreadable());
  }
  bool waits() const override { return static_cast<bool>(encoding_); }
  int unprepared() const override { return encoding_ && !encoding_.prepared() ? 1 : 0; }

  void Pump() override {
    if (!encoding_ || !encoding_.done()) return;
    Result<api::EncodeResult> result = encoding_.Take();
    encoding_ = api::Encoding();
    if (!result.ok()) return call_.Finish(Blame(list_, result.status()));
    counting::CountStages(result->timings, call_.context().deps.metrics);
    Response response;
    response.set_model(model_);
    ToResponse(*result, labels_, &response);
    call_.Reply(response);
  }

 private:
  Status Submit(Request& message) {
    list_ = ListOf(message);
    ASSIGN_OR_RETURN(api::EncodeRequest request, ToRequest(message));
    ASSIGN_OR_RETURN(request.truncation, ToTruncation(message.truncation()));
    if (message.has_truncate_tokens()) request.truncate_tokens = message.truncate_tokens();
    request.model = model_ = message.model();
    Choose(&request);
    request.request_id = call_.info().request_id;
    request.trace_context = call_.info().trace_context;
    request.caller = CallerOf(call_);
    request.route = request.output == api::EncodeOutput::kScores ? "grpc.score" : "grpc.embed";
    request.deadline = call_.info().deadline;
    request.cache = call_.cache_control();
    request.cache_report = call_.NewCacheReport();
    Result<api::Encoding> encoding =
        call_.context().deps.inference->Encode(std::move(request), call_.waker());
    if (!encoding.ok()) return Blame(list_, encoding.status());
    encoding_ = *std::move(encoding);
    return OkStatus();
  }

  // Chooses the model and remembers its labels. The inference API rejects unknown models.
  void Choose(api::EncodeRequest* request) {
    const api::ModelList models = call_.context().deps.inference->Models();
    const api::ModelInfo* model = api::EncoderFor(models, *request);
    if (model == nullptr) return;
    request->model = model_ = model->id;
    if (model->encoder.has_value()) labels_ = model->encoder->labels;
  }

  std::string list_;                 // the field of the inputs
  std::string model_;                // that answers
  std::vector<std::string> labels_;  // of its scores
  api::Encoding encoding_;
};

void Set(const LatencySummary& summary, v1::CallMetrics* out) {
  out->set_method(summary.method);
  out->set_count(summary.count);
  out->set_errors(summary.errors);
  out->set_avg_ms(summary.avg_ms);
  out->set_p50_ms(summary.p50_ms);
  out->set_p95_ms(summary.p95_ms);
  out->set_p99_ms(summary.p99_ms);
  out->set_max_ms(summary.max_ms);
  out->set_throughput(summary.per_second);
}

Status Metrics(Call& call, const v1::MetricsRequest& request, v1::MetricsResponse* response) {
  const WindowSummary window = call.context().window.Read(request.reset());
  response->set_window_s(ToSeconds(window.window));
  Set(window.total, response->mutable_total());
  for (const LatencySummary& method : window.methods) Set(method, response->add_methods());
  return OkStatus();
}

}  // namespace

HandlerPtr MakeEmbed(Call& call) {
  return std::make_unique<EncodeHandler<v1::EmbedRequest, v1::EmbedResponse>>(call);
}
HandlerPtr MakeScore(Call& call) {
  return std::make_unique<EncodeHandler<v1::ScoreRequest, v1::ScoreResponse>>(call);
}

HandlerPtr MakeMetrics(Call& call) { return Unary<Metrics>::Make(call); }

}  // namespace tutti::rpc
