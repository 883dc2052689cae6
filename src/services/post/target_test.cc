#include "services/post/target.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <vector>

namespace tutti::post {
namespace {

std::vector<uint8_t> Bytes(const std::string& address) {
  std::vector<uint8_t> bytes(16);
  if (inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) {
    bytes.resize(4);
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, address.c_str(), bytes.data()), 1) << address;
  }
  return bytes;
}

TEST(TargetTest, AddressesInsideAnyNetworkAreNotPublic) {
  for (const char* address : {"0.0.0.0",
                              "10.1.2.3",
                              "100.64.0.1",
                              "100.127.255.255",
                              "127.0.0.1",
                              "127.255.255.254",
                              "169.254.169.254",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.0.0.1",
                              "192.0.2.1",
                              "192.88.99.1",
                              "192.168.1.1",
                              "198.18.0.1",
                              "198.19.255.255",
                              "198.51.100.1",
                              "203.0.113.9",
                              "224.0.0.1",
                              "239.1.1.1",
                              "240.0.0.1",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "::ffff:127.0.0.1",
                              "::ffff:10.0.0.1",
                              "64:ff9b::10.0.0.1",
                              "64:ff9b::a9fe:a9fe",
                              "64:ff9b:1::7f00:1",
                              "2002:7f00:1::",
                              "2002:a00:1::",
                              "fc00::1",
                              "fd12::1",
                              "fe80::1",
                              "ff02::1",
                              "2001:db8::1",
                              "2001::1",
                              "100::1",
                              "3fff::1",
                              "::127.0.0.1",
                              "fec0::1"}) {
    EXPECT_FALSE(IsPublic(Bytes(address))) << address;
  }
}

TEST(TargetTest, OtherAddressesAre) {
  for (const char* address :
       {"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1",
        "192.167.1.1", "198.17.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1",
        "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"}) {
    EXPECT_TRUE(IsPublic(Bytes(address))) << address;
  }
  EXPECT_FALSE(IsPublic(std::vector<uint8_t>(5)));
}

TEST(TargetTest, APlainUrl) {
  const auto target = ParseTarget("https://Hooks.Example.com:8443/a/b?c=d", {});
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->host, "hooks.example.com");
  EXPECT_EQ(target->port, 8443);
  EXPECT_EQ(target->path, "/a/b?c=d");
  EXPECT_EQ(target->authority, "Hooks.Example.com:8443");
  EXPECT_TRUE(target->tls);
  EXPECT_EQ(ParseTarget("https://example.com", {})->path, "/");
  EXPECT_EQ(ParseTarget("https://example.com?x=1", {})->path, "/?x=1");
  EXPECT_EQ(ParseTarget("https://[2606:4700::1111]/", {})->host, "2606:4700::1111");
}

TEST(TargetTest, WhatLeadsInsideOrIsNoUrlIsRefused) {
  for (const std::string url : {"",
                                "example.com",
                                "ftp://example.com/",
                                "http://example.com/",
                                "https://",
                                "https:///x",
                                "https://user@example.com/",
                                "https://user:pw@example.com/",
                                "https://example.com:0/",
                                "https://example.com:65536/",
                                "https://example.com:x/",
                                "https://example.com:/",
                                "https://exa mple.com/",
                                "https://example.com/#f",
                                "https://127.0.0.1/",
                                "https://[::1]/",
                                "https://[::ffff:127.0.0.1]/",
                                "https://[fe80::1%25eth0]/",
                                "https://169.254.169.254/latest/meta-data",
                                "https://10.0.0.1:443/",
                                "https://0/",
                                "https://127.1/",
                                "https://2130706433/",
                                "https://0x7f.0.0.1/",
                                "https://0177.0.0.1/",
                                "https://[::1/",
                                "https://ex\x01mple.com/",
                                "https://ex\xc3\xa4mple.com/",
                                "https://exam_ple.com\\@127.0.0.1/",
                                "https://example.com.1/"}) {
    EXPECT_EQ(ParseTarget(url, {}).status().reason(), "invalid_value") << url;
  }
  EXPECT_FALSE(ParseTarget("https://example.com/" + std::string(2048, 'a'), {}).ok());
}

TEST(TargetTest, TrustedHostsMayBeInsideAndWithoutTls) {
  const std::set<std::string> trusted = {"127.0.0.1", "hooks.local"};
  EXPECT_TRUE(ParseTarget("http://127.0.0.1:9000/x", trusted).ok());
  EXPECT_TRUE(ParseTarget("http://HOOKS.local/x", trusted).ok());
  EXPECT_FALSE(ParseTarget("http://127.0.0.2/x", trusted).ok());
  EXPECT_FALSE(ParseTarget("http://other.local/x", trusted).ok());
}

}  // namespace
}  // namespace tutti::post
