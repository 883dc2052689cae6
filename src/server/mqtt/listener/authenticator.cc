#include "server/mqtt/listener/authenticator.h"

#include <algorithm>

#include "mqtt/topics.h"

namespace tutti::mqtt::listener {
namespace {

constexpr size_t kMaxUserBytes = 128;

// A topic is covered by the filters that match it.
bool OneCovers(const std::vector<std::string>& filters, std::string_view topic) {
  return std::any_of(filters.begin(), filters.end(),
                     [topic](const std::string& each) { return FilterCovers(each, topic); });
}

}  // namespace

bool Principal::MayPublish(std::string_view topic) const { return OneCovers(publish, topic); }
bool Principal::MaySubscribe(std::string_view filter) const { return OneCovers(subscribe, filter); }
bool Principal::MayRetain(std::string_view topic) const { return OneCovers(retain, topic); }
bool Principal::MayRespond(std::string_view topic) const { return OneCovers(respond, topic); }

Result<Principal> UserPrincipal(std::string_view prefix, std::string_view user,
                                std::string_view tenant) {
  if (!IsPlainText(user, kMaxUserBytes, "_.-") || user == "server" || user == "jobs") {
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
