#include <gtest/gtest.h>

#include <string_view>

#include "base/url.h"

namespace tutti {
namespace {

TEST(LoopbackTest, LoopbackIsOnlyWhatLeadsToThisMachine) {
  for (const char* host : {"localhost", "127.0.0.1", "127.255.0.9", "::1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"localhost.example", "128.0.0.1", "10.0.0.1", "::", "::2", "0.0.0.0",
                           "127.0.0.1.example", ""}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
  EXPECT_FALSE(IsLoopback(std::string_view("127.0.0.1\0.example", 18)));
}

TEST(LoopbackTest, NamesBelowLocalhostAreLocal) {
  EXPECT_TRUE(IsLocalName("app.localhost"));
  EXPECT_TRUE(IsLocalName("127.0.0.1"));
  EXPECT_FALSE(IsLoopback("app.localhost"));
  EXPECT_FALSE(IsLocalName("localhost.example"));
  EXPECT_FALSE(IsLocalName("evil-localhost"));
}

}  // namespace
}  // namespace tutti
