#include "base/text_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "temp_folder.h"

namespace tutti {
namespace {

TEST(TextFile, IsReadWholeUpToItsBound) {
  const support::TempFolder folder;
  const std::string path = folder.File("text");
  std::ofstream(path, std::ios::binary) << std::string("a\0b", 3);
  EXPECT_EQ(*ReadTextFile(path, 3, "invalid_value"), std::string("a\0b", 3));
  EXPECT_EQ(ReadTextFile(path, 2, "invalid_value").status().reason(), "invalid_value");
}

// `bench perplexity --text` once read /dev/zero until memory ended, and waited for ever at a FIFO.
TEST(TextFile, WhatHasNoEndIsRefusedAtOnce) {
  const support::TempFolder folder;
  const std::string fifo = folder.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path :
       {fifo, folder.path(), folder.File("missing"), std::string("/dev/zero")}) {
    const Status status = ReadTextFile(path, 100, "model_path").status();
    EXPECT_EQ(status.reason(), "model_path") << path;
    EXPECT_NE(status.message().find(path), std::string::npos);
  }
}

}  // namespace
}  // namespace tutti
