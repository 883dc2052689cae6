// The routes of /v1/responses: one turn, answered as an object or as events; and those of a
// response that is there.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/json/json.h"
#include "protocol/responses/conversations.h"
#include "protocol/responses/events.h"
#include "protocol/responses/request.h"
#include "protocol/schema/query_parameters.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/json_handler.h"
#include "server/http/handlers/request_fields.h"
#include "server/http/handlers/response_feed.h"
#include "server/http/handlers/response_start.h"
#include "services/responses/responses.h"

namespace tutti::http {
namespace {

// --- POST /v1/responses ---
//
// What is stored or runs in the background outlives the connection.

Result<protocol::ResponsesCall> Parse(std::string_view body,
                                      const protocol::ParseOptions& options) {
  ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(body));
  return protocol::ParseResponses(document.root(), options);
}

class ResponsesHandler final : public Handler {
 public:
  explicit ResponsesHandler(Connection& connection) : connection_(connection), feed_(connection) {}

  void Start() override {
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [parse = connection_.request_context().parse_options()](std::string_view body) {
          return Parse(body, parse);
        },
        [this](Result<protocol::ResponsesCall> call) { OnParsed(std::move(call)); });
  }

  void Pump() override { feed_.Pump(); }
  TimePoint Due() const override { return feed_.Due(); }
  void OnTimer(TimePoint now) override { feed_.OnTimer(now); }

 private:
  void OnParsed(Result<protocol::ResponsesCall> parsed) {
    if (!parsed.ok()) return connection_.RespondError(parsed.status());
    const Result<TimePoint> deadline = HeaderDeadline(connection_);
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

// --- operations on a stored response ---
//
// GET (also its events again, from any place), cancel, DELETE, and what it was asked (input_items).

using Found = Result<std::shared_ptr<responses::Response>>;

// Puts the items, oldest first, in the order that is asked for; the index of the first of the page.
Result<size_t> FirstOfPage(const protocol::ListQuery& query,
                           std::vector<protocol::ItemView>* items) {
  if (!query.ascending) std::reverse(items->begin(), items->end());
  if (query.after.empty()) return size_t{0};
  for (size_t i = 0; i < items->size(); ++i) {
    if ((*items)[i].id == query.after) return i + 1;
  }
  return NotFound("not_found", "after: there is no such item").WithParam("after");
}

class StoredResponseHandler final : public JsonHandler {
 public:
  StoredResponseHandler(RouteId route, Connection& connection)
      : JsonHandler(connection), route_(route), feed_(connection) {}

  void Start() override {
    responses::Responses& responses = *connection_.context().deps.responses;
    if (route_ == RouteId::kResponseDelete) {
      return responses.Delete(Owner(), Id(),
                              ThenDone([this] { return protocol::DeletedJson(Id(), "response"); }));
    }
    const auto found = connection_.Later([this](const Found& response) { OnFound(response); });
    if (route_ == RouteId::kResponseCancel) {
      const auto asked = TakeQuery(&protocol::ParseCancelQuery);
      if (!asked.ok()) return connection_.RespondError(asked.status());
      return responses.Cancel(Owner(), Id(), found, asked->keep_output);
    }
    if (route_ != RouteId::kResponseInput) {
      const auto asked = TakeQuery(&protocol::ParseRetrieveQuery);
      if (!asked.ok()) return connection_.RespondError(asked.status());
      asked_ = *asked;
      if (!asked_.stream) {
        return responses.Look(Owner(), Id(),
                              ThenJson<protocol::ResponseState>(&protocol::ResponseJson));
      }
    }
    responses.Find(Owner(), Id(), found);
  }

  void Pump() override { feed_.Pump(); }
  TimePoint Due() const override { return feed_.Due(); }
  void OnTimer(TimePoint now) override { feed_.OnTimer(now); }

 private:
  void OnFound(const Found& found) {
    if (!found.ok()) return connection_.RespondError(found.status());
    const std::shared_ptr<responses::Response>& response = *found;
    if (route_ == RouteId::kResponseInput) return Input(*response);
    if (route_ == RouteId::kResponseCancel)
      return feed_.Whole(response, ignored_, ResponseFeed::Failed::kObject);
    feed_.Stream(response, asked_.starting_after.value_or(-1), ignored_, asked_.obfuscation);
  }

  // The items' ids are the response's, with their place: the same at every look.
  void Input(const responses::Response& response) {
    const auto list = TakeQuery(&protocol::ParseListQuery);
    if (!list.ok()) return connection_.RespondError(list.status());
    std::vector<protocol::ItemView> items;
    const std::vector<api::ChatMessage>& input = response.base().input;
    const std::string stem = response.id().substr(response.id().find('_') + 1) + "_";
    for (size_t i = 0; i < input.size(); ++i) {
      items.push_back({std::string(protocol::ItemIdPrefix(input[i])) + stem + std::to_string(i),
                       input[i].role, input[i].content});
      if (!input[i].tool_calls.empty()) items.back().call = input[i].tool_calls.front();
      items.back().tool_call_id = input[i].tool_call_id;
      if (protocol::IsReasoning(input[i])) items.back().reasoning = input[i].reasoning;
    }
    const Result<size_t> first = FirstOfPage(*list, &items);
    if (!first.ok()) return connection_.RespondError(first.status());
    const auto rest = std::span(std::as_const(items)).subspan(*first);
    const auto page = rest.first(std::min(rest.size(), static_cast<size_t>(list->limit)));
    Json(protocol::ItemListJson(page, page.size() < rest.size()));
  }

  const RouteId route_;
  protocol::RetrieveQuery asked_;  // of GET
  ResponseFeed feed_;
};

}  // namespace

std::unique_ptr<Handler> MakeResponsesHandler(RouteId /*route*/, Connection& connection) {
  return std::make_unique<ResponsesHandler>(connection);
}

std::unique_ptr<Handler> MakeStoredResponseHandler(RouteId route, Connection& connection) {
  return std::make_unique<StoredResponseHandler>(route, connection);
}

}  // namespace tutti::http
