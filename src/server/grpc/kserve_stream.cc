// ModelStreamInfer: many requests on one stream, answered as they come.
//
// Requests to models that answer once are answered in their order, those to decoupled models take
// turns. A request that fails says so in a response of its own and the stream goes on, unless the
// client asked for the stream's status instead. While a response waits for the client nothing is
// taken from the models, and while too many requests are unanswered nothing is read.
#include <algorithm>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "protocol/cache_headers.h"
#include "server/grpc/call.h"
#include "server/grpc/kserve_run.h"
#include "server/grpc/router.h"

namespace tutti::rpc {
namespace {

class StreamHandler final : public CallHandler {
 public:
  using CallHandler::CallHandler;

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& message) override {
    inference::ModelInferRequest request;
    if (!request.ParseFromZeroCopyStream(&message)) return call_.Finish(Unreadable());
    const auto report = std::make_shared<api::CacheReport>();
    Run run = Run::Begin(call_, request, report);
    run.cache_report = report;
    (run.decoupled ? turns_ : ordered_).push_back(std::move(run));
    reading_ = false;
    Go();
  }
  void OnEnd() override {
    ended_ = true;
    Go();
  }
  void OnWritten() override {
    writing_ = false;
    Go();
  }
  void Pump() override { Go(); }

  bool waits() const override { return !ordered_.empty() || !turns_.empty(); }
  TimePoint due() const override {
    TimePoint earliest = TimePoint::max();
    if (writing_) return earliest;  // OnWritten() looks again
    for (const std::list<Run>* runs : {&ordered_, &turns_}) {
      for (const Run& run : *runs) {
        if (run.execution != nullptr) earliest = std::min(earliest, run.execution->due());
      }
    }
    return earliest;
  }
  int unprepared() const override {
    int count = 0;
    for (const std::list<Run>* runs : {&ordered_, &turns_}) {
      for (const Run& run : *runs) {
        if (run.execution != nullptr && !run.execution->prepared()) ++count;
      }
    }
    return count;
  }

 private:
  // Everything that can be done now.
  void Go() {
    while (!writing_ && !over_ && (Serve(ordered_) || ServeTurns())) {
    }
    if (over_) return;
    const auto unanswered = static_cast<int>(ordered_.size() + turns_.size());
    if (ended_) {
      if (unanswered == 0 && !writing_) call_.Finish(OkStatus());
      return;
    }
    if (!reading_ && unanswered < call_.context().options.limits.stream_requests) {
      reading_ = true;
      call_.Read();
    }
  }

  bool ServeTurns() {
    for (size_t i = 0; i < turns_.size(); ++i) {
      if (Serve(turns_)) return true;
      turns_.splice(turns_.end(), turns_, turns_.begin());  // the next one's turn
    }
    return false;
  }

  // Takes what there is of the first of `runs`; false when that is nothing.
  bool Serve(std::list<Run>& runs) {
    if (runs.empty()) return false;
    Run& run = runs.front();
    if (run.execution == nullptr) {
      Fail(run, run.failure);
      runs.pop_front();
      return true;
    }
    Result<std::optional<kserve::InferResponse>> next = run.execution->Next();
    if (!next.ok()) {
      Fail(run, next.status());
      runs.pop_front();
      return true;
    }
    if (!next->has_value()) return false;
    kserve::InferResponse& response = **next;
    if (response.final) run.RecordStages(call_, response.spent);
    if (!response.empty || run.empty_final) {
      inference::ModelStreamInferResponse message;
      run.Fill(response, message.mutable_infer_response());
      (*message.mutable_infer_response()->mutable_parameters())["triton_final_response"]
          .set_bool_param(response.final);
      SendCacheHeaders(run, message.mutable_infer_response());
      writing_ = true;
      call_.Write(message);
    }
    if (response.final) {
      runs.pop_front();
    } else if (&runs == &turns_) {
      runs.splice(runs.end(), runs, runs.begin());
    }
    return true;
  }

  // A stream has many requests but only one set of metadata, so each response carries the result of
  // its own cache look-up.
  static void SendCacheHeaders(const Run& run, inference::ModelInferResponse* response) {
    std::vector<std::pair<std::string, std::string>> fields;
    protocol::AppendCacheHeaders({&run.cache_report, 1}, &fields);
    for (const auto& [name, value] : fields)
      (*response->mutable_parameters())[AsciiLower(name)].set_string_param(value);
  }

  void Fail(const Run& run, const Status& status) {
    if (call_.info().stream_errors_end) {
      over_ = true;
      return call_.Finish(status);
    }
    inference::ModelStreamInferResponse message;
    message.set_error_message(PublicMessage(status));
    message.mutable_infer_response()->set_id(run.id);
    writing_ = true;
    call_.Write(message);
  }

  std::list<Run> ordered_, turns_;
  bool reading_ = true;  // the first read is the call's own
  bool writing_ = false, ended_ = false, over_ = false;
};

}  // namespace

HandlerPtr MakeModelStreamInfer(Call& call) { return std::make_unique<StreamHandler>(call); }

}  // namespace tutti::rpc
