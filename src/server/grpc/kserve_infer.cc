// ModelInfer: one request, one response.
#include <utility>

#include "protocol/kserve/one_response.h"
#include "server/grpc/kserve_run.h"
#include "server/grpc/services.h"
#include "server/grpc/unary.h"

namespace tutti::rpc {
namespace {

class InferHandler final : public CallHandler {
 public:
  using CallHandler::CallHandler;

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& message) override {
    inference::ModelInferRequest request;
    if (!request.ParseFromZeroCopyStream(&message)) return call_.Finish(Unreadable());
    run_ = Run::Begin(call_, request, call_.NewCacheReport());
    if (run_.execution == nullptr) return call_.Finish(run_.failure);
    Pump();
  }
  void OnEnd() override {
    if (run_.execution == nullptr) call_.Finish(Unreadable());
  }

  bool waits() const override { return run_.execution != nullptr; }
  TimePoint due() const override {
    return run_.execution == nullptr ? TimePoint::max() : run_.execution->due();
  }
  int unprepared() const override {
    return run_.execution != nullptr && !run_.execution->prepared() ? 1 : 0;
  }

  void Pump() override {
    if (run_.execution == nullptr) return;
    Result<std::optional<kserve::InferResponse>> response =
        only_.Take(*run_.execution,
                   "ModelInfer RPC doesn't support models with decoupled transaction policy: '" +
                       run_.model + "' gives more than one response; use ModelStreamInfer");
    if (!response.ok()) return End(response.status());
    if (!response->has_value()) return;
    run_.execution.reset();
    run_.RecordStages(call_, (*response)->spent);
    inference::ModelInferResponse message;
    run_.Fill(**response, &message);
    call_.Reply(message);
  }

 private:
  void End(const Status& status) {
    run_.execution.reset();
    call_.Finish(status);
  }

  Run run_;
  kserve::OneResponse only_;
};

}  // namespace

std::unique_ptr<CallHandler> MakeModelInfer(Call& call) {
  return std::make_unique<InferHandler>(call);
}

}  // namespace tutti::rpc
