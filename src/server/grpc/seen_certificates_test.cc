#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "server/access/testing/certificate.h"
#include "server/grpc/server_context.h"

namespace tutti::rpc {
namespace {

TEST(SeenCertificatesTest, EachIsReadOnceAndNoneIsTakenForAnother) {
  const support::TempFolder folder;
  const auto pem = [&](const std::string& name) {
    std::ifstream file(access::testing::MakeCertificate(folder, name, {.names = {name}}).cert);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string ann = pem("ann"), bob = pem("bob");
  SeenCertificates seen;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(seen.NameOf(ann)->name, "ann");
    EXPECT_EQ(seen.NameOf(bob)->name, "bob");
    EXPECT_GT(seen.NameOf(ann)->expires_s, 0);
  }
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_FALSE(seen.NameOf("none").has_value());
  EXPECT_EQ(seen.size(), 2u);
}

TEST(SeenCertificatesTest, TheyAreBounded) {
  const support::TempFolder folder;
  std::ifstream file(access::testing::MakeCertificate(folder, "ann", {.names = {"ann"}}).cert);
  const std::string pem(std::istreambuf_iterator<char>(file), {});
  SeenCertificates seen;
  for (size_t i = 0; i < SeenCertificates::kMost + 10; ++i) {
    EXPECT_EQ(seen.NameOf(pem + std::string(i, '\n'))->name, "ann");
    EXPECT_LE(seen.size(), SeenCertificates::kMost);
  }
  EXPECT_EQ(seen.size(), 10u);
}

}  // namespace
}  // namespace tutti::rpc
