#include "mqtt/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::mqtt {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Address, NamesAndAddressesAreReadWithTheirPort) {
  const std::vector<std::pair<std::string, Address>> cases = {
      {"mqtt://localhost", {"localhost", 1883, false}},
      {"mqtts://broker.example", {"broker.example", 8883, true}},
      {"mqtts://broker.example/", {"broker.example", 8883, true}},
      {"mqtt://127.0.0.1:1", {"127.0.0.1", 1, false}},
      {"mqtts://10.1.2.3:65535", {"10.1.2.3", 65535, true}},
      {"mqtt://[::1]", {"::1", 1883, false}},
      {"mqtts://[2001:db8::7]:9000", {"2001:db8::7", 9000, true}},
      {"mqtts://my_broker-1.lan:8883", {"my_broker-1.lan", 8883, true}},
  };
  for (const auto& [url, wanted] : cases) {
    const auto address = ParseAddress(url);
    ASSERT_TRUE(address.ok()) << url << ": " << address.status();
    EXPECT_EQ(*address, wanted) << url;
    EXPECT_EQ(*ParseAddress(UrlOf(*address)), wanted) << "shown and read again: " << url;
  }
}

TEST(Address, WhatIsNoAddressIsRefusedWithTheReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "://"},
      {"localhost:1883", "://"},
      {"tcp://broker", "mqtt://"},
      {"ssl://broker", "mqtts://"},
      {"ws://broker", "WebSocket"},
      {"MQTT://broker", "scheme"},
      {"http://broker", "scheme"},
      {"mqtt://", "no host"},
      {"mqtt://:1883", "no host"},
      {"mqtt://broker:", "port"},
      {"mqtt://broker:0", "port"},
      {"mqtt://broker:65536", "port"},
      {"mqtt://broker:99999999999999999999", "port"},
      {"mqtt://broker:-1", "port"},
      {"mqtt://broker:+1", "port"},
      {"mqtt://broker:18 83", "port"},
      {"mqtt://broker:1883x", "port"},
      {"mqtt://broker/topic", "path"},
      {"mqtt://broker?x=1", "path"},
      {"mqtt://broker#x", "path"},
      {"mqtt://::1", "brackets"},
      {"mqtt://[::1", "]"},
      {"mqtt://[::1]x", ":PORT"},
      {"mqtt://[::g]", "IPv6"},
      {"mqtt://[127.0.0.1]", "IPv6"},
      {"mqtt://256.1.1.1", "neither"},
      {"mqtt://1.2.3", "neither"},
      {"mqtt://-x", "neither"},
      {"mqtt://a..b", "neither"},
      {"mqtt://br\xC3\xB6ker", "neither"},
      {"mqtt://a b", "neither"},
      {std::string("mqtt://a\0b", 10), "neither"},
      {"mqtt://" + std::string(254, 'a'), "neither"},
  };
  for (const auto& [url, word] : cases) {
    const auto address = ParseAddress(url);
    ASSERT_FALSE(address.ok()) << url;
    EXPECT_EQ(address.status().reason(), "invalid_value") << url;
    EXPECT_THAT(address.status().message(), HasSubstr(word)) << url;
  }
}

TEST(Address, APasswordInTheUrlIsRefusedAndNotRepeated) {
  for (const std::string url :
       {"mqtts://me:hunter2@broker", "mqtts://me:hunter2@", "mqtt://x/hunter2@y"}) {
    const auto address = ParseAddress(url);
    ASSERT_FALSE(address.ok()) << url;
    EXPECT_THAT(address.status().message(), HasSubstr("use their options"));
    EXPECT_THAT(address.status().message(), Not(HasSubstr("hunter2")));
  }
}

}  // namespace
}  // namespace tutti::mqtt
