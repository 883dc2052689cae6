#include "app/config/mqtt_projects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "app/config/settings.h"
#include "app/testing/toml_file.h"
#include "temp_folder.h"
#include "test_paths.h"

namespace tutti::app {
namespace {

using testing::WriteToml;

using ::testing::HasSubstr;

Result<Settings> Load(const std::string& text) {
  Settings::Inputs inputs;
  inputs.file = WriteToml(text);
  return Settings::Resolve(inputs);
}

TEST(MqttProjects, ATableHasItsDefaultsAndWhatItSays) {
  const Settings settings = Load(R"(lanes = 3
[mqtt]
port = 1883
[[mqtt.project]]
name = "driving"
[[mqtt.project]]
name = "general"
model = "small"
system_prompt = "Be brief.\nBe \"kind\"."
reply_format = "json"
stream = true
rate = "5/2m"
enabled = false
)")
                                .value();
  ASSERT_EQ(settings.mqtt_projects().size(), 2u);
  const MqttProject& plain = settings.mqtt_projects()[0];
  EXPECT_EQ(plain.name, "driving");
  EXPECT_EQ(plain.model, "");
  EXPECT_EQ(plain.system_prompt, "");
  EXPECT_FALSE(plain.json);
  EXPECT_FALSE(plain.stream);
  EXPECT_EQ(plain.rate, (limits::Window{20, std::chrono::seconds(60)}));
  EXPECT_TRUE(plain.enabled);
  const MqttProject& other = settings.mqtt_projects()[1];
  EXPECT_EQ(other.name, "general");
  EXPECT_EQ(other.model, "small");
  EXPECT_EQ(other.system_prompt, "Be brief.\nBe \"kind\".");
  EXPECT_TRUE(other.json);
  EXPECT_TRUE(other.stream);
  EXPECT_EQ(other.rate, (limits::Window{5, std::chrono::minutes(2)}));
  EXPECT_FALSE(other.enabled);
  EXPECT_EQ(settings.Int("mqtt-port"), 1883);
  EXPECT_TRUE(Load("lanes = 3\n").value().mqtt_projects().empty());
}

TEST(MqttProjects, AMistakeIsToldWithItsTableAndItsKey) {
  const auto refused = [](const std::string& tables, const char* reason = "invalid_value") {
    const Status status = Load(tables).status();
    EXPECT_EQ(status.reason(), reason) << tables;
    return status.message();
  };
  const std::string good = "[[mqtt.project]]\nname = \"driving\"\n";
  const auto second = [&](const std::string& line) {
    return good + "[[mqtt.project]]\nname = \"b\"\n" + line + "\n";
  };
  EXPECT_THAT(
      refused(second("reply_format = \"xml\"")),
      HasSubstr("[[mqtt.project]] 2 (\"b\"): reply_format must be text or json, not \"xml\""));
  EXPECT_THAT(refused(second("stream = \"maybe\"")), HasSubstr("2 (\"b\"): stream must be true"));
  EXPECT_THAT(refused(second("enabled = 1")), HasSubstr("2 (\"b\"): enabled must be true or"));
  EXPECT_THAT(refused(second("streem = true"), "unknown_parameter"),
              HasSubstr("2 (\"b\"): unknown key streem; did you mean stream?"));
  EXPECT_THAT(refused(second("model = [\"a\"]")), HasSubstr("[[mqtt.project]] 2: model must be"));
  EXPECT_THAT(refused(second("model = \"a\\nb\"")), HasSubstr("model must not hold control"));
  for (const char* const rate :
       {"", "20", "20/60", "0/60s", "1001/60s", "20/0s", "20/25h", "20/60d", "-1/60s", "20/60s ",
        "20//60s", "x/60s", "20/99999999999999999999s"})
    EXPECT_THAT(refused(second("rate = \"" + std::string(rate) + "\"")),
                HasSubstr("2 (\"b\"): rate must be N/TIME such as 20/60s"));
  EXPECT_THAT(refused(good + good), HasSubstr("2 (\"driving\"): name is another project's too"));
  EXPECT_THAT(refused("[[mqtt.project]]\nstream = true\n"), HasSubstr("1: name is missing"));
  for (const char* const name : {"a/b", "+", "#", "a b", "$SYS", "\xc3\xa4"})
    EXPECT_THAT(refused("[[mqtt.project]]\nname = \"" + std::string(name) + "\"\n"),
                HasSubstr("name must be 1 to 128 of letters"));
  EXPECT_THAT(refused("[[mqtt.project]]\nname = \"llm\"\n"), HasSubstr("mqtt.prefix (llm/v1)"));
  EXPECT_THAT(refused("[mqtt.project]\nname = \"x\"\n"), HasSubstr("written as [[mqtt.project]]"));
  EXPECT_THAT(refused("mqtt.project = [\"x\"]\n"), HasSubstr("written as [[mqtt.project]]"));
  EXPECT_THAT(refused("[[mqtt.projects]]\nname = \"x\"\n", "unknown_parameter"),
              HasSubstr("mqtt.projects"));
}

// The server once started, and every message of the project was refused.
TEST(MqttProjects, AModelThatIsNotServedIsToldAtTheStart) {
  const std::vector<MqttProject> projects =
      Load(
          "[[mqtt.project]]\nname = \"plain\"\n"
          "[[mqtt.project]]\nname = \"driving\"\nmodel = \"smal\"\n")
          .value()
          .mqtt_projects();
  const std::vector<ServedName> served = {{"small", true}, {"large", true}, {"search", false}};
  const Status status = CheckProjectModels(projects, served);
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_EQ(status.param(), "mqtt.project");
  EXPECT_EQ(status.message(),
            "[[mqtt.project]] \"driving\": the model \"smal\" is not served; served are: small, "
            "large (did you mean small?)");
  EXPECT_TRUE(CheckProjectModels(projects, {{"smal", true}}).ok());
  EXPECT_EQ(CheckProjectModels(projects, {{"smal", false}, {"large", true}}).message(),
            "[[mqtt.project]] \"driving\": the model \"smal\" generates no text; these do: large");
  std::vector<MqttProject> left_out = projects;
  left_out[1].enabled = false;
  EXPECT_TRUE(CheckProjectModels(left_out, served).ok());
}

TEST(MqttProjects, ARateOfOffIsNone) {
  EXPECT_EQ(ParseRate("off").value().limit, 0);
  EXPECT_EQ(ParseRate("1000/24h").value(), (limits::Window{1000, std::chrono::hours(24)}));
  EXPECT_EQ(ParseRate("1/1s").value(), (limits::Window{1, std::chrono::seconds(1)}));
}

TEST(MqttProjects, WhatIsPrintedCanBeLoadedAgain) {
  const std::string text = R"(mqtt.url = "mqtts://broker.example"
[[mqtt.project]]
name = "driving"
system_prompt = "one # line\n\tand \"another\" \\ Ünï"
stream = true
[[mqtt.project]]
name = "general"
enabled = false
)";
  const Settings settings = Load(text).value();
  const std::string printed = settings.Print(/*with_server_options=*/true);
  const Result<Settings> again = Load(printed);
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << printed;
  EXPECT_EQ(again->Text("mqtt.url"), "mqtts://broker.example");
  ASSERT_EQ(again->mqtt_projects().size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const MqttProject &one = settings.mqtt_projects()[i], &other = again->mqtt_projects()[i];
    EXPECT_EQ(one.name, other.name);
    EXPECT_EQ(one.system_prompt, other.system_prompt);
    EXPECT_EQ(one.stream, other.stream);
    EXPECT_EQ(one.rate, other.rate);
    EXPECT_EQ(one.enabled, other.enabled);
  }
  EXPECT_THAT(printed, HasSubstr("\n[[mqtt.project]]\nname                     = \"driving\""));
  EXPECT_THAT(printed, HasSubstr("rate                     = \"20/60s\"         # default\n"));
  EXPECT_EQ(settings.Print(/*with_server_options=*/false).find("mqtt.project"), std::string::npos);
}

// docs/configuration.md has a row for each key.
TEST(MqttProjects, ThePageOfConfigurationHasEveryKeyAndNoOther) {
  std::ifstream page(support::SourcePath("docs/configuration.md"));
  ASSERT_TRUE(page.good());
  std::set<std::string> written, meant;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## Projects of MQTT";
    if (inside && line.starts_with("| `")) written.insert(line);
  }
  for (const TableKey& key : ProjectKeys()) {
    std::string values = key.values;
    if (const size_t bar = values.find('|'); bar != std::string::npos) {
      values = values == "on|off"
                   ? "`true`, `false`"
                   : "`" + values.substr(0, bar) + "`, `" + values.substr(bar + 1) + "`";
    }
    const std::string fallback = std::string(key.fallback) == "on"    ? "true"
                                 : std::string(key.fallback) == "off" ? "false"
                                                                      : key.fallback;
    meant.insert(std::string("| `") + key.name + "` | " +
                 (fallback.empty() ? "" : "`" + fallback + "` ") + "| " + values + " | " +
                 key.help + " |");
  }
  EXPECT_EQ(written, meant);
}

}  // namespace
}  // namespace tutti::app
