#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "broker/broker.h"

namespace tutti::broker {
namespace {

BrokerUrl Parsed(const std::string& url) {
  const Result<BrokerUrl> parsed = ParseBrokerUrl(url);
  EXPECT_TRUE(parsed.ok()) << url << ": " << parsed.status();
  return parsed.ok() ? *parsed : BrokerUrl();
}

TEST(BrokerUrlTest, WhatIsNotSaidIsUsual) {
  EXPECT_EQ(Parsed("amqp://rabbit"),
            (BrokerUrl{BrokerKind::kRabbitMq, false, "", "rabbit", 5672, "/"}));
  EXPECT_EQ(Parsed("amqp://rabbit/"), Parsed("amqp://rabbit"));
  EXPECT_EQ(Parsed("amqps://b.example"),
            (BrokerUrl{BrokerKind::kRabbitMq, true, "", "b.example", 5671, "/"}));
  EXPECT_EQ(Parsed("redis://10.0.0.1"),
            (BrokerUrl{BrokerKind::kRedis, false, "", "10.0.0.1", 6379, "0"}));
}

TEST(BrokerUrlTest, WhatIsSaidCounts) {
  EXPECT_EQ(Parsed("amqp://us%40er@h:1/%2Fjobs"),
            (BrokerUrl{BrokerKind::kRabbitMq, false, "us@er", "h", 1, "/jobs"}));
  EXPECT_EQ(Parsed("redis://me@[::1]:65535/3"),
            (BrokerUrl{BrokerKind::kRedis, false, "me", "::1", 65535, "3"}));
  EXPECT_EQ(Parsed("amqp://[fe80::2]").host, "fe80::2");
}

TEST(BrokerUrlTest, WhatIsNoAddressSaysWhatToWrite) {
  for (const std::string url : {"",
                                "rabbit",
                                "http://h",
                                "amqp://",
                                "amqp:///v",
                                "amqp://h:",
                                "amqp://h:0",
                                "amqp://h:65536",
                                "amqp://h:12x",
                                "amqp://@h",
                                "amqp://[::1",
                                "amqp://[::1]x",
                                "amqp://[::1]:",
                                "amqp://h/a/b",
                                "amqp://h/a?x=1",
                                "amqp://h /",
                                "amqp://h/%",
                                "amqp://h/%2",
                                "amqp://h/%zz",
                                "amqp://h/%00",
                                "amqp://h%41"}) {
    const Result<BrokerUrl> parsed = ParseBrokerUrl(url);
    ASSERT_FALSE(parsed.ok()) << url;
    EXPECT_EQ(parsed.status().reason(), "invalid_value");
    EXPECT_NE(parsed.status().message().find("amqp://HOST"), std::string::npos) << url;
  }
  for (const std::string url : {"redis://h/x", "redis://h/-1", "redis://h/99999999"})
    EXPECT_EQ(ParseBrokerUrl(url).status().reason(), "invalid_value") << url;
  EXPECT_NE(ParseBrokerUrl("rediss://h").status().message().find("tunnel"), std::string::npos);
}

TEST(BrokerUrlTest, APasswordIsRefusedAndNotRepeated) {
  for (const std::string url : {"amqp://me:hunter2@h", "redis://:hunter2@h/1", "amqp://me:@h"}) {
    const Status status = ParseBrokerUrl(url).status();
    EXPECT_EQ(status.reason(), "invalid_value") << url;
    EXPECT_NE(status.message().find("file"), std::string::npos);
    EXPECT_EQ(status.message().find("hunter2"), std::string::npos);
  }
}

TEST(BrokerUrlTest, LogsShowNobodysName) {
  EXPECT_EQ(RedactedUrl(Parsed("amqp://me@h:7/v")), "amqp://h:7");
  EXPECT_EQ(RedactedUrl(Parsed("redis://me@[::1]/3")), "redis://[::1]:6379");
  EXPECT_EQ(RedactedUrl(Parsed("amqps://h")), "amqps://h:5671");
}

}  // namespace
}  // namespace tutti::broker
