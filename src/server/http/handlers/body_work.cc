#include "server/http/handlers/body_work.h"

#include "server/http/handler.h"

namespace tutti::http {

Status HeldAnswer::Reserve(size_t bytes) {
  if (share_.GrowTo(static_cast<int64_t>(bytes))) return OkStatus();
  return NoRoomForAnswer(bytes, *budget_);
}

Status HeldAnswer::Keep(std::string body) {
  body_ = std::move(body);
  RETURN_IF_ERROR(Reserve(body_.capacity()));
  share_.ShrinkTo(static_cast<int64_t>(body_.capacity()));
  return OkStatus();
}

void HeldAnswer::Send(Connection& connection, HeaderList headers) && {
  connection.HoldAnswer(std::move(share_));
  connection.Respond(200, std::move(headers), std::move(body_));
}

}  // namespace tutti::http
