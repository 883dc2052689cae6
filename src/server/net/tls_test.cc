// The files of a certificate are checked, and the option at fault is named.
#include "server/net/tls.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "server/access/testing/certificate.h"

namespace tutti::sockets {
namespace {

using access::testing::CertificatePaths;
using access::testing::MakeCertificate;

TEST(ServerTls, FilesThatDoNotFitAreNamed) {
  const support::TempFolder folder;
  const CertificatePaths one = MakeCertificate(folder, "one");
  const CertificatePaths other = MakeCertificate(folder, "other");
  const auto load = [](const std::string& cert, const std::string& key) {
    return LoadServerTls({.cert_file = cert, .key_file = key}).status();
  };
  EXPECT_TRUE(load(one.cert, one.key).ok());
  EXPECT_EQ(load(one.cert + ".none", one.key).param(), "tls-cert");
  EXPECT_NE(load(one.cert + ".none", one.key).message().find(one.cert + ".none"),
            std::string::npos);
  EXPECT_EQ(load(one.cert, one.key + ".none").param(), "tls-key");
  EXPECT_EQ(load(one.cert, other.key).param(), "tls-key");
  EXPECT_EQ(load(one.cert, other.key).reason(), "invalid_value");
  const std::string fifo = folder.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(load(fifo, one.key).param(), "tls-cert") << "once waited at for ever";
  EXPECT_EQ(load(one.cert, fifo).param(), "tls-key");
  chmod(one.key.c_str(), 0644);
  EXPECT_EQ(load(one.cert, one.key).param(), "tls-key") << "others can read it";
  chmod(one.key.c_str(), 0600);
  std::ofstream(one.cert) << "no certificate";
  EXPECT_EQ(load(one.cert, one.key).param(), "tls-cert");
}

TEST(ServerTls, TheFileOfAuthoritiesIsNamedToo) {
  const support::TempFolder folder;
  const CertificatePaths one = MakeCertificate(folder, "one");
  const auto load = [&](const std::string& authorities) {
    return LoadServerTls(
               {.cert_file = one.cert, .key_file = one.key, .client_ca_file = authorities})
        .status();
  };
  EXPECT_TRUE(load(one.cert).ok());
  EXPECT_EQ(load(one.cert + ".none").param(), "tls-client-ca");
  EXPECT_EQ(load(one.key).param(), "tls-client-ca");
}

TEST(ClientTls, ItsOwnOptionsAreNamed) {
  const support::TempFolder folder;
  const CertificatePaths one = MakeCertificate(folder, "one");
  const CertificatePaths other = MakeCertificate(folder, "other");
  const auto use = [](const std::string& cert, const std::string& key) {
    const auto context = MakeTlsContext(TlsContext::tls_client);
    return UseCertificate(*context, {.cert_file = cert,
                                     .key_file = key,
                                     .cert_option = "mqtt.cert_file",
                                     .key_option = "mqtt.key_file"});
  };
  EXPECT_TRUE(use(one.cert, one.key).ok());
  EXPECT_EQ(use(one.key, one.key).param(), "mqtt.cert_file");
  EXPECT_EQ(use(one.cert, other.key).param(), "mqtt.key_file");
}

}  // namespace
}  // namespace tutti::sockets
