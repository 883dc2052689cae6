#include "server/mqtt/listener/principal.h"

#include <algorithm>

#include "mqtt/topics.h"

namespace tutti::mqtt::listener {
namespace {

constexpr size_t kMaxUserBytes = 128;

bool MatchesOne(const std::vector<std::string>& filters, std::string_view topic) {
  return std::any_of(filters.begin(), filters.end(),
                     [topic](const std::string& each) { return TopicMatches(each, topic); });
}

bool IsPlainLevel(std::string_view name) {
  return !name.empty() && name.size() <= kMaxUserBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '.' || c == '-';
         });
}

}  // namespace

bool Principal::MayPublish(std::string_view topic) const { return MatchesOne(publish, topic); }
bool Principal::MayRetain(std::string_view topic) const { return MatchesOne(retain, topic); }
bool Principal::MayRespond(std::string_view topic) const { return MatchesOne(respond, topic); }

bool Principal::MaySubscribe(std::string_view filter) const {
  return std::any_of(subscribe.begin(), subscribe.end(),
                     [filter](const std::string& each) { return FilterCovers(each, filter); });
}

Result<Principal> UserPrincipal(std::string_view prefix, std::string_view user,
                                std::string_view tenant) {
  if (!IsPlainLevel(user) || user == "server" || user == "jobs") {
    return InvalidArgument(
        "invalid_value",
        "MQTT user name must have 1 to 128 letters, digits, '_', '.' or '-', and "
        "not be server or jobs");
  }
  const std::string top(prefix), own = top + "/" + std::string(user);
  Principal principal;
  principal.user = user;
  principal.tenant = tenant;
  principal.publish = {own + "/+/in", own + "/+/ctl", own + "/status"};
  principal.subscribe = {own + "/#", top + "/server/#"};
  principal.retain = {own + "/status"};
  principal.respond = {own + "/#"};
  return principal;
}

}  // namespace tutti::mqtt::listener
