#include "server/access/client_certificate.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include "server/access/testing/certificate.h"

namespace tutti::access {
namespace {

using testing::CertificatePaths;
using testing::CertificateSpec;
using testing::MakeCertificate;

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ClientCertificateTest : public ::testing::Test {
 protected:
  ClientCertificate Read(const CertificateSpec& spec) {
    const auto read = ReadClientCertificate(TextOf(MakeCertificate(folder_, "client", spec).cert));
    EXPECT_TRUE(read.has_value());
    return read.value_or(ClientCertificate());
  }
  std::string NameOf(const std::vector<std::string>& names) {
    return Read({.names = names, .alternatives = ""}).name;
  }
  std::string NameOf(const std::vector<std::string>& names, const std::string& alternatives) {
    return Read({.names = names, .alternatives = alternatives}).name;
  }
  std::string Write(const std::string& text) {
    const std::string path = folder_.File("authorities.pem");
    std::ofstream(path) << text;
    return path;
  }
  const support::TempFolder folder_;
};

TEST_F(ClientCertificateTest, ItsNameIsTheOneCommonNameOfItsSubject) {
  EXPECT_EQ(NameOf({"ann"}), "ann");
  EXPECT_EQ(NameOf({"Änne"}), "Änne");
  EXPECT_EQ(NameOf({std::string(64, 'x')}), std::string(64, 'x'));
  EXPECT_EQ(NameOf({std::string("ann\0eve", 7)}), std::string("ann\0eve", 7)) << "whole";
  EXPECT_EQ(NameOf({}), "");
  EXPECT_EQ(NameOf({"ann", "eve"}), "");
  EXPECT_EQ(NameOf({"ann", "ann"}), "");
}

TEST_F(ClientCertificateTest, WithoutACommonNameItIsTheOneDnsNameOfItsExtension) {
  EXPECT_EQ(NameOf({}, "DNS:ann"), "ann");
  EXPECT_EQ(NameOf({}, "email:ann@example.org,URI:spiffe://example.org/ann,IP:10.0.0.1,DNS:ann"),
            "ann");
  EXPECT_EQ(NameOf({}, "DNS:" + std::string(64, 'x')), std::string(64, 'x'));
  EXPECT_EQ(NameOf({}, "DNS:" + std::string(65, 'x')), "");
  EXPECT_EQ(NameOf({}, "DNS:ann,DNS:eve"), "") << "none is chosen among several";
  EXPECT_EQ(NameOf({}, "DNS:ann,DNS:ann"), "");
  EXPECT_EQ(NameOf({}, "email:ann,URI:urn:ann,IP:10.0.0.1"), "") << "of other kinds is no user";
  EXPECT_EQ(NameOf({"ann"}, "DNS:eve"), "ann") << "the subject's own comes first";
  EXPECT_EQ(NameOf({"ann", "eve"}, "DNS:ann"), "") << "and is not made up for";
}

TEST_F(ClientCertificateTest, ItEndsWithTheSecondBehindItsLast) {
  const int64_t before = std::time(nullptr);
  const int64_t expires_s = Read({.until_s = 100}).expires_s;
  EXPECT_GE(expires_s, before + 101);
  EXPECT_LE(expires_s, std::time(nullptr) + 101);
}

TEST_F(ClientCertificateTest, WhatIsNoCertificateIsNone) {
  const CertificatePaths paths = MakeCertificate(folder_, "a");
  for (const std::string& text :
       {std::string(), std::string("x"), TextOf(paths.key), TextOf(paths.cert).substr(0, 100)})
    EXPECT_FALSE(ReadClientCertificate(text).has_value());
}

TEST_F(ClientCertificateTest, AFileOfAuthoritiesHoldsCertificatesThatOthersCannotReplace) {
  const std::string one = TextOf(MakeCertificate(folder_, "one").cert);
  const std::string two = TextOf(MakeCertificate(folder_, "two").cert);
  const std::string both = "what they are for\n" + one + two;
  const Result<std::string> read = ReadClientAuthorities(Write(both));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, both);
  std::string broken = one + two;
  broken.replace(one.size() + 100, 10, "##########");
  for (const std::string& wrong :
       {std::string(), std::string("no PEM"), broken, std::string((1 << 20) + 1, '\n'),
        TextOf(folder_.File("one.key"))}) {
    const Status status = ReadClientAuthorities(Write(wrong)).status();
    EXPECT_EQ(status.reason(), "invalid_value");
    EXPECT_EQ(status.param(), "tls-client-ca");
    EXPECT_NE(status.message().find("authorities.pem"), std::string::npos);
  }
  EXPECT_FALSE(ReadClientAuthorities(folder_.File("none")).ok());
  EXPECT_FALSE(ReadClientAuthorities(folder_.path()).ok());
  const std::string path = Write(one);
  chmod(path.c_str(), 0666);
  EXPECT_EQ(ReadClientAuthorities(path).status().param(), "tls-client-ca");
}

}  // namespace
}  // namespace tutti::access
