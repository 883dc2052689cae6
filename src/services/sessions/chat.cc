#include "services/sessions/chat.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "protocol/json/field_error.h"

namespace tutti::sessions {
namespace {

// A history is sent as one message, and brokers limit message sizes.
constexpr size_t kMaxHistoryBytes = 1 << 20;

}  // namespace

SessionKey ChatKey(const ChatUser& user, std::string project, std::string_view session) {
  return {user.tenant, std::move(project), user.name + "/" + std::string(session)};
}

bool MayRead(const ChatUser& user, std::string_view conversation) {
  if (conversation.starts_with(user.name + "/")) return true;
  return user.known && conversation.find('/') == std::string_view::npos;
}

SessionKey Chat::KeyOf(const ChatUser& user, const std::string& project,
                       std::string_view session) const {
  return ChatKey(user, project.empty() ? options_.default_project : project, session);
}

// Otherwise each typing error in a project name would begin a separate, unnoticed dialog.
Status Chat::CheckProject(const ChatUser& user, const std::string& project) const {
  if (project.empty() || project == options_.default_project) return OkStatus();
  const bool known = std::any_of(options_.projects.begin(), options_.projects.end(),
                                 [&](const ChatOptions::Project& each) {
                                   return each.name == project && each.tenant == user.tenant;
                                 });
  if (known) return OkStatus();
  return NotFound("not_found", "there is no project " + protocol::Excerpt(project) +
                                   "; leave it out, or name one of the server's settings "
                                   "([[mqtt.project]])")
      .WithParam("project");
}

std::function<Result<Admitted>()> Chat::AdmissionOf(const SessionKey& key) const {
  if (!options_.admit) return nullptr;
  return [admit = options_.admit, key] { return admit(key); };
}

void Chat::Carry(const ChatUser& user, const std::string& session,
                 const protocol::MqttControl& control, Callback done) const {
  using Verb = protocol::MqttControl::Verb;
  const SessionKey key = KeyOf(user, control.project, session);
  switch (control.verb) {
    case Verb::kHistory:
      return SendHistory(key, session, control, std::move(done));
    case Verb::kFork:
      return sessions_.Fork(
          key, KeyOf(user, control.project, control.into),
          {.version = control.version, .expected_version = {}},
          [control, session, done = std::move(done)](const Result<Conversation>& made) {
            if (!made.ok()) return done(made.status());
            done(protocol::ForkedEvent(control.id, session, control.into, made->version));
          });
    case Verb::kClear:
      return sessions_.Clear(
          key, [id = control.id, session, done = std::move(done)](const Status& cleared) {
            if (!cleared.ok()) return done(cleared);
            done(protocol::ClearedEvent(id, session));
          });
    case Verb::kPing:
      return done(protocol::PongEvent(control.id, options_.unix_ms()));
    case Verb::kCancel:
    case Verb::kResume:
    case Verb::kSubscribe:
      break;
  }
  CHECK(false) << "a verb of the server's";
}

void Chat::SendHistory(const SessionKey& key, const std::string& session,
                       const protocol::MqttControl& control, Callback done) const {
  sessions_.History(key, {.limit = control.limit, .ascending = false, .after = {}},
                    [id = control.id, session, done = std::move(done)](Result<ItemList> list) {
                      if (!list.ok()) return done(list.status());
                      std::vector<protocol::HistoryItem> items;
                      for (auto item = list->items.rbegin(); item != list->items.rend(); ++item) {
                        if (!item->reasoning.empty()) continue;  // no part of the history
                        items.push_back({item->role, std::move(item->content), item->turn});
                      }
                      std::string event = protocol::HistoryEvent(id, session, list->version, items);
                      if (event.size() <= kMaxHistoryBytes) return done(std::move(event));
                      done(ResourceExhausted("request_too_large", "so many items have " +
                                                                      std::to_string(event.size()) +
                                                                      " bytes; ask for fewer")
                               .WithParam("limit"));
                    });
}

}  // namespace tutti::sessions
