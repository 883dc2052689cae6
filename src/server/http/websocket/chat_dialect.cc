#include "server/http/websocket/chat_dialect.h"

#include <algorithm>
#include <optional>

#include "protocol/chat/topic.h"
#include "protocol/responses/events.h"
#include "protocol/responses/socket_message.h"
#include "server/http/handlers/request_fields.h"
#include "services/auth/principal.h"

namespace tutti::http {
namespace {

constexpr std::string_view kOpenUser = "local";  // as over MQTT without a user name

}  // namespace

ChatDialect::Understood ChatDialect::Understand(std::string_view text,
                                                const protocol::ParseOptions& options) {
  Understood understood;
  understood.message = protocol::ParseChatFrame(text, options, &understood.tag);
  return understood;
}

const std::string* ChatDialect::TokenOf(const protocol::ChatFrame& frame) {
  return frame.verb == protocol::ChatFrame::Verb::kAuth ? &frame.token : nullptr;
}

Status ChatDialect::Open() {
  protocol::IgnoredFields ignored;
  ASSIGN_OR_RETURN(query_, ReadQuery(connection_, &protocol::ParseChatQuery, &ignored));
  return OkStatus();
}

// Only an anonymous caller may choose a user name in the URL; an authenticated caller has a name.
Status ChatDialect::Identified() {
  const auth::PrincipalRef& who = connection_.request_context().decision().principal;
  const bool open = who == nullptr || who->kind == auth::PrincipalKind::kOpen;
  std::string name = open ? std::string(kOpenUser) : who->name;
  if (!query_.user.empty() && query_.user != name) {
    if (!open) {
      return Status(StatusCode::kPermissionDenied, "insufficient_scope",
                    "the URL names another user")
          .WithParam("user");
    }
    if (!protocol::IsUserLevel(query_.user)) {
      return InvalidArgument("invalid_value",
                             "user must have 1 to 128 letters, digits, '_', '.' or '-', and not "
                             "be server or jobs")
          .WithParam("user");
    }
    name = query_.user;
  }
  if (!protocol::IsUserLevel(name)) name.clear();
  user_ = {
      .tenant = connection_.request_context().tenant(), .name = std::move(name), .known = true};
  return OkStatus();
}

void ChatDialect::Begin() {
  place_.Take(&connection_.context().chat_clients,
              {.protocol = api::LiveClient::Protocol::kWebSocket,
               .client_id = {},
               .tenant = user_.tenant,
               .user = user_.name,
               .since = connection_.loop()->clock().Now()});
  if (!query_.job_id.empty()) Follow(query_.job_id, query_.starting_after.value_or(-1), {});
}

void ChatDialect::Take(protocol::ChatFrame frame, Tag tag, BudgetShare share) {
  switch (frame.verb) {
    case protocol::ChatFrame::Verb::kMessage:
      return TakeMessage(std::move(frame), std::move(tag), std::move(share));
    case protocol::ChatFrame::Verb::kControl:
      return TakeControl(std::move(frame), std::move(tag));
    case protocol::ChatFrame::Verb::kJob:
      if (MayBegin(tag)) Follow(std::move(frame.job_id), frame.starting_after, std::move(tag));
      return;
    case protocol::ChatFrame::Verb::kAuth:
      return SendError(InvalidArgument("invalid_value", "the connection is already authenticated"),
                       tag);
  }
}

bool ChatDialect::MayBegin(const Tag& tag) {
  if (host_.leaving().ok()) return HasPlace(tag);
  SendError(host_.leaving(), tag);
  return false;
}

bool ChatDialect::HasPlace(const Tag& tag) {
  const size_t most = connection_.context().options.socket.answers;
  if (answers_.size() + looking_ < most) return true;
  Refuse(ResourceExhausted("tenant_concurrency", "the connection has " + std::to_string(most) +
                                                     " unfinished answers, its limit"),
         Connection::Origin::kServer, tag);
  return false;
}

Status ChatDialect::CheckUser() const {
  if (!user_.name.empty()) return OkStatus();
  return Status(
      StatusCode::kPermissionDenied, "insufficient_scope",
      "this user cannot have sessions: user names need 1 to 128 letters, digits, '_', '.' "
      "or '-'");
}

std::shared_ptr<ChatAnswer> ChatDialect::AddAnswer(Tag tag) {
  ChatHost& host = *this;
  answers_.push_back(std::make_shared<ChatAnswer>(connection_, host, std::move(tag)));
  return answers_.back();
}

void ChatDialect::TakeMessage(protocol::ChatFrame frame, Tag tag, BudgetShare share) {
  if (!MayBegin(tag)) return;
  protocol::ResponsesCall& call = frame.message.call;
  ResponseStart::Given given;
  sessions::SessionKey key{connection_.request_context().tenant(), sessions::kConversations,
                           call.conversation};
  if (call.conversation.empty()) {
    if (const Status may = CheckUser(); !may.ok()) return SendError(may, tag);
    const Status known = chat().CheckProject(user_, frame.message.project);
    if (!known.ok()) return SendError(known, tag);
    key = chat().KeyOf(user_, frame.message.project, frame.session);
    given.session = key;
    given.admit = chat().AdmissionOf(key);
  }
  if (call.request.request_id.empty())
    call.request.request_id = "req-" + connection_.loop()->RandomId(24);
  if (call.request.user.empty()) call.request.user = user_.name;
  AddAnswer(std::move(tag))->Ask(key, std::move(call), std::move(given), std::move(share));
}

void ChatDialect::Follow(std::string job_id, int64_t version, Tag tag) {
  AddAnswer(std::move(tag))->Follow(std::move(job_id), version);
}

void ChatDialect::TakeControl(protocol::ChatFrame frame, Tag tag) {
  using Control = protocol::MqttControl::Verb;
  if (!frame.session.empty()) {
    if (const Status may = CheckUser(); !may.ok()) return SendError(may, tag);
  }
  switch (frame.control.verb) {
    case Control::kCancel:
      return Cancel(frame, std::move(tag));
    case Control::kResume:
      return Resume(frame, std::move(tag));
    case Control::kPing:
      return chat().Carry(user_, "", frame.control,
                          [this, tag](Result<std::string> event) { Send(*std::move(event), tag); });
    case Control::kSubscribe:
      return;  // read as a frame of its own (protocol::ChatFrame)
    case Control::kHistory:
    case Control::kFork:
    case Control::kClear:
      break;
  }
  if (verbs_.size() >= connection_.context().options.socket.channel_messages) {
    return Refuse(ResourceExhausted("session_queue_full",
                                    std::to_string(verbs_.size()) +
                                        " commands of this connection are waiting, the limit"),
                  Connection::Origin::kServer, tag);
  }
  verbs_.push_back({std::move(frame.session), std::move(frame.control), std::move(tag)});
  RunVerbs();
}

void ChatDialect::RunVerbs() {
  if (verb_runs_ || verbs_.empty() || !host_.HasRoom()) return;
  const Verb next = std::move(verbs_.front());
  verbs_.pop_front();
  verb_runs_ = true;
  chat().Carry(user_, next.session, next.control,
               connection_.Later([this, tag = next.tag](Result<std::string> event) {
                 verb_runs_ = false;
                 if (event.ok()) {
                   Send(*std::move(event), tag);
                 } else {
                   SendError(event.status(), tag);
                 }
                 RunVerbs();
                 if (idle()) host_.Idle();
               }));
}

// Allowed during a drain too.
void ChatDialect::Cancel(const protocol::ChatFrame& frame, Tag tag) {
  if (!HasPlace(tag)) return;
  if (const std::string& id = frame.control.response_id; !id.empty()) {
    return Find(id, tag, [this, tag](const std::shared_ptr<responses::Response>& response) {
      CancelOf(response, tag);
    });
  }
  const sessions::SessionKey key =
      frame.conversation.empty()
          ? chat().KeyOf(user_, frame.control.project, frame.session)
          : sessions::SessionKey{connection_.request_context().tenant(), sessions::kConversations,
                                 frame.conversation};
  const std::shared_ptr<responses::Response> running = RunningOf(key);
  if (running == nullptr) return Send(protocol::CancelledEvent(tag.id, ""), tag);
  CancelOf(running, std::move(tag));
}

void ChatDialect::CancelOf(const std::shared_ptr<responses::Response>& response, Tag tag) {
  const std::shared_ptr<ChatAnswer> answer = AddAnswer(tag);
  const Status opened =
      answer->AwaitEnd(response, protocol::CancelledEvent(tag.id, response->id()));
  if (!opened.ok()) {
    answer->GiveUp();
    SendError(opened, tag);
  }
  connection_.context().deps.responses->Cancel(response->owner(), response->id(),
                                               [](const auto&) {});
  Pump();
}

std::shared_ptr<responses::Response> ChatDialect::RunningOf(const sessions::SessionKey& key) const {
  std::shared_ptr<responses::Response> first;
  for (const std::shared_ptr<ChatAnswer>& answer : answers_) {
    const std::shared_ptr<responses::Response> response = answer->response();
    if (answer->key() != key || response == nullptr || response->ended()) continue;
    if (response->State().status == protocol::ResponseStatus::kInProgress) return response;
    if (first == nullptr) first = response;
  }
  return first;
}

void ChatDialect::Resume(const protocol::ChatFrame& frame, Tag tag) {
  if (!MayBegin(tag)) return;
  std::optional<sessions::SessionKey> key;
  if (!frame.session.empty()) key = chat().KeyOf(user_, frame.control.project, frame.session);
  Find(
      frame.control.response_id, tag,
      [this, tag, key = std::move(key), starting_after = frame.control.starting_after.value_or(-1)](
          const std::shared_ptr<responses::Response>& response) {
        const std::shared_ptr<ChatAnswer> answer = AddAnswer(tag);
        answer->set_key(key);
        const Status sent = answer->SendFrom(response, starting_after);
        if (!sent.ok()) {
          answer->GiveUp();
          SendError(sent, tag);
        }
        Pump();
      });
}

void ChatDialect::Find(const std::string& response_id, Tag tag,
                       std::function<void(const std::shared_ptr<responses::Response>&)> then) {
  ++looking_;
  connection_.context().deps.responses->Find(
      connection_.request_context().tenant(), response_id,
      connection_.Later([this, tag = std::move(tag), then = std::move(then)](
                            const Result<std::shared_ptr<responses::Response>>& found) {
        --looking_;
        if (!found.ok()) {
          SendError(found.status(), tag);
        } else if (!sessions::MayRead(user_, (*found)->base().state.conversation)) {
          SendError(NotFound("not_found", "there is no such response"), tag);
        } else {
          then(*found);
        }
        if (idle()) host_.Idle();
      }));
}

void ChatDialect::Pump() {
  if (std::exchange(pumping_, true)) return;
  bool any = true;
  while (any && host_.HasRoom()) {
    any = false;
    ++turn_;
    for (size_t i = 0; i < answers_.size() && host_.HasRoom(); ++i)
      any |= answers_[(turn_ + i) % answers_.size()]->Pump();
  }
  pumping_ = false;
  RunVerbs();
  Sweep();
}

bool ChatDialect::idle() const {
  return verbs_.empty() && !verb_runs_ && looking_ == 0 &&
         std::all_of(
             answers_.begin(), answers_.end(),
             [](const std::shared_ptr<ChatAnswer>& answer) { return answer->follows_job(); });
}

void ChatDialect::Sweep() {
  const size_t ended = std::erase_if(
      answers_, [](const std::shared_ptr<ChatAnswer>& answer) { return answer->ended(); });
  if (ended > 0 && idle()) host_.Idle();
}

void ChatDialect::Send(std::string event, const Tag& tag) {
  host_.Send(protocol::WithStreamId(std::move(event), tag.stream_id));
}

void ChatDialect::SendError(const Status& why, Connection::Origin origin, const Tag& tag) {
  (void)connection_.request_context().MakeErrorView(why, origin);  // logged and counted
  Send(protocol::ErrorEvent(std::nullopt, why, tag.id), tag);
}

void ChatDialect::Refuse(const Status& why, Connection::Origin origin, const Tag& tag) {
  SendError(why, origin, tag);
  const protocol::ErrorRow& row = protocol::FindError(why);
  if (row.code == "conversation_busy" || row.websocket == 4429) host_.Leave(why, row.websocket);
}

ChatHost::May ChatDialect::MaySend(const ChatAnswer& answer) const {
  May may = May::kAll;
  if (!answer.key().has_value()) return may;
  for (const std::shared_ptr<ChatAnswer>& other : answers_) {
    if (!other->tells_events() || other->key() != answer.key() || other->turn() >= answer.turn())
      continue;
    if (!other->begun()) return May::kNothing;
    may = May::kBegin;
  }
  return may;
}

bool ChatDialect::Sends(const responses::Response& response) const {
  return std::any_of(answers_.begin(), answers_.end(),
                     [&](const std::shared_ptr<ChatAnswer>& answer) {
                       return answer->tells_events() && answer->response().get() == &response;
                     });
}

void ChatDialect::Supersede(ChatAnswer& newer) {
  for (const std::shared_ptr<ChatAnswer>& answer : answers_) {
    if (answer.get() == &newer || !answer->tells_events() ||
        answer->tag().stream_id != newer.tag().stream_id || answer->response() != newer.response())
      continue;
    if (!newer.key().has_value()) newer.set_key(answer->key());
    answer->GiveUp();
  }
}

}  // namespace tutti::http
