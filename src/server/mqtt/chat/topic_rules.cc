#include "server/mqtt/chat/topic_rules.h"

#include <algorithm>
#include <array>

namespace tutti::mqtt::chat {
namespace {

using enum Party;

// A verb applies to all sessions, or to the session in the topic.
constexpr auto kRules = std::to_array<TopicRule>({
    {Topic::kIn, "{prefix}/{user}/{session}/in", kUser, kUser, kNobody},
    {Topic::kControl, "{prefix}/{user}/{session}/ctl", kUser, kUser, kNobody},
    {Topic::kOut, "{prefix}/{user}/{session}/out", kNobody, kUser, kUser},
    {Topic::kClientStatus, "{prefix}/{user}/status", kUser, kUser, kNobody},
    {Topic::kOwn, "{prefix}/{user}/{rest}", kNobody, kUser, kUser},
    {Topic::kServerStatus, "{prefix}/server/{rest}", kNobody, kAnybody, kNobody},
    {Topic::kUserInput, "{project}/user_input", kMember, kNobody, kNobody},
    {Topic::kTemplate, "{project}/template", kAdmin, kNobody, kNobody},
    {Topic::kTemplate, "{project}/template/{session}", kAdmin, kNobody, kNobody},
    {Topic::kClear, "{project}/clear", kAdmin, kNobody, kNobody},
    {Topic::kClear, "{project}/clear/{session}", kAdmin, kNobody, kNobody},
    {Topic::kDelete, "{project}/delete", kAdmin, kNobody, kNobody},
    {Topic::kDelete, "{project}/delete/{session}", kAdmin, kNobody, kNobody},
    {Topic::kReply, "{project}/assistant_response/{rest}", kNobody, kMember, kMember},
    {Topic::kProjectStatus, "{project}/status", kNobody, kMember, kNobody},
});

// Default deny: a row without a complete access rule does not compile.
static_assert(std::all_of(kRules.begin(), kRules.end(), [](const TopicRule& rule) {
  return rule.publishes != kUnset && rule.reads != kUnset && rule.answered != kUnset;
}));

}  // namespace

std::span<const TopicRule> TopicRules() { return kRules; }

std::string FilterOf(const TopicRule& rule, std::string_view first) {
  std::string filter(first);
  std::string_view rest = rule.pattern.substr(rule.pattern.find('}') + 1);
  while (!rest.empty()) {
    const size_t mark = rest.find('{');
    filter += rest.substr(0, mark);
    if (mark == std::string_view::npos) break;
    rest.remove_prefix(mark);
    filter += rest.starts_with("{rest}") ? '#' : '+';
    rest.remove_prefix(rest.find('}') + 1);
  }
  return filter;
}

}  // namespace tutti::mqtt::chat
