// An exchange that reads one message and answers it at once.
#pragma once

#include <memory>
#include <utility>

#include "base/status.h"
#include "server/grpc/call.h"
#include "server/grpc/server_context.h"

namespace tutti::rpc {

Status Unreadable();       // a message that is not of the method's type
Status ExpiredDeadline();  // before anything was done

// `Answer` is Status(Call&, const Request&, Response*).
template <typename Request, typename Response, auto Answer>
class Unary final : public CallHandler {
 public:
  using CallHandler::CallHandler;
  static std::unique_ptr<CallHandler> Make(Call& call) { return std::make_unique<Unary>(call); }

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& message) override {
    Request request;
    if (!request.ParseFromZeroCopyStream(&message)) return call_.Finish(Unreadable());
    Response response;
    const Status status = Answer(call_, std::as_const(request), &response);
    status.ok() ? call_.Reply(response) : call_.Finish(status);
  }
  void OnEnd() override { call_.Finish(Unreadable()); }
};

}  // namespace tutti::rpc
