#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <string>

#include "app/config/remote_options.h"
#include "temp_folder.h"

namespace tutti::app {
namespace {

class RedisOptionsTest : public ::testing::Test {
 protected:
  Result<std::optional<redis::ConnectionOptions>> From(std::map<std::string, std::string> flags) {
    Settings::Inputs inputs;
    inputs.flags = std::move(flags);
    const Settings settings = Settings::Resolve(inputs).value();
    return RedisFrom(settings, "limits");
  }
  std::string Write(const std::string& text, mode_t mode) {
    const std::string path = folder_.File("secret");
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  support::TempFolder folder_;
};

TEST_F(RedisOptionsTest, AnAddressAndItsPasswordAreRead) {
  EXPECT_FALSE(From({}).value().has_value());
  const auto options = From({{"limits.redis", "redis://tutti@127.0.0.1:7000/2"},
                             {"limits.redis_password_file", Write("hunter2\n", 0600)}})
                           .value();
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->url.user, "tutti");
  EXPECT_EQ(options->url.port, 7000);
  EXPECT_EQ(options->url.database, 2);
  EXPECT_EQ(options->password, "hunter2");
}

TEST_F(RedisOptionsTest, WhatIsWrongIsBlamedOnItsOption) {
  const auto blamed = [&](std::map<std::string, std::string> flags) {
    return From(std::move(flags)).status();
  };
  EXPECT_EQ(blamed({{"limits.redis", "localhost"}}).param(), "limits.redis");
  EXPECT_EQ(blamed({{"limits.redis", "redis://10.0.0.7"}}).param(), "limits.redis");
  const char* const file = "limits.redis_password_file";
  EXPECT_EQ(blamed({{file, Write("x", 0600)}}).param(), file);
  const std::map<std::string, std::string> here = {{"limits.redis", "redis://127.0.0.1"}};
  for (const auto& [text, mode] : std::map<std::string, mode_t>{{"hunter2", 0644}, {"\n", 0600}}) {
    auto flags = here;
    flags[file] = Write(text, mode);
    const Status status = blamed(flags);
    EXPECT_EQ(status.param(), file);
    EXPECT_EQ(status.message().find("hunter2"), std::string::npos);
  }
}

}  // namespace
}  // namespace tutti::app
