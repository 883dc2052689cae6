#include "base/url.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

TEST(Url, EveryPartIsFound) {
  Url url;
  EXPECT_EQ(ParseUrl("amqps://us%40er:p:w@h:1/%2Fjobs?a=b/c#d", &url), UrlFault::kNone);
  EXPECT_EQ(url.scheme, "amqps");
  EXPECT_EQ(url.user, "us%40er");
  EXPECT_EQ(url.password, "p:w");
  EXPECT_EQ(url.authority, "h:1");
  EXPECT_EQ(url.host, "h");
  EXPECT_EQ(url.port_digits, "1");
  EXPECT_EQ(url.port, 1);
  EXPECT_EQ(url.path, "/%2Fjobs");
  EXPECT_EQ(url.rest, "?a=b/c#d");
  EXPECT_FALSE(url.bracketed);
}

TEST(Url, PartsNotWrittenAreAbsent) {
  Url url;
  EXPECT_EQ(ParseUrl("a://u:p@h:1/b?c", &url), UrlFault::kNone);
  EXPECT_EQ(ParseUrl("cache.example", &url), UrlFault::kNone);
  EXPECT_EQ(url.host, "cache.example");
  EXPECT_EQ(url.scheme, std::nullopt) << "nothing of the one before";
  EXPECT_EQ(url.user, std::nullopt);
  EXPECT_EQ(url.password, std::nullopt);
  EXPECT_EQ(url.port, 0);
  EXPECT_EQ(url.path, "");
  EXPECT_EQ(url.rest, "");
}

TEST(Url, BracketsSurroundAnIpv6Address) {
  Url url;
  EXPECT_EQ(ParseUrl("x://[fe80::2]:65535/", &url), UrlFault::kNone);
  EXPECT_EQ(url.authority, "[fe80::2]:65535");
  EXPECT_EQ(url.host, "fe80::2");
  EXPECT_EQ(url.port, 65535);
  EXPECT_EQ(url.path, "/");
  EXPECT_TRUE(url.bracketed);
}

TEST(Url, FaultsAreTold) {
  const std::vector<std::pair<std::string, UrlFault>> cases = {
      {"", UrlFault::kHost},
      {"x://", UrlFault::kHost},
      {"x:///v", UrlFault::kHost},
      {"x://?a", UrlFault::kHost},
      {"x://:1", UrlFault::kHost},
      {"x://u@", UrlFault::kHost},
      {"x://h h", UrlFault::kHost},
      {"x://h\x01", UrlFault::kHost},
      {"x://h%41", UrlFault::kHost},
      {"x://[]", UrlFault::kHost},
      {"x://" + std::string(256, 'h'), UrlFault::kHost},
      {"x://@h", UrlFault::kUser},
      {"x://h:", UrlFault::kPort},
      {"x://h:0", UrlFault::kPort},
      {"x://h:-1", UrlFault::kPort},
      {"x://h:+1", UrlFault::kPort},
      {"x://h:1x", UrlFault::kPort},
      {"x://h:65536", UrlFault::kPort},
      {"x://h:99999999999999999999", UrlFault::kPort},
      {"x://[::1]:", UrlFault::kPort},
      {"x://[::1", UrlFault::kOpenBracket},
      {"x://[::1]x", UrlFault::kAfterBracket},
      {"x://::1:80", UrlFault::kColons},
      {"x://::1", UrlFault::kColons},
  };
  for (const auto& [text, wanted] : cases) {
    Url url;
    EXPECT_EQ(ParseUrl(text, &url), wanted) << text;
  }
}

TEST(Url, PartsAreKeptAfterAFault) {
  Url url;
  EXPECT_EQ(ParseUrl("://h", &url), UrlFault::kNone);
  EXPECT_EQ(url.scheme, "");
  EXPECT_EQ(ParseUrl("::1:80", &url), UrlFault::kColons);
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.port, 80);
  EXPECT_EQ(ParseUrl("h:1x", &url), UrlFault::kPort);
  EXPECT_EQ(url.host, "h");
  EXPECT_EQ(url.port_digits, "1x");
}

TEST(Url, APasswordIsFoundWhateverElseIsWrong) {
  for (const char* text : {"x://u:p@h", "x://:p@h:1/0", "x://u:@h", "x://u:p@@h", "x://u:p@"}) {
    Url url;
    ParseUrl(text, &url);
    EXPECT_TRUE(url.password.has_value()) << text;
  }
}

TEST(Url, EscapesAreDecoded) {
  EXPECT_EQ(DecodeUrlPart("us%40er"), "us@er");
  EXPECT_EQ(DecodeUrlPart("%2Fjobs"), "/jobs");
  EXPECT_EQ(DecodeUrlPart(""), "");
  for (const std::string text :
       {"a/b", "a?b", "a#b", "a@b", "%", "%2", "%zz", "%00", "%7f", "%0a", "a\x01"})
    EXPECT_EQ(DecodeUrlPart(text), std::nullopt) << text;
  EXPECT_EQ(DecodeUrlPart(std::string(256, 'p')), std::nullopt);
}

TEST(Url, APlaceIsShownWithBracketsWhereTheyAreNeeded) {
  EXPECT_EQ(HostAndPort("h", 7), "h:7");
  EXPECT_EQ(HostAndPort("::1", 6379), "[::1]:6379");
}

}  // namespace
}  // namespace tutti
