#include "base/server_url.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

TEST(ServerUrl, AUrlIsTakenApart) {
  ServerUrl url;
  EXPECT_EQ(ParseServerUrl("redis://cache.example", &url), UrlFault::kNone);
  EXPECT_EQ(url, (ServerUrl{"redis", "", "cache.example", std::nullopt, ""}));
  EXPECT_EQ(ParseServerUrl("amqps://us%40er@h:1/%2Fjobs", &url), UrlFault::kNone);
  EXPECT_EQ(url, (ServerUrl{"amqps", "us@er", "h", 1, "/jobs"}));
  EXPECT_EQ(ParseServerUrl("x://[fe80::2]:65535/", &url), UrlFault::kNone);
  EXPECT_EQ(url, (ServerUrl{"x", "", "fe80::2", 65535, ""})) << "nothing of the one before";
}

TEST(ServerUrl, WhatIsNoneIsNone) {
  ServerUrl url;
  for (const std::string text :
       {"",           "h",          "x:",        "x:/h",
        "://h",       "x://",       "x:///v",    "x://h:",
        "x://h:0",    "x://h:-1",   "x://h:1x",  "x://h:65536",
        "x://@h",     "x://u@@h",   "x://u@",    "x://[::1",
        "x://[::1]x", "x://[::1]:", "x://[]",    "x://h h",
        "x://h%41",   "x://h?a",    "x://h#a",   "x://h/a/b",
        "x://h/a?b",  "x://h/a#b",  "x://h/%",   "x://h/%2",
        "x://h/%zz",  "x://h/%00",  "x://h/%7f", "x://h:99999999999999999999",
        "x://u%0a@h"})
    EXPECT_EQ(ParseServerUrl(text, &url), UrlFault::kForm) << text;
  for (const std::string& text : {"x://" + std::string(256, 'h'), "x://h/" + std::string(256, 'p'),
                                  "x://" + std::string(256, 'u') + "@h"})
    EXPECT_EQ(ParseServerUrl(text, &url), UrlFault::kForm) << text.size();
}

TEST(ServerUrl, APasswordIsAFaultOfItsOwn) {
  ServerUrl url;
  for (const char* text : {"x://u:p@h", "x://:p@h:1/0", "x://u:@h", "x://u:p@@h"})
    EXPECT_EQ(ParseServerUrl(text, &url), UrlFault::kPassword) << text;
}

TEST(ServerUrl, APlaceIsShownWithBracketsWhereTheyAreNeeded) {
  EXPECT_EQ(HostAndPort("h", 7), "h:7");
  EXPECT_EQ(HostAndPort("::1", 6379), "[::1]:6379");
}

}  // namespace
}  // namespace tutti
