#include "server/http/handlers/response_start.h"

#include <vector>

#include "api/models.h"
#include "protocol/responses/conversations.h"
#include "services/responses/call_state.h"
#include "services/sessions/message.h"

namespace tutti::http {

template <typename Value, typename Then>
std::function<void(Value)> ResponseStart::Later(Then then) {
  return connection_.Later([weak = weak_from_this(), then](Value value) {
    if (const auto self = weak.lock()) ((*self).*then)(std::move(value));
  });
}

void ResponseStart::Run(Done done) {
  const auto self = shared_from_this();
  done_ = std::move(done);
  connection_.request_context().Sign(&call_.request);
  call_.request.route = connection_.request_context().usage_route();
  if (call_.model.empty()) call_.model = call_.request.model = ServedName();
  if (given_.session.has_value()) return Submit(std::nullopt);
  if (!call_.conversation.empty()) return FindConversation();
  if (given_.if_match.has_value()) {
    return End(InvalidArgument("invalid_value",
                               "If-Match names a version of a conversation, and there is none here")
                   .WithParam("conversation"));
  }
  if (given_.said_before.has_value()) responses::InsertSaid(*given_.said_before, &call_);
  if (call_.previous_response_id.empty() || given_.said_before.has_value()) return Begin();
  connection_.context().deps.responses->Chain(connection_.request_context().tenant(),
                                              call_.previous_response_id,
                                              Later<Result<Messages>>(&ResponseStart::OnChain));
}

void ResponseStart::OnChain(Result<Messages> chain) {
  if (!chain.ok()) {
    Status status = std::move(chain).status();
    return End(std::move(status).WithParam("previous_response_id"));
  }
  responses::InsertSaid(*chain, &call_);
  Begin();
}

sessions::SessionKey ResponseStart::Key() const {
  if (given_.session.has_value()) return *given_.session;
  return {connection_.request_context().tenant(), sessions::kConversations, call_.conversation};
}

// Conversations are created by their own route: an unknown name is an error, not a new dialog.
void ResponseStart::FindConversation() {
  connection_.context().deps.sessions->GetConversation(
      Key(), [later = Later<Status>(&ResponseStart::OnConversation)](
                 const Result<sessions::Conversation>& found) { later(found.status()); });
}

void ResponseStart::OnConversation(Status status) {
  if (!status.ok()) return End(std::move(status).WithParam("conversation"));
  std::optional<int64_t> version;
  if (given_.if_match.has_value()) {
    const Result<std::optional<int64_t>> read = protocol::ParseIfMatch(*given_.if_match);
    if (!read.ok()) return End(read.status());
    version = *read;
  }
  Submit(version);
}

void ResponseStart::Submit(std::optional<int64_t> version) {
  protocol::ResponseState skeleton = Skeleton();
  const sessions::SessionKey key = Key();
  protocol::ResponsesCall said = call_;  // what is left is how the answer is shown
  sessions::Message message = sessions::MessageOf(std::move(said), std::move(skeleton));
  message.expected_version = version;
  message.admit = given_.admit;
  connection_.context().deps.sessions->Submit(
      key, std::move(message), Later<Result<sessions::Acceptance>>(&ResponseStart::OnAccepted));
}

void ResponseStart::OnAccepted(const Result<sessions::Acceptance>& accepted) {
  if (!accepted.ok()) return End(accepted.status(), Connection::Origin::kInference);
  acceptance_ = *accepted;
  if (accepted->response != nullptr) {
    response_ = accepted->response;
    return End(OkStatus());
  }
  using Found = Result<std::shared_ptr<responses::Response>>;
  connection_.context().deps.responses->Find(connection_.request_context().tenant(),
                                             accepted->response_id,
                                             Later<Found>(&ResponseStart::OnFound));
}

void ResponseStart::OnFound(Result<std::shared_ptr<responses::Response>> found) {
  if (!found.ok()) return End(found.status());
  response_ = *std::move(found);
  End(OkStatus());
}

void ResponseStart::Begin() {
  if (!call_.store) {
    const auto& messages = std::get<api::ChatPrompt>(call_.request.prompt).messages;
    const bool instructed = call_.instructions.has_value() && !call_.instructions->empty();
    dialog_.assign(messages.begin() + (instructed ? 1 : 0), messages.end());
  }
  responses::Call call;
  call.owner = connection_.request_context().tenant();
  call.state = Skeleton();
  call.input = responses::MessagesOf(call_.input);
  call.request = std::move(call_.request);
  Result<responses::Attachment> attachment =
      connection_.context().deps.responses->Start(std::move(call));
  if (!attachment.ok()) return End(attachment.status(), Connection::Origin::kInference);
  attachment_ = *std::move(attachment);
  response_ = attachment_.response();
  End(OkStatus());
}

void ResponseStart::End(const Status& status, Connection::Origin origin) {
  const Done done = std::exchange(done_, nullptr);
  done(status, origin);
}

protocol::ResponseState ResponseStart::Skeleton() const {
  return responses::SkeletonOf(call_, ServedName(), Key().session);
}

std::string ResponseStart::ServedName() const {
  if (!call_.model.empty()) return call_.model;
  const api::ModelList models = connection_.context().deps.inference->Models();
  const api::ModelInfo* model = api::DefaultGenerator(models);
  return model == nullptr ? std::string() : model->id;
}

}  // namespace tutti::http
