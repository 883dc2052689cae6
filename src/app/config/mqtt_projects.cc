#include "app/config/mqtt_projects.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <set>
#include <string_view>

#include "app/config/options.h"
#include "base/quote.h"
#include "protocol/chat/topic.h"

namespace tutti::app {
namespace {

constexpr size_t kMaxProjects = 256;   // each is nine subscriptions and a status
constexpr size_t kMaxNameBytes = 128;  // as the profile's
constexpr size_t kMaxPromptBytes = 64 << 10;
constexpr int64_t kMaxSeconds = 24 * 3600;

constexpr std::array kKeys = std::to_array<TableKey>({
    {"name", "", "letters, digits, `_`, `.` and `-`", "first level of its topics: NAME/user_input"},
    {"model", "", "text", "model that answers (default: the first that generates)"},
    {"system_prompt", "", "text",
     "what each of its dialogs begins with, put in force at every start (default: what its clients "
     "have set)"},
    {"reply_format", "text", "text|json", "what a reply is; errors are JSON in any case"},
    {"stream", "off", "on|off", "replies come in chunks, as JSON whatever the format"},
    {"rate", "20/60s", "`N/TIME` or `off`",
     "messages of a session in any stretch of that time (s, m or h), at most 1000 in 24h"},
    {"enabled", "on", "on|off", "if not, nothing of it is subscribed to"},
});

Status Bad(const std::string& why) { return InvalidArgument("invalid_value", why); }

bool IsPlain(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 32; });
}

Status CheckName(const std::string& name, const std::string& prefix) {
  if (name.empty()) return Bad("is missing");
  if (!protocol::IsTopicLevel(name) || name.size() > kMaxNameBytes) {
    return Bad("must be 1 to 128 of letters, digits, '_', '.' and '-', not " + Quote(name));
  }
  // Otherwise its replies would be published where the native profile listens.
  if (prefix.substr(0, prefix.find('/')) == name)
    return Bad(Quote(name) + " is where the topics of mqtt.prefix (" + prefix + ") begin");
  return OkStatus();
}

Result<MqttProject> MakeProject(const TableFields& fields, const std::string& prefix) {
  const TableReader reader(fields, kKeys);
  RETURN_IF_ERROR(reader.CheckKeys());
  MqttProject project;
  project.name = reader.Text("name");
  if (Status status = CheckName(project.name, prefix); !status.ok())
    return Bad("name " + status.message());
  project.model = reader.Text("model");
  if (!IsPlain(project.model)) return Bad("model must not hold control characters");
  project.system_prompt = reader.Text("system_prompt");
  if (project.system_prompt.size() > kMaxPromptBytes)
    return Bad("system_prompt has more than 64 KiB");
  ASSIGN_OR_RETURN(project.json, reader.Choice("reply_format", "json", "text"));
  ASSIGN_OR_RETURN(project.stream, reader.Choice("stream", "on", "off"));
  ASSIGN_OR_RETURN(project.enabled, reader.Choice("enabled", "on", "off"));
  Result<limits::Window> rate = ParseRate(reader.Text("rate"));
  if (!rate.ok()) return Bad("rate " + rate.status().message());
  project.rate = *rate;
  return project;
}

}  // namespace

std::span<const TableKey> ProjectKeys() { return kKeys; }

Result<limits::Window> ParseRate(std::string_view text) {
  if (text == "off") return limits::Window{};
  const char* const end = text.data() + text.size();
  limits::Window window;
  int64_t time = 0;
  const auto count = std::from_chars(text.data(), end, window.limit);
  bool good = count.ec == std::errc() && count.ptr != end && *count.ptr == '/';
  if (good) {
    const auto read = std::from_chars(count.ptr + 1, end, time);
    good = read.ec == std::errc() && end - read.ptr == 1 && time >= 1 && time <= kMaxSeconds;
    const char unit = good ? *read.ptr : ' ';
    const int64_t factor = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
    time *= factor;
    good = good && factor != 0 && time <= kMaxSeconds;
  }
  if (!good || window.limit < 1 || window.limit > limits::kMaxInWindow) {
    return Bad("must be N/TIME such as 20/60s (N from 1 to 1000, TIME up to 24h) or off, not " +
               Quote(text));
  }
  window.period = std::chrono::seconds(time);
  return window;
}

Result<std::vector<MqttProject>> MakeProjects(const std::vector<TableFields>& tables,
                                              const std::string& prefix) {
  if (tables.size() > kMaxProjects)
    return Bad("[[mqtt.project]] stands there more than " + std::to_string(kMaxProjects) +
               " times");
  std::vector<MqttProject> projects;
  std::set<std::string> names;
  for (const TableFields& fields : tables) {
    Result<MqttProject> project = MakeProject(fields, prefix);
    if (project.ok() && !names.insert(project->name).second)
      project = Bad("name is another project's too");
    if (!project.ok())
      return Status(project.status())
          .WithContext(TableTitle("mqtt.project", projects.size() + 1, fields));
    projects.push_back(*std::move(project));
  }
  return projects;
}

std::vector<MqttProject> Enabled(std::vector<MqttProject> projects) {
  std::erase_if(projects, [](const MqttProject& project) { return !project.enabled; });
  return projects;
}

Status CheckProjectModels(const std::vector<MqttProject>& projects,
                          const std::vector<ServedName>& served) {
  std::vector<std::string> generating;
  for (const ServedName& model : served) {
    if (model.generates) generating.push_back(model.name);
  }
  for (const MqttProject& project : projects) {
    if (!project.enabled || project.model.empty() ||
        std::find(generating.begin(), generating.end(), project.model) != generating.end())
      continue;
    const bool there = std::any_of(served.begin(), served.end(), [&](const ServedName& model) {
      return model.name == project.model;
    });
    std::string why = "[[mqtt.project]] " + Quote(project.name) + ": the model " +
                      Quote(project.model) + (there ? " generates no text" : " is not served") +
                      "; ";
    if (generating.empty()) {
      why += "no model here does";
    } else {
      why += there ? "these do: " : "served are: ";
      for (const std::string& name : generating)
        why += (&name == &generating[0] ? "" : ", ") + name;
    }
    const std::string meant = there ? "" : Suggestion(project.model, generating);
    return Bad(why + (meant.empty() ? "" : " (did you mean " + meant + "?)"))
        .WithParam("mqtt.project");
  }
  return OkStatus();
}

}  // namespace tutti::app
