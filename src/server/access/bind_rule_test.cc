#include <gtest/gtest.h>

#include "server/access/listen_rules.h"

namespace tutti::access {
namespace {

TEST(BindRule, ANetworkIsServedWithKeyAndTlsOnly) {
  BindRequest bind;
  bind.host = "localhost";
  bind.loopback = true;
  EXPECT_TRUE(CheckBind(bind).ok());
  bind.host = "0.0.0.0";
  bind.loopback = false;
  EXPECT_EQ(CheckBind(bind).reason(), "invalid_value");
  EXPECT_EQ(CheckBind(bind).param(), "host");
  bind.has_key = true;
  EXPECT_EQ(CheckBind(bind).param(), "host") << "a key alone would travel in the clear";
  bind.tls_cert_file = bind.tls_key_file = "x.pem";
  EXPECT_TRUE(CheckBind(bind).ok());
  bind.has_key = false;
  EXPECT_EQ(CheckBind(bind).param(), "host") << "TLS alone lets everybody in";
}

TEST(BindRule, CertificateAndItsKeyBelongTogetherAlsoOnLoopback) {
  BindRequest bind;
  bind.host = "127.0.0.1";
  bind.loopback = bind.has_key = true;
  bind.tls_cert_file = "only";
  EXPECT_EQ(CheckBind(bind).param(), "tls-cert");
  bind.tls_cert_file.clear();
  bind.tls_key_file = "only";
  EXPECT_EQ(CheckBind(bind).param(), "tls-cert");
}

TEST(BindRule, CertificatesOfClientsNeedTls) {
  BindRequest bind;
  bind.host = "127.0.0.1";
  bind.loopback = bind.has_key = true;
  bind.tls_client_ca_file = "ca.pem";
  EXPECT_EQ(CheckBind(bind).param(), "tls-client-ca");
  bind.tls_cert_file = bind.tls_key_file = "x.pem";
  EXPECT_TRUE(CheckBind(bind).ok());
}

TEST(BindRule, AddressesAreShownAsUrls) {
  EXPECT_EQ(AddressOf("localhost"), "127.0.0.1");
  EXPECT_EQ(AddressOf("::1"), "::1");
  EXPECT_EQ(AddressUrl("http", "127.0.0.1", 8080), "http://127.0.0.1:8080");
  EXPECT_EQ(AddressUrl("grpcs", "::1", 8081), "grpcs://[::1]:8081");
}

}  // namespace
}  // namespace tutti::access
