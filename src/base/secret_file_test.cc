#include "base/secret_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace tutti {
namespace {

class SecretFileTest : public ::testing::Test {
 protected:
  void TearDown() override { std::remove(path_.c_str()); }
  Result<std::string> Read(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::binary) << text;
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
    return ReadSecretFile(path_);
  }
  const std::string path_ = ::testing::TempDir() + "/secret_file_test";
};

TEST_F(SecretFileTest, TheFirstLineIsTheSecret) {
  EXPECT_EQ(*Read("hunter2"), "hunter2");
  EXPECT_EQ(*Read("hunter2\nmore"), "hunter2");
  EXPECT_EQ(*Read("a b \r\n"), "a b ");
  EXPECT_EQ(*Read(std::string(kMostSecretBytes, 'x')), std::string(kMostSecretBytes, 'x'));
}

TEST_F(SecretFileTest, WhatIsNoSecretIsRefusedWithoutBeingRepeated) {
  for (const std::string text : {"", "\nhunter2", "\r\n"})
    EXPECT_NE(Read(text).status().message().find("no password"), std::string::npos);
  EXPECT_FALSE(Read(std::string(kMostSecretBytes + 1, 'x')).ok());
  for (const mode_t mode : {0640, 0604, 0602, 0666}) {
    const Status status = Read("hunter2", mode).status();
    EXPECT_NE(status.message().find("chmod 600"), std::string::npos) << mode;
    EXPECT_EQ(status.message().find("hunter2"), std::string::npos);
  }
  EXPECT_FALSE(ReadSecretFile("/nowhere/at/all").ok());
  EXPECT_FALSE(ReadSecretFile(::testing::TempDir()).ok());
}

}  // namespace
}  // namespace tutti
