#include <gtest/gtest.h>

#include <string>

#include "redis/connection.h"

namespace tutti::redis {
namespace {

TEST(RedisUrl, AnAddressIsTakenApart) {
  const RedisUrl plain{.user = "", .host = "cache.example", .port = 6379, .database = 0};
  EXPECT_EQ(ParseRedisUrl("redis://cache.example").value(), plain);
  EXPECT_EQ(ParseRedisUrl("redis://cache.example/").value(), plain);
  const RedisUrl all{.user = "tutti", .host = "127.0.0.1", .port = 7000, .database = 3};
  EXPECT_EQ(ParseRedisUrl("redis://tutti@127.0.0.1:7000/3").value(), all);
  const RedisUrl six{.user = "", .host = "::1", .port = 6380, .database = 0};
  EXPECT_EQ(ParseRedisUrl("redis://[::1]:6380").value(), six);
  EXPECT_EQ(RedactedUrl(six), "redis://[::1]:6380/0");
  EXPECT_EQ(RedactedUrl(all), "redis://127.0.0.1:7000/3");  // without the user
}

TEST(RedisUrl, WhatIsNoAddressIsRefusedWithWhatToWrite) {
  for (const char* url : {"",
                          "redis",
                          "redis:",
                          "redis://",
                          "redis:///0",
                          "redis://h:",
                          "redis://h:0",
                          "redis://h:65536",
                          "redis://h:6379x",
                          "redis://h/x",
                          "redis://h/-1",
                          "redis://h/1/2",
                          "redis://h/1?a=b",
                          "redis://@h",
                          "redis://u@@h",
                          "redis://h h",
                          "redis://[::1",
                          "redis://[::1]x",
                          "redis://h%41",
                          "http://h",
                          "redis://h:99999999999999999999"}) {
    const Result<RedisUrl> parsed = ParseRedisUrl(url);
    ASSERT_FALSE(parsed.ok()) << url;
    EXPECT_EQ(parsed.status().reason(), "invalid_value") << url;
    EXPECT_NE(parsed.status().message().find("redis://"), std::string::npos) << url;
  }
  EXPECT_NE(ParseRedisUrl("rediss://h").status().message().find("tunnel"), std::string::npos);
}

TEST(RedisUrl, APasswordIsRefusedAndNeverSaid) {
  for (const char* url : {"redis://u:hunter2@h", "redis://:hunter2@h:1/0"}) {
    const Status status = ParseRedisUrl(url).status();
    EXPECT_NE(status.message().find("file"), std::string::npos) << status;
    EXPECT_EQ(status.message().find("hunter2"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace tutti::redis
