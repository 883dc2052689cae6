#include "server/grpc/unary.h"

namespace tutti::rpc {

Status Unreadable() {
  return InvalidArgument("invalid_value", "the request is no message of this method");
}

Status ExpiredDeadline() {
  return Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                "the deadline passed before the request was looked at");
}

}  // namespace tutti::rpc
