#include "app/config/adapter_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::app {
namespace {

using ::testing::HasSubstr;

TEST(AdapterOptions, ReadsNamePathAndScale) {
  const auto adapters = ReadAdapters("sql=/a/sql.gguf,chat/tone=b/c:0.5,odd=d:e:-2");
  ASSERT_TRUE(adapters.ok()) << adapters.status();
  ASSERT_EQ(adapters->size(), 3u);
  EXPECT_EQ((*adapters)[0].name, "sql");
  EXPECT_EQ((*adapters)[0].path, "/a/sql.gguf");
  EXPECT_EQ((*adapters)[0].scale, 1);
  EXPECT_EQ((*adapters)[1].name, "chat/tone");
  EXPECT_EQ((*adapters)[1].scale, 0.5);
  EXPECT_EQ((*adapters)[2].path, "d:e");
  EXPECT_EQ((*adapters)[2].scale, -2);
  EXPECT_TRUE(ReadAdapters("")->empty());
}

TEST(AdapterOptions, RefusesWhatNamesNoAdapter) {
  for (const char* bad : {"sql", "=x", "sql=", "a b=x", "sql=x:1000", "sql=x:inf"})
    EXPECT_EQ(ReadAdapters(bad).status().reason(), "invalid_value") << bad;
}

Settings WithLoras(const std::string& text) {
  Settings::Inputs inputs;
  inputs.flags["lora"] = text;
  return Settings::Resolve(inputs).value();
}

TEST(AdapterOptions, FindsTheBaseInTheName) {
  const auto adapters =
      AdaptersFromSettings(WithLoras("org/chat/tone=x,sql=y,org/other=z"), {"org/chat", "org"});
  ASSERT_TRUE(adapters.ok()) << adapters.status();
  EXPECT_EQ((*adapters)[0].base, "org/chat");
  EXPECT_EQ((*adapters)[0].name, "tone");
  EXPECT_EQ((*adapters)[1].base, "");
  EXPECT_EQ((*adapters)[2].base, "org");
  EXPECT_EQ((*adapters)[2].name, "other");
}

TEST(AdapterOptions, RefusesTakenNames) {
  for (const char* text : {"chat=x", "sql=x,sql=y", "chat/sql=x,sql=y"}) {
    const auto adapters = AdaptersFromSettings(WithLoras(text), {"chat"});
    EXPECT_THAT(adapters.status().message(), HasSubstr("two models or adapters")) << text;
  }
}

TEST(AdapterOptions, RefusesABaseThatNoModelHas) {
  const auto adapters = AdaptersFromSettings(WithLoras("caht/sql=x"), {"chat"});
  EXPECT_THAT(adapters.status().message(), HasSubstr("no model is called as \"caht/sql\" begins"));
}

}  // namespace
}  // namespace tutti::app
