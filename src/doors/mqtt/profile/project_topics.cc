#include "doors/mqtt/profile/project_topics.h"

#include <algorithm>
#include <string>

#include "mqtt/topics.h"
#include "wire/mqtt_topic.h"
#include "wire/utf8.h"

namespace tutti::mqtt::profile {

Status CheckProjectResponse(std::string_view project, std::string_view session,
                            std::string_view topic) {
  const std::string own = std::string(project) + "/assistant_response/" + std::string(session);
  const bool below = topic == own || topic.starts_with(own + "/");
  const bool plain = std::none_of(topic.begin(), topic.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (below && plain && IsValidUtf8(topic) && topic.size() <= wire::kMaxTopicBytes &&
      mqtt::IsTopicName(topic) && mqtt::TopicLevels(topic) <= wire::kMaxTopicLevels) {
    return OkStatus();
  }
  return InvalidArgument("invalid_value", "the response topic must lie below " +
                                              wire::Excerpt(own) + " and hold no wildcards")
      .WithParam("response_topic");
}

}  // namespace tutti::mqtt::profile
