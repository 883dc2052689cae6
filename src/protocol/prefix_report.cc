#include "protocol/prefix_report.h"

#include <string_view>

#include "api/names.h"

namespace tutti::protocol {

void WritePrefixReport(const api::Usage& usage, JsonWriter* json) {
  if (usage.prefix == nullptr) return;
  const api::PrefixReport& report = *usage.prefix;
  json->Key("cache")
      .BeginObject()
      .Member("memory_tokens", report.memory_tokens)
      .Member("disk_tokens", report.disk_tokens);
  const std::string_view cause = api::CauseName(report.cause);
  cause.empty() ? json->Member("reason", nullptr) : json->Member("reason", cause);
  if (report.first_difference >= 0) {
    json->Key("first_difference")
        .BeginObject()
        .Member("token", report.first_difference)
        .Member("text", report.text)
        .EndObject();
  } else {
    json->Member("first_difference", nullptr);
  }
  json->EndObject();
}

}  // namespace tutti::protocol
