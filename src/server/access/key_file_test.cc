#include "server/access/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "temp_folder.h"

namespace tutti::access {
namespace {

using ::testing::HasSubstr;

TEST(ApiKeyFile, HoldsOneKeyThatOthersCannotRead) {
  const support::TempFolder folder;
  const std::string path = folder.File("key");
  const auto write = [&](const std::string& text, mode_t mode) {
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return ReadApiKeyFile(path);
  };
  EXPECT_EQ(*write(" sk-1 \r\n \n", 0600), "sk-1");
  // A second key was once ignored in silence, and its clients were turned away.
  EXPECT_THAT(write("sk-1\nsk-2\n", 0600).status().message(), HasSubstr("one key only"));
  EXPECT_EQ(write("sk-1", 0644).status().param(), "api-key-file");
  EXPECT_FALSE(write("", 0600).ok());
  EXPECT_FALSE(write(" \n", 0600).ok());
  EXPECT_FALSE(write("a b", 0600).ok());
  EXPECT_FALSE(write(std::string(5000, 'k'), 0600).ok());
  EXPECT_FALSE(ReadApiKeyFile(path + ".none").ok());
  EXPECT_FALSE(ReadApiKeyFile(folder.path()).ok());
}

// Regression: an empty variable meant "no key", and a trailing line break gave a key that never
// matched.
TEST(ApiKey, OfTheEnvironmentIsCheckedLikeThatOfAFile) {
  EXPECT_EQ(CheckApiKey(" secret\n", "TUTTI_API_KEY").value(), "secret");
  for (const char* bad : {"", " ", "\n", "two words", "caf\xc3\xa9", "a\x01"}) {
    const auto refused = CheckApiKey(bad, "TUTTI_API_KEY");
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_THAT(refused.status().message(), HasSubstr("TUTTI_API_KEY"));
  }
}

}  // namespace
}  // namespace tutti::access
