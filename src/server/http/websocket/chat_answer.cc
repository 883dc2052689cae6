#include "server/http/websocket/chat_answer.h"

#include <algorithm>
#include <vector>

#include "protocol/responses/events.h"

namespace tutti::http {
namespace {

// Events in a turn's log from before it runs.
bool Begins(std::string_view type) {
  return type == "accepted" || type == "response.created" || type == "response.queued";
}

}  // namespace

void ChatAnswer::Ask(const sessions::SessionKey& key, protocol::ResponsesCall call,
                     ResponseStart::Given given, BudgetShare share) {
  key_ = key;
  share_ = std::move(share);
  start_ = std::make_shared<ResponseStart>(connection_, std::move(call), std::move(given));
  start_->Run([this](const Status& why, Connection::Origin origin) { OnStarted(why, origin); });
}

void ChatAnswer::OnStarted(const Status& why, Connection::Origin origin) {
  share_.Release();  // the dialog has it
  const std::shared_ptr<ResponseStart> start = std::move(start_);
  if (why.ok()) {
    const Status sent = SendFrom(start->response(), -1);
    if (!sent.ok()) host_.SendError(sent, Connection::Origin::kServer, tag_);
    return sent.ok() ? host_.Changed() : End();
  }
  const std::optional<sessions::Acceptance>& accepted = start->acceptance();
  if (!accepted.has_value()) {
    host_.Refuse(why, origin, tag_);
    return End();
  }
  host_.Send(protocol::EventJson(protocol::AcceptedEvent{tag_.id, accepted->response_id,
                                                         accepted->turn, accepted->position},
                                 0),
             tag_);
  host_.SendError(NotFound("expired", "the answer to this message is no longer kept"), origin,
                  tag_);
  End();
}

Status ChatAnswer::Open(const std::shared_ptr<responses::Response>& response,
                        int64_t starting_after) {
  ASSIGN_OR_RETURN(ResponseCursor cursor,
                   ResponseCursor::Open(response, starting_after, connection_.loop(),
                                        ResponseCursor::Numbers::kLog));
  cursor_.emplace(std::move(cursor));
  return OkStatus();
}

Status ChatAnswer::SendFrom(const std::shared_ptr<responses::Response>& response,
                            int64_t starting_after) {
  RETURN_IF_ERROR(Open(response, starting_after));
  host_.Supersede(*this);
  return OkStatus();
}

Status ChatAnswer::AwaitEnd(const std::shared_ptr<responses::Response>& response,
                            std::string word) {
  word_ = std::move(word);
  // Starts before the next entry; for an ended response, at its terminal entry.
  return Open(response, std::max<int64_t>(response->log().next() - 2, -1));
}

void ChatAnswer::Follow(std::string job_id, int64_t version) {
  job_ = std::make_shared<JobFollow>(connection_, std::move(job_id), version);
  job_->Run([this](const protocol::JobView& job) { host_.Send(protocol::JobEvent(job), tag_); },
            [this](const Status& status) {
              if (!status.ok()) host_.SendError(status, Connection::Origin::kServer, tag_);
              End();
            });
}

int64_t ChatAnswer::turn() const {
  if (!cursor_.has_value()) return 0;
  const std::optional<responses::TurnNote>& note = cursor_->response()->base().turn;
  return note.has_value() ? note->turn : 0;
}

bool ChatAnswer::Pump() {
  if (ended_ || !cursor_.has_value()) return false;
  if (word_.has_value() && host_.Sends(*cursor_->response())) return false;
  if (read_.empty() && !cursor_->ended()) {
    Result<std::vector<ResponseCursor::Event>> events = cursor_->Next();
    if (!events.ok()) return Fail(events.status());
    if (!word_.has_value()) read_.assign(events->begin(), events->end());
  }
  const ChatHost::May may = host_.MaySend(*this);
  bool sent = false;
  while (!read_.empty() && (may == ChatHost::May::kAll ||
                            (may == ChatHost::May::kBegin && Begins(read_.front().type())))) {
    host_.Send(read_.front().Json(), tag_);
    read_.pop_front();
    begun_ = sent = true;
  }
  if (!read_.empty() || !cursor_->ended()) return sent;
  ended_ = true;
  if (const Status place = cursor_->Place(); !place.ok()) {
    host_.SendError(place, Connection::Origin::kServer, tag_);
  } else if (word_.has_value()) {
    host_.Send(*word_, tag_);
  }
  return true;
}

// If the oldest events are no longer stored, sends an error and then the remaining events: the last
// one has the whole answer.
bool ChatAnswer::Fail(const Status& why) {
  if (!word_.has_value() || why.reason() != "expired")
    host_.SendError(why, Connection::Origin::kServer, tag_);
  const std::shared_ptr<responses::Response> response = cursor_->response();
  ended_ = why.reason() != "expired" || !Open(response, response->log().first() - 1).ok();
  return true;
}

void ChatAnswer::End() {
  ended_ = true;
  host_.Changed();
}

}  // namespace tutti::http
