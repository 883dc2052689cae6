// Lines as they come through a pipe.
#include "cli/text_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace tutti::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TextLinesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(ends_), 0); }
  void TearDown() override {
    close(ends_[0]);
    End();
  }
  void Write(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const ssize_t wrote = write(ends_[1], text.data() + at, text.size() - at);
      ASSERT_GT(wrote, 0);
      at += static_cast<size_t>(wrote);
    }
  }
  void End() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  int fd() const { return ends_[0]; }
  TextLines Lines() { return TextLines(fd()); }

 private:
  int ends_[2] = {-1, -1};
};

TEST_F(TextLinesTest, ALineIsGivenWhileItsWriterWaitsForTheAnswer) {
  TextLines lines = Lines();
  Write("one\n");
  EXPECT_THAT(*lines.Next(10), ElementsAre("one"));
  Write("two\r\nthree\n\nfo");
  EXPECT_THAT(*lines.Next(10), ElementsAre("two", "three", ""));
  Write("ur");
  End();
  EXPECT_THAT(*lines.Next(10), ElementsAre("four")) << "the last needs no end";
  EXPECT_THAT(*lines.Next(10), IsEmpty());
  EXPECT_THAT(*lines.Next(10), IsEmpty());
}

TEST_F(TextLinesTest, WhatIsThereFillsGroups) {
  TextLines lines = Lines();
  std::string text;
  for (int i = 0; i < 25; ++i) text += std::to_string(i) + "\n";
  Write(text);
  End();
  EXPECT_THAT(*lines.Next(10), SizeIs(10));
  EXPECT_THAT(*lines.Next(10), SizeIs(10));
  EXPECT_THAT(*lines.Next(10), ElementsAre("20", "21", "22", "23", "24"));
  EXPECT_THAT(*lines.Next(10), IsEmpty());
}

TEST_F(TextLinesTest, AGroupIsBoundedInBytesAndALineInLength) {
  TextLines lines = Lines();
  const std::string longest(TextLines::kMaxLineBytes, 'x');
  std::thread writer([&] {
    for (int i = 0; i < 6; ++i) Write(longest + "\n");
    Write("short\n" + longest + "x\nnever\n");
    End();
  });
  std::vector<std::string> all;
  Status refused;
  while (refused.ok() && all.size() < 10) {
    const auto group = lines.Next(100);
    refused = group.status();
    if (!group.ok()) break;
    EXPECT_LE(group->size(), 4u + 1u) << "4 MiB, and what is short";
    all.insert(all.end(), group->begin(), group->end());
  }
  EXPECT_EQ(all, (std::vector<std::string>{longest, longest, longest, longest, longest, longest,
                                           "short"}))
      << "those before it are given";
  EXPECT_THAT(refused.message(), HasSubstr("longer than 1 MiB"));
  EXPECT_FALSE(lines.Next(100).ok()) << "nothing comes after it";
  char buffer[65536];
  while (read(fd(), buffer, sizeof buffer) > 0) {
  }
  writer.join();
}

TEST_F(TextLinesTest, ALineWithoutEndIsRefusedWhileItIsWritten) {
  TextLines lines = Lines();
  std::thread writer([&] { Write(std::string(TextLines::kMaxLineBytes + 1, 'x')); });
  EXPECT_THAT(lines.Next(100).status().message(), HasSubstr("longer than 1 MiB"));
  writer.join();
}

TEST_F(TextLinesTest, WhatCannotBeReadIsAnError) {
  EXPECT_EQ(TextLines(-1).Next(1).status().reason(), "io_error");
}

}  // namespace
}  // namespace tutti::cli
