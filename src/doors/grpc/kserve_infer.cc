// ModelInfer: one request, one response.
#include <utility>

#include "doors/grpc/kserve_run.h"
#include "doors/grpc/services.h"
#include "doors/grpc/unary.h"

namespace tutti::rpc {
namespace {

class InferExchange final : public Exchange {
 public:
  using Exchange::Exchange;

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& message) override {
    inference::ModelInferRequest request;
    if (!request.ParseFromZeroCopyStream(&message)) return call_.Finish(Unreadable());
    run_ = Run::Begin(call_, request);
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
    while (run_.execution != nullptr) {
      Result<std::optional<kserve::InferResponse>> next = run_.execution->Next();
      if (!next.ok()) return End(next.status());
      if (!next->has_value()) return;
      kserve::InferResponse& response = **next;
      const bool last = response.final;
      if (!response.empty) {
        if (held_.has_value()) {
          return End(InvalidArgument("invalid_value",
                                     "ModelInfer RPC doesn't support models with decoupled "
                                     "transaction policy: '" +
                                         run_.model +
                                         "' gives more than one response; use "
                                         "ModelStreamInfer"));
        }
        held_ = std::move(response);
      }
      if (!last) continue;
      run_.execution.reset();
      inference::ModelInferResponse message;
      kserve::InferResponse none;
      run_.Fill(held_.has_value() ? *held_ : none, &message);
      call_.Reply(message);
    }
  }

 private:
  void End(const Status& status) {
    run_.execution.reset();
    call_.Finish(status);
  }

  Run run_;
  std::optional<kserve::InferResponse> held_;  // until it is known to be the only one
};

}  // namespace

std::unique_ptr<Exchange> MakeModelInfer(Call& call) {
  return std::make_unique<InferExchange>(call);
}

}  // namespace tutti::rpc
