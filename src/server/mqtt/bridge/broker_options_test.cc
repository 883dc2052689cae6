#include "server/mqtt/bridge/broker_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "temp_folder.h"

namespace tutti::mqtt::bridge {
namespace {

using testing::HasSubstr;
using testing::Not;

BridgeOptions Good() {
  BridgeOptions options;
  options.broker = "mqtts://broker.example";
  options.client_id = "tutti-node1";
  return options;
}

TEST(BrokerOptions, WhatCannotWorkIsRefusedByTheOptionsName) {
  struct Case {
    const char* option;
    std::function<void(BridgeOptions&)> break_it;
  };
  const std::vector<Case> cases = {
      {"mqtt.url", [](auto& o) { o.broker = "broker"; }},
      {"mqtt.url", [](auto& o) { o.broker = "mqtt://127.0.0.1", o.tls_ca_file = "ca.pem"; }},
      {"mqtt.client_id", [](auto& o) { o.client_id = ""; }},
      {"mqtt.client_id", [](auto& o) { o.client_id = "a/b"; }},
      {"mqtt.client_id", [](auto& o) { o.client_id = std::string(129, 'a'); }},
      {"mqtt.username", [](auto& o) { o.username = "llmserver"; }},
      {"mqtt.username", [](auto& o) { o.password_file = "/p"; }},
      {"mqtt.username", [](auto& o) { o.username = "\xFF", o.password_file = "/p"; }},
      {"mqtt.cert_file", [](auto& o) { o.tls_cert_file = "c.pem"; }},
      {"mqtt.cert_file", [](auto& o) { o.tls_key_file = "k.pem"; }},
      {"mqtt.keepalive_s", [](auto& o) { o.keep_alive = std::chrono::seconds(301); }},
      {"mqtt.keepalive_s", [](auto& o) { o.keep_alive = std::chrono::seconds(0); }},
      {"mqtt.packet_bytes", [](auto& o) { o.packet_bytes = 10; }},
      {"mqtt.inflight", [](auto& o) { o.in_flight = 0; }},
      {"mqtt.inflight", [](auto& o) { o.receive_maximum = 10'001; }},
      {"mqtt.packet_bytes", [](auto& o) { o.publish_bytes = 10; }},
      {"topic", [](auto& o) { o.will.emplace().topic = "a/#"; }},
  };
  EXPECT_TRUE(CheckOptions(Good()).ok());
  for (const Case& one : cases) {
    BridgeOptions options = Good();
    one.break_it(options);
    const auto result = CheckOptions(options);
    ASSERT_FALSE(result.ok()) << one.option;
    EXPECT_EQ(result.status().reason(), "invalid_value");
    EXPECT_EQ(result.status().param(), one.option) << result.status();
  }
}

TEST(BrokerOptions, AWillIsNoLargerThanConnectCanCarry) {
  BridgeOptions options = Good();
  options.will.emplace().topic = "status";
  options.will->payload.assign(65'000, 'x');
  EXPECT_TRUE(CheckOptions(options).ok());
  options.will->payload.assign(65'536, 'x');
  EXPECT_EQ(CheckOptions(options).status().reason(), "request_too_large");
}

TEST(BrokerOptions, ABrokerElsewhereNeedsTls) {
  BridgeOptions options = Good();
  for (const char* loopback : {"mqtt://localhost", "mqtt://127.0.0.1:1900", "mqtt://[::1]"}) {
    options.broker = loopback;
    EXPECT_TRUE(CheckOptions(options).ok()) << loopback;
  }
  for (const char* elsewhere : {"mqtt://broker.example", "mqtt://10.0.0.1", "mqtt://[2001:db8::1]",
                                "mqtt://localhost.example", "mqtt://0.0.0.0"}) {
    options.broker = elsewhere;
    const auto result = CheckOptions(options);
    ASSERT_FALSE(result.ok()) << elsewhere;
    EXPECT_EQ(result.status().param(), "mqtt.url");
    EXPECT_THAT(result.status().message(), HasSubstr("must be mqtts://"));
  }
}

class PasswordFile : public testing::Test {
 protected:
  Status Read(const std::string& content, mode_t mode = 0600) {
    BridgeOptions options = Good();
    options.username = "llmserver";
    options.password_file = folder_.File("password");
    std::ofstream(options.password_file, std::ios::binary) << content;
    EXPECT_EQ(chmod(options.password_file.c_str(), mode), 0);
    const auto result = ReadCredentials(options);
    if (!result.ok()) return result.status();
    read_ = result->password;
    EXPECT_EQ(result->username, "llmserver");
    EXPECT_TRUE(result->has_password);
    return OkStatus();
  }
  support::TempFolder folder_;
  std::string read_;
};

TEST_F(PasswordFile, ItsFirstLineIsThePassword) {
  ASSERT_TRUE(Read("s3cret of mine\n").ok());
  EXPECT_EQ(read_, "s3cret of mine");
  ASSERT_TRUE(Read("s3cret\r\nsecond line").ok());
  EXPECT_EQ(read_, "s3cret");
  ASSERT_TRUE(Read(std::string(4096, 'x')).ok());
  EXPECT_EQ(read_.size(), 4096u);
}

TEST_F(PasswordFile, WhatIsNoPasswordOrNoSecretIsRefusedWithoutShowingIt) {
  struct Case {
    std::string content;
    mode_t mode;
    const char* word;
  };
  for (const Case& one : std::vector<Case>{{"hunter2\n", 0644, "chmod 600"},
                                           {"hunter2\n", 0640, "chmod 600"},
                                           {"", 0600, "no password"},
                                           {"\nhunter2", 0600, "no password"},
                                           {"hunter2" + std::string(4096, 'x'), 0600, "4096"}}) {
    const Status status = Read(one.content, one.mode);
    EXPECT_EQ(status.param(), "mqtt.password_file");
    EXPECT_THAT(status.message(), HasSubstr(one.word));
    EXPECT_THAT(status.message(), Not(HasSubstr("hunter2")));
  }
  BridgeOptions options = Good();
  options.password_file = folder_.File("none");
  EXPECT_THAT(ReadCredentials(options).status().message(), HasSubstr("not a readable file"));
}

TEST(BrokerTls, FilesThatCannotBeUsedAreNamed) {
  const support::TempFolder folder;
  std::ofstream(folder.File("text.pem")) << "no certificate";
  BridgeOptions options = Good();
  options.tls_ca_file = folder.File("none.pem");
  EXPECT_EQ(MakeTls(options).status().param(), "mqtt.ca_file");
  options.tls_ca_file = folder.File("text.pem");
  EXPECT_EQ(MakeTls(options).status().param(), "mqtt.ca_file");
  EXPECT_THAT(MakeTls(options).status().message(), HasSubstr("text.pem"));
  options.tls_ca_file.clear();
  EXPECT_TRUE(MakeTls(options).ok());
  options.tls_cert_file = options.tls_key_file = folder.File("text.pem");
  EXPECT_EQ(MakeTls(options).status().param(), "mqtt.cert_file");
}

}  // namespace
}  // namespace tutti::mqtt::bridge
