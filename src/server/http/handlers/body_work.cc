#include "server/http/handlers/body_work.h"

namespace tutti::http {

Status NoRoomForAnswer(size_t bytes, const MemoryBudget& budget) {
  if (static_cast<int64_t>(bytes) > budget.limit()) {
    return ResourceExhausted(
        "request_too_large",
        "the answer would take about " + std::to_string(bytes) + " bytes; ask for less at once");
  }
  return Unavailable("overloaded", "too many long answers wait for their readers");
}

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
