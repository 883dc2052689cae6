// The routes below /v1/conversations: dialogs that the server keeps, their items, their forks.
//
// A conversation's version is its entity tag; a change with If-Match of another version is refused.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "protocol/json/json.h"
#include "protocol/responses/conversations.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/request_fields.h"
#include "services/auth/principal.h"
#include "services/responses/call_state.h"
#include "services/sessions/sessions.h"

namespace tutti::http {
namespace {

protocol::ItemView ViewOf(const sessions::Item& item) {
  return {item.id,   item.role,         item.content,  item.incomplete,
          item.call, item.tool_call_id, item.reasoning};
}

// The stored metadata, which was validated as an object of text pairs.
protocol::Metadata MetadataOf(const std::string& json) {
  if (json.empty()) return {};
  const Result<protocol::JsonDocument> document = protocol::ParseJson(json);
  if (!document.ok()) return {};
  Result<protocol::Metadata> metadata = protocol::ReadMetadata(document->root(), "metadata");
  return metadata.ok() ? *std::move(metadata) : protocol::Metadata();
}

std::string MetadataText(const protocol::Metadata& metadata) {
  protocol::JsonWriter json;
  protocol::WriteMetadata(metadata, &json);
  return json.Take();
}

class ConversationsHandler final : public Handler {
 public:
  ConversationsHandler(RouteId route, Connection& connection)
      : route_(route), connection_(connection) {}

  void Start() override {
    const Result<std::optional<int64_t>> version = ReadIfMatch();
    if (!version.ok()) return connection_.RespondError(version.status());
    version_ = *version;
    switch (route_) {
      case RouteId::kConversations:
        return List();
      case RouteId::kConversationCreate:
        return Parsed(
            &protocol::ParseConversationCreate, [this](protocol::ConversationCreate body) {
              Service().CreateConversation(connection_.request_context().tenant(), Owner(),
                                           MetadataText(body.metadata),
                                           responses::MessagesOf(body.items), ThenConversation());
            });
      case RouteId::kConversation:
        return Service().GetConversation(Key(), ThenConversation());
      case RouteId::kConversationUpdate:
        return Parsed(&protocol::ParseConversationUpdate, [this](
                                                              protocol::ConversationUpdate body) {
          Service().SetMetadata(Key(), MetadataText(body.metadata), version_, ThenConversation());
        });
      case RouteId::kConversationDelete:
        return Service().GetConversation(  // for one that is not there is no error to Delete()
            Key(), Then<sessions::Conversation>([this](const sessions::Conversation&) {
              Service().Delete(Key(), version_, ThenDeleted());
            }));
      case RouteId::kConversationFork:
        return Parsed(&protocol::ParseConversationFork,
                      [this](protocol::ConversationFork body) { Fork(body); });
      case RouteId::kItems:
        return ListItems();
      case RouteId::kItemsCreate:
        return Parsed(&protocol::ParseItemsCreate, [this](protocol::ItemsCreate body) {
          Service().AppendItems(Key(), responses::MessagesOf(body.items), version_, ThenList());
        });
      case RouteId::kItem:
        return Service().GetItem(Key(), connection_.request_context().decision().item,
                                 Then<sessions::Item>([this](const sessions::Item& item) {
                                   Json(protocol::ItemJson(ViewOf(item)));
                                 }));
      case RouteId::kItemDelete:
        return Service().DeleteItem(Key(), connection_.request_context().decision().item, version_,
                                    ThenConversation());
      default:
        return connection_.RespondError(Internal("a route without an answer"));
    }
  }

 private:
  sessions::Sessions& Service() { return *connection_.context().deps.sessions; }
  sessions::SessionKey Key() const {
    return {connection_.request_context().tenant(), sessions::kConversations,
            connection_.request_context().decision().argument};
  }

  // Owner of a new conversation; empty on an open server.
  std::string Owner() const {
    const std::string& credential = connection_.request_context().caller()->credential;
    return credential == auth::kOpenCredential ? std::string() : credential;
  }

  Result<std::optional<int64_t>> ReadIfMatch() const {
    const std::string* field = connection_.request().Find("if-match");
    if (field == nullptr) return std::optional<int64_t>();
    return protocol::ParseIfMatch(*field);
  }

  template <typename Body, typename Use>
  void Parsed(Result<Body> (*parse)(const protocol::Json&, const protocol::ParseOptions&),
              Use then) {
    const protocol::ParseOptions options{connection_.context().options.strict};
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [parse, options](std::string_view text) -> Result<Body> {
          ASSIGN_OR_RETURN(const protocol::JsonDocument document,
                           protocol::ParseJson(text.empty() ? std::string_view("{}") : text));
          return parse(document.root(), options);
        },
        [this, then = std::move(then)](Result<Body> body) {
          if (!body.ok()) return connection_.RespondError(body.status());
          ignored_ = body->ignored;
          then(*std::move(body));
        });
  }

  // Back on this connection's thread, unless it was refused.
  template <typename T>
  sessions::Sessions::Done<T> Then(std::function<void(const T&)> then) {
    return connection_.Later([this, then = std::move(then)](const Result<T>& result) {
      if (!result.ok()) return connection_.RespondError(result.status());
      then(*result);
    });
  }

  sessions::Sessions::Done<sessions::Conversation> ThenConversation() {
    return Then<sessions::Conversation>(
        [this](const sessions::Conversation& conversation) { Show(conversation); });
  }
  sessions::Sessions::Done<sessions::ItemList> ThenList() {
    return Then<sessions::ItemList>([this](const sessions::ItemList& list) {
      std::vector<protocol::ItemView> views;
      for (const sessions::Item& item : list.items) views.push_back(ViewOf(item));
      Json(protocol::ItemListJson(views, list.has_more), list.version);
    });
  }
  sessions::Sessions::Callback ThenDeleted() {
    return connection_.Later([this](const Status& status) {
      if (!status.ok()) return connection_.RespondError(status);
      Json(
          protocol::DeletedJson(connection_.request_context().decision().argument, "conversation"));
    });
  }

  void Show(const sessions::Conversation& conversation) {
    Json(protocol::ConversationJson({.id = conversation.id,
                                     .created_s = conversation.created_s,
                                     .version = conversation.version,
                                     .metadata = MetadataOf(conversation.metadata),
                                     .parent = conversation.origin.id,
                                     .parent_version = conversation.origin.version}),
         conversation.version);
  }

  void List() {
    protocol::IgnoredFields ignored;
    const auto query = ReadQuery(connection_, &protocol::ParseConversationListQuery, &ignored);
    if (!query.ok()) return connection_.RespondError(query.status());
    ignored_ = ignored.names();
    const api::Caller& caller = *connection_.request_context().caller();
    // A person sees their own, an application those of its tenant: several keys may serve it.
    Service().ListConversations(
        caller.tenant,
        {.limit = query->page.limit,
         .ascending = query->page.ascending,
         .after = query->page.after,
         .before = query->before,
         .owner = caller.user.empty() ? "" : caller.credential},
        Then<sessions::ConversationList>(
            [this](const sessions::ConversationList& list) { Show(list); }));
  }

  // Stored metadata is text, whose parsing may take longer than the I/O thread has.
  void Show(const sessions::ConversationList& list) {
    size_t bytes = 0;
    for (const sessions::ListedConversation& each : list.conversations)
      bytes += each.metadata.size();
    if (!connection_.HoldAnswer(bytes)) {
      return connection_.RespondError(
          Unavailable("overloaded", "too many long answers are being sent; retry later"));
    }
    WithAnswer(
        connection_, bytes <= kInlineJsonBytes,
        [list] {
          std::vector<protocol::ListedConversation> page;
          for (const sessions::ListedConversation& each : list.conversations) {
            page.push_back({.id = each.id,
                            .created_s = each.created_s,
                            .used_s = each.used_s,
                            .version = each.version,
                            .metadata = MetadataOf(each.metadata),
                            .items = each.items,
                            .parent = each.origin.id,
                            .parent_version = each.origin.version});
          }
          return protocol::ConversationListJson(page, list.has_more);
        },
        [this](std::string body) { Json(std::move(body)); });
  }

  void ListItems() {
    protocol::IgnoredFields ignored;
    const auto query = ReadQuery(connection_, &protocol::ParseListQuery, &ignored);
    if (!query.ok()) return connection_.RespondError(query.status());
    ignored_ = ignored.names();
    Service().History(Key(), {query->limit, query->ascending, query->after}, ThenList());
  }

  void Fork(const protocol::ConversationFork& body) {
    sessions::SessionKey to = Key();
    to.session = NewId("conv_");
    sessions::ForkBegin begin{.version = body.version,
                              .before_item = body.before_item,
                              .expected_version = version_,
                              .owner = Owner()};
    if (body.metadata.has_value()) begin.metadata = MetadataText(*body.metadata);
    Service().Fork(Key(), to, begin, ThenConversation());
  }

  void Json(std::string body, std::optional<int64_t> version = std::nullopt) {
    HeaderList headers = JsonHeaders(ignored_);
    if (version.has_value()) headers.emplace_back("ETag", protocol::EntityTag(*version));
    connection_.Respond(200, std::move(headers), std::move(body));
  }

  const RouteId route_;
  Connection& connection_;
  std::optional<int64_t> version_;  // that the conversation must be at
  std::vector<std::string> ignored_;
};

}  // namespace

std::unique_ptr<Handler> MakeConversationsHandler(RouteId route, Connection& connection) {
  return std::make_unique<ConversationsHandler>(route, connection);
}

}  // namespace tutti::http
