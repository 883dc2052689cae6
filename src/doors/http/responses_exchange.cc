// POST /v1/responses: one turn, answered as an object or as events; what is stored or runs in the
// background outlives the connection.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/models.h"
#include "doors/http/body_work.h"
#include "doors/http/connection.h"
#include "doors/http/request_deadline.h"
#include "doors/http/response_feed.h"
#include "services/responses/responses.h"
#include "services/sessions/call_message.h"
#include "services/sessions/sessions.h"
#include "wire/conversations.h"
#include "wire/json.h"
#include "wire/response_events.h"
#include "wire/responses_request.h"

namespace tutti::http {
namespace {

Result<wire::ResponsesCall> Parse(std::string_view body, const wire::ParseOptions& options) {
  ASSIGN_OR_RETURN(const wire::JsonDocument document, wire::ParseJson(body));
  return wire::ParseResponses(document.root(), options);
}

class ResponsesExchange final : public Exchange {
 public:
  explicit ResponsesExchange(Connection& connection) : connection_(connection), feed_(connection) {}

  void Start() override {
    const HttpOptions& options = connection_.context().options;
    const wire::ParseOptions parse{options.strict, connection_.request_start(),
                                   options.limits.deadline_cap};
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [parse](std::string_view body) { return Parse(body, parse); },
        [this](Result<wire::ResponsesCall> call) { OnParsed(std::move(call)); });
  }

  void Pump() override { feed_.Pump(); }
  TimePoint Due() const override { return feed_.Due(); }
  void OnTimer(TimePoint now) override { feed_.OnTimer(now); }

 private:
  void OnParsed(Result<wire::ResponsesCall> parsed) {
    if (!parsed.ok()) return connection_.RespondError(parsed.status());
    call_.emplace(*std::move(parsed));
    const Result<TimePoint> deadline =
        HeaderDeadline(connection_.request(), connection_.request_start(),
                       connection_.context().options.limits.deadline_cap);
    if (!deadline.ok()) return connection_.RespondError(deadline.status());
    api::GenerateRequest& request = call_->request;
    connection_.AdoptRequestId(request.request_id);
    request.request_id = connection_.request_id();
    connection_.Sign(&request);
    request.route = connection_.usage_route();
    request.deadline = std::min(request.deadline, *deadline);
    if (!call_->conversation.empty()) return FindConversation();
    if (connection_.request().Find("if-match") != nullptr) {
      return connection_.RespondError(
          InvalidArgument("invalid_value",
                          "If-Match names a version of a conversation, and there is none here")
              .WithParam("conversation"));
    }
    if (call_->previous_response_id.empty()) return Begin();
    Responses().Chain(
        connection_.tenant(), call_->previous_response_id,
        [here = connection_.Return(), this](Result<Messages> chain) {
          here([this, chain = std::move(chain)]() mutable { OnChain(std::move(chain)); });
        });
  }

  using Messages = responses::Responses::Messages;
  // What was said before goes between the instructions and the input.
  void OnChain(Result<Messages> chain) {
    if (!chain.ok()) {
      Status status = std::move(chain).status();
      return connection_.RespondError(std::move(status).WithParam("previous_response_id"));
    }
    auto& messages = std::get<api::ChatPrompt>(call_->request.prompt).messages;
    messages.insert(messages.end() - static_cast<ptrdiff_t>(call_->input.size()), chain->begin(),
                    chain->end());
    Begin();
  }

  sessions::SessionKey Key() const {
    return {connection_.tenant(), sessions::kConversations, call_->conversation};
  }

  // A conversation is made by its own route: a name that there is not is an error, no new dialog.
  void FindConversation() {
    Dialogs().GetConversation(
        Key(), [here = connection_.Return(), this](const Result<sessions::Conversation>& found) {
          here([this, status = found.status()] { OnConversation(status); });
        });
  }

  void OnConversation(Status status) {
    if (!status.ok()) return connection_.RespondError(std::move(status).WithParam("conversation"));
    const std::string* if_match = connection_.request().Find("if-match");
    std::optional<int64_t> version;
    if (if_match != nullptr) {
      const Result<std::optional<int64_t>> read = wire::ParseIfMatch(*if_match);
      if (!read.ok()) return connection_.RespondError(read.status());
      version = *read;
    }
    wire::ResponseState skeleton = Skeleton();
    const sessions::SessionKey key = Key();
    wire::ResponsesCall said = *call_;  // what is left is how the answer is shown
    sessions::Message message = sessions::MessageOf(std::move(said), std::move(skeleton));
    message.expected_version = version;
    Dialogs().Submit(key, std::move(message),
                     [here = connection_.Return(), this](Result<sessions::Acceptance> accepted) {
                       here([this, accepted = std::move(accepted)] { OnAccepted(accepted); });
                     });
  }

  void OnAccepted(const Result<sessions::Acceptance>& accepted) {
    if (!accepted.ok())
      return connection_.RespondError(accepted.status(), Connection::Origin::kWaist);
    if (accepted->response != nullptr) return Show(accepted->response);
    using Found = Result<std::shared_ptr<responses::Response>>;
    Responses().Find(connection_.tenant(), accepted->response_id,
                     [here = connection_.Return(), this](Found found) {
                       here([this, found = std::move(found)] {
                         if (!found.ok()) return connection_.RespondError(found.status());
                         Show(*found);
                       });
                     });
  }

  void Begin() {
    responses::Call call;
    call.owner = connection_.tenant();
    call.state = Skeleton();
    call.input = sessions::MessagesOf(call_->input);
    call.request = std::move(call_->request);
    Result<responses::Attachment> attachment = Responses().Start(std::move(call));
    if (!attachment.ok())
      return connection_.RespondError(attachment.status(), Connection::Origin::kWaist);
    attachment_ = *std::move(attachment);
    Show(attachment_.response());
  }

  void Show(const std::shared_ptr<responses::Response>& response) {
    if (call_->stream) return feed_.Stream(response, -1, call_->ignored, call_->obfuscation);
    call_->background ? feed_.Begun(response, call_->ignored)
                      : feed_.Whole(response, call_->ignored);
  }

  wire::ResponseState Skeleton() const {
    return sessions::SkeletonOf(*call_, ServedName(), call_->conversation);
  }

  std::string ServedName() const {
    if (!call_->model.empty()) return call_->model;
    const std::vector<api::ModelInfo> models = connection_.context().deps.inference->Models();
    const api::ModelInfo* model = api::DefaultGenerator(models);
    return model == nullptr ? std::string() : model->id;
  }

  sessions::Sessions& Dialogs() { return *connection_.context().deps.sessions; }
  responses::Responses& Responses() { return *connection_.context().deps.responses; }

  Connection& connection_;
  std::optional<wire::ResponsesCall> call_;
  responses::Attachment attachment_;
  ResponseFeed feed_;
};

}  // namespace

std::unique_ptr<Exchange> MakeResponsesExchange(Connection& connection) {
  return std::make_unique<ResponsesExchange>(connection);
}

}  // namespace tutti::http
