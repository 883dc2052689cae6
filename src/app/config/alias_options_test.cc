#include "app/config/alias_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "app/config/settings.h"
#include "app/testing/toml_file.h"
#include "test_paths.h"

namespace tutti::app {
namespace {

using ::testing::HasSubstr;

Result<Settings> LoadAliases(const std::string& text) {
  Settings::Inputs inputs;
  inputs.file = testing::WriteToml(text);
  return Settings::Resolve(inputs);
}

TEST(AliasOptions, ReadsTables) {
  const Settings settings = LoadAliases(R"([[alias]]
name = "assistant"
models = ["org/teacher=90", "student = 10"]
by_user = true
shadow = "next"
shadow_share = 0.5
[[alias]]
name = "gpt-4o"
models = "a=b=2"
[[alias]]
name = "plain"
models = "one, two"
)")
                                .value();
  const std::vector<aliases::Alias> expected = {
      {.name = "assistant",
       .targets = {{"org/teacher", 90}, {"student", 10}},
       .shadow = "next",
       .shadow_share = 0.5,
       .by_user = true},
      {.name = "gpt-4o", .targets = {{"a=b", 2}}},
      {.name = "plain", .targets = {{"one", 1}, {"two", 1}}}};
  EXPECT_EQ(settings.aliases(), expected);
  const Result<Settings> again = LoadAliases(settings.Print(/*with_server_options=*/true));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->aliases(), expected) << "what is printed can be loaded";
  EXPECT_TRUE(LoadAliases("port = 1\n").value().aliases().empty());
}

TEST(AliasOptions, NamesTableAndKeyOfAMistake) {
  const auto refused = [](const std::string& lines, const char* reason = "invalid_value") {
    const Status status =
        LoadAliases("[[alias]]\nname = \"x\"\nmodels = \"m\"\n[[alias]]\n" + lines + "\n").status();
    EXPECT_EQ(status.reason(), reason) << lines;
    return status.message();
  };
  const std::string good = "name = \"b\"\nmodels = \"m\"\n";
  EXPECT_THAT(refused("models = \"m\""), HasSubstr("[[alias]] 2: name is missing"));
  EXPECT_THAT(refused("name = \"b\""), HasSubstr("[[alias]] 2 (\"b\"): models is missing"));
  EXPECT_THAT(refused("name = \"b\"\nmodels = []"), HasSubstr("models"));
  EXPECT_THAT(refused("name = \"a//b\"\nmodels = \"m\""), HasSubstr("name: the served name"));
  EXPECT_THAT(refused("name = \"b\"\nmodels = \"m,,n\""), HasSubstr("models: the served name"));
  for (const char* const weight : {"0", "-1", "nan", "inf", "x", "", "1e10"})
    EXPECT_THAT(refused("name = \"b\"\nmodels = \"m=" + std::string(weight) + "\""),
                HasSubstr("the weight of \"m\" must be a number above 0"));
  EXPECT_THAT(refused("name = \"b\"\nmodels = \"m, m=2\""), HasSubstr("\"m\" stands there twice"));
  EXPECT_THAT(refused(good + "by_user = \"yes\""), HasSubstr("by_user must be true or false"));
  EXPECT_THAT(refused(good + "shadow_share = 0.5"), HasSubstr("shadow_share needs a shadow"));
  for (const char* const share : {"-0.1", "1.1", "\"x\"", "nan"})
    EXPECT_THAT(refused(good + "shadow = \"s\"\nshadow_share = " + std::string(share)),
                HasSubstr("shadow_share must be a number from 0 to 1"));
  EXPECT_THAT(refused(good + "wieght = 1", "unknown_parameter"), HasSubstr("unknown key wieght"));
  EXPECT_THAT(refused(good + "shadow = [\"a\"]"), HasSubstr("[[alias]] 2: shadow must be"));
  std::string many = "name = \"b\"\nmodels = \"m0";
  for (int i = 1; i < 17; ++i) many += ",m" + std::to_string(i);
  EXPECT_THAT(refused(many + "\""), HasSubstr("models has 17 entries, limit 16"));
  EXPECT_EQ(LoadAliases("alias = \"x\"\n").status().reason(), "invalid_value");
  EXPECT_EQ(LoadAliases("[alias]\nname = \"x\"\n").status().reason(), "invalid_value");
}

TEST(AliasOptions, ChangesAreNamed) {
  const Settings before = LoadAliases("port = 1\n[limits]\nkey_concurrency = 3\n").value();
  const Settings after = LoadAliases("port = 2\n[[alias]]\nname = \"a\"\nmodels = \"m\"\n").value();
  EXPECT_THAT(after.ChangesSince(before),
              ::testing::UnorderedElementsAre("port", "limits.key_concurrency", "alias"));
  EXPECT_TRUE(after.ChangesSince(after).empty());
}

// docs/configuration.md has a row for each key.
TEST(AliasOptions, PageOfConfigurationHasEveryKeyAndNoOther) {
  std::ifstream page(support::SourcePath("docs/configuration.md"));
  ASSERT_TRUE(page.good());
  std::set<std::string> written, meant;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## Aliases";
    if (inside && line.starts_with("| `")) written.insert(line);
  }
  for (const TableKey& key : AliasKeys()) {
    const bool truth = std::string_view(key.values) == "on|off";
    const std::string fallback = truth ? "false" : key.fallback;
    meant.insert(std::string("| `") + key.name + "` | " +
                 (fallback.empty() ? "" : "`" + fallback + "` ") + "| " +
                 (truth ? "`true`, `false`" : key.values) + " | " + key.help + " |");
  }
  EXPECT_EQ(written, meant);
}

}  // namespace
}  // namespace tutti::app
