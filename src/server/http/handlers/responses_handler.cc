// POST /v1/responses: one turn, answered as an object or as events; what is stored or runs in the
// background outlives the connection.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/json/json.h"
#include "protocol/responses/request.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/request_deadline.h"
#include "server/http/handlers/response_feed.h"
#include "server/http/handlers/response_start.h"

namespace tutti::http {
namespace {

Result<protocol::ResponsesCall> Parse(std::string_view body,
                                      const protocol::ParseOptions& options) {
  ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(body));
  return protocol::ParseResponses(document.root(), options);
}

class ResponsesHandler final : public Handler {
 public:
  explicit ResponsesHandler(Connection& connection) : connection_(connection), feed_(connection) {}

  void Start() override {
    const HttpOptions& options = connection_.context().options;
    const protocol::ParseOptions parse{options.strict, connection_.request_context().start(),
                                       options.limits.deadline_cap};
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [parse](std::string_view body) { return Parse(body, parse); },
        [this](Result<protocol::ResponsesCall> call) { OnParsed(std::move(call)); });
  }

  void Pump() override { feed_.Pump(); }
  TimePoint Due() const override { return feed_.Due(); }
  void OnTimer(TimePoint now) override { feed_.OnTimer(now); }

 private:
  void OnParsed(Result<protocol::ResponsesCall> parsed) {
    if (!parsed.ok()) return connection_.RespondError(parsed.status());
    const Result<TimePoint> deadline =
        HeaderDeadline(connection_.request(), connection_.request_context().start(),
                       connection_.context().options.limits.deadline_cap);
    if (!deadline.ok()) return connection_.RespondError(deadline.status());
    api::GenerateRequest& request = parsed->request;
    connection_.request_context().AdoptId(request.request_id);
    request.request_id = connection_.request_context().id();
    request.deadline = std::min(request.deadline, *deadline);
    const std::string* if_match = connection_.request().Find("if-match");
    ResponseStart::Given given;
    if (if_match != nullptr) given.if_match = *if_match;
    start_ = std::make_shared<ResponseStart>(connection_, *std::move(parsed), std::move(given));
    start_->Run([this](const Status& why, Connection::Origin origin) {
      if (!why.ok()) return connection_.RespondError(why, origin);
      Show(start_->response(), start_->call());
    });
  }

  void Show(const std::shared_ptr<responses::Response>& response,
            const protocol::ResponsesCall& call) {
    if (call.stream) {
      // A response that an earlier call began makes no further cache look-up.
      const auto& turn = start_->acceptance();
      const bool asks = connection_.context().options.tells_cache && !(turn && turn->repeated);
      return feed_.Stream(response, -1, call.ignored, call.obfuscation, asks);
    }
    call.background ? feed_.Begun(response, call.ignored) : feed_.Whole(response, call.ignored);
  }

  Connection& connection_;
  std::shared_ptr<ResponseStart> start_;
  ResponseFeed feed_;
};

}  // namespace

std::unique_ptr<Handler> MakeResponsesHandler(RouteId /*route*/, Connection& connection) {
  return std::make_unique<ResponsesHandler>(connection);
}

}  // namespace tutti::http
