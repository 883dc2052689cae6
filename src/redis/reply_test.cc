#include "redis/reply.h"

#include <gtest/gtest.h>

#include <string>

#include "amount.h"
#include "base/random.h"

namespace tutti::redis {
namespace {

Result<std::optional<Reply>> Read(std::string_view bytes, const ReplyLimits& limits = {}) {
  ReplyReader reader(limits);
  RETURN_IF_ERROR(reader.Feed(bytes));
  return reader.Next();
}

TEST(ReplyReader, EveryKindIsRead) {
  EXPECT_EQ((*Read("+OK\r\n"))->text, "OK");
  EXPECT_EQ((*Read(std::string_view("$5\r\na\0\r\nb\r\n", 11)))->kind, Reply::Kind::kText);
  EXPECT_EQ((*Read(std::string_view("$4\r\na\0\r\n\r\n", 10)))->text, std::string("a\0\r\n", 4));
  EXPECT_EQ((*Read(":-42\r\n"))->integer, -42);
  EXPECT_EQ((*Read("$-1\r\n"))->kind, Reply::Kind::kNil);
  EXPECT_EQ((*Read("*-1\r\n"))->kind, Reply::Kind::kNil);
  EXPECT_TRUE((*Read("-ERR no\r\n"))->is_error());
  const Reply nested = **Read("*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n-ERR x\r\n");
  ASSERT_EQ(nested.items.size(), 3u);
  EXPECT_EQ(nested.items[0].integer, 1);
  ASSERT_EQ(nested.items[1].items.size(), 2u);
  EXPECT_EQ(nested.items[1].items[0].text, "a");
  EXPECT_EQ(nested.items[1].items[1].kind, Reply::Kind::kNil);
  EXPECT_TRUE(nested.items[2].is_error());
}

TEST(ReplyReader, BytesMayComeInAnyPieces) {
  const std::string bytes = "*2\r\n$3\r\nabc\r\n:7\r\n+next\r\n";
  ReplyReader reader({});
  std::vector<Reply> replies;
  for (const char byte : bytes) {
    ASSERT_TRUE(reader.Feed({&byte, 1}).ok());
    auto next = reader.Next();
    ASSERT_TRUE(next.ok());
    if (next->has_value()) replies.push_back(**std::move(next));
  }
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[0].items[0].text, "abc");
  EXPECT_EQ(replies[1].text, "next");
  EXPECT_TRUE(reader.empty());
  ASSERT_TRUE(reader.Feed("+h").ok());
  EXPECT_FALSE(reader.empty());
}

TEST(ReplyReader, WhatIsNoReplyOrTooMuchOfOneIsAnError) {
  const ReplyLimits few = {.bytes = 64, .items = 8};
  for (const char* bytes :
       {"hello\r\n", "\r\n\r\n", "*9\r\n", "*2147483647\r\n", "*-2\r\n", "$-2\r\n", ":12x\r\n",
        "*99999999999999999999\r\n", "*4\r\n*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n*1\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"}) {
    const auto read = Read(bytes, few);
    ASSERT_FALSE(read.ok()) << bytes;
    EXPECT_EQ(read.status().reason(), "redis_protocol") << bytes;
  }
  const auto nested = [](int arrays) {
    std::string bytes;
    for (int i = 0; i < arrays; ++i) bytes += "*1\r\n";
    return bytes + ":1\r\n";
  };
  EXPECT_TRUE(Read(nested(ReplyLimits().depth), {}).ok());
  for (const int arrays : {9, 50'000}) {
    const auto read = Read(nested(arrays), {});
    ASSERT_FALSE(read.ok()) << arrays;
    EXPECT_EQ(read.status().reason(), "redis_protocol") << arrays;
  }
  // A length alone is not believed: nothing is made room for, and the bytes themselves are counted.
  ReplyReader reader(few);
  ASSERT_TRUE(reader.Feed("$2000000000\r\n").ok());
  EXPECT_FALSE(reader.Next()->has_value());
  ASSERT_TRUE(reader.Feed(std::string(32, 'x')).ok());
  EXPECT_FALSE(reader.Next()->has_value());
  EXPECT_EQ(reader.Feed(std::string(64, 'x')).reason(), "redis_protocol");
  // Many small pieces of one reply are refused too.
  ReplyReader pieces(few);
  ASSERT_TRUE(pieces.Feed("*4\r\n").ok());
  Status status;
  for (int i = 0; i < 4 && status.ok(); ++i) {
    ASSERT_TRUE(pieces.Feed("$30\r\n" + std::string(30, 'x') + "\r\n").ok());
    status = pieces.Next().status();
  }
  EXPECT_EQ(status.reason(), "redis_protocol");
}

TEST(ReplyReader, GarbageEndsInRepliesOrAnErrorAndNothingElse) {
  Random random(7);
  const std::string_view alphabet = "*$:+-0123456789\r\n\r\nab";
  for (int round = 0; round < support::Amount(200'000, 5'000); ++round) {
    ReplyReader reader({.bytes = 4096, .items = 256});
    Status status;
    for (int piece = 0; piece < 4 && status.ok(); ++piece) {
      std::string bytes;
      const uint64_t size = random.Below(24);
      for (uint64_t i = 0; i < size; ++i) bytes += alphabet[random.Below(alphabet.size())];
      status = reader.Feed(bytes);
      while (status.ok()) {
        auto next = reader.Next();
        status = next.status();
        if (!next.ok() || !next->has_value()) break;
      }
    }
    if (!status.ok()) {
      ASSERT_EQ(status.reason(), "redis_protocol");
    }
  }
}

}  // namespace
}  // namespace tutti::redis
