#include "app/config/auth_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <string>

#include "temp_folder.h"

namespace tutti::app {
namespace {

using ::testing::HasSubstr;

// RFC 8037 A.2, as PEM.
constexpr char kPublicKey[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
    "-----END PUBLIC KEY-----\n";

class AuthOptionsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_.File(name);
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  static Result<auth::Authenticator::Options> With(const std::map<std::string, std::string>& flags,
                                                   const std::string& key = "") {
    Settings::Inputs inputs;
    inputs.flags = flags;
    const Result<Settings> settings = Settings::Resolve(inputs);
    CHECK(settings.ok()) << settings.status();
    return AuthOptions(*settings, key);
  }

  support::TempFolder folder_;
};

TEST_F(AuthOptionsTest, WithoutAnIssuerThereIsTheKeyAlone) {
  const auto options = With({}, "sk-test");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->configured_key, "sk-test");
  EXPECT_TRUE(options->issuers.empty());
}

TEST_F(AuthOptionsTest, CertificatesThatMustBeShownAreOfSomeAuthority) {
  EXPECT_FALSE(With({})->client_certificates);
  EXPECT_TRUE(With({{"tls-client-ca", "ca.pem"}})->client_certificates);
  EXPECT_TRUE(With({{"tls-client-ca", "ca.pem"}, {"tls-client-auth", "required"}}).ok());
  EXPECT_EQ(With({{"tls-client-auth", "required"}}).status().param(), "tls-client-ca");
}

TEST_F(AuthOptionsTest, AnIssuerHasItsKeysFromFiles) {
  const std::string first = Write("a.pem", kPublicKey, 0644), second = Write("b.pem", kPublicKey);
  const auto options = With({{"auth.jwt_issuer", "https://id.example"},
                             {"auth.jwt_audience", "tutti"},
                             {"auth.jwt_algorithm", "EdDSA"},
                             {"auth.jwt_key_file", first + "," + second},
                             {"auth.jwt_tenant_claim", "org"},
                             {"auth.jwt_scope_claim", "scope"}});
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_EQ(options->issuers.size(), 1U);
  const auth::JwtIssuer& issuer = options->issuers.front();
  EXPECT_EQ(issuer.issuer, "https://id.example");
  EXPECT_EQ(issuer.audience, "tutti");
  EXPECT_EQ(issuer.algorithm, auth::JwtAlgorithm::kEdDsa);
  EXPECT_EQ(issuer.keys.size(), 2U);
  EXPECT_EQ(issuer.tenant_claim, "org");
  EXPECT_EQ(issuer.scope_claim, "scope");
}

TEST_F(AuthOptionsTest, ASecretIsReadableByThisUserAloneAndLosesItsLineEnd) {
  const std::string secret(40, 's');
  const auto with = [&](mode_t mode) {
    return With({{"auth.jwt_issuer", "i"},
                 {"auth.jwt_audience", "tutti"},
                 {"auth.jwt_algorithm", "HS256"},
                 {"auth.jwt_key_file", Write("secret", secret + "\n", mode)}});
  };
  ASSERT_TRUE(with(0600).ok()) << with(0600).status();
  EXPECT_EQ(with(0600)->issuers.front().keys.front(), secret);
  EXPECT_THAT(with(0644).status().message(), HasSubstr("chmod 600"));
}

TEST_F(AuthOptionsTest, WhatIsMissingOrDoesNotFitIsBlamed) {
  const std::string pem = Write("a.pem", kPublicKey);
  const auto blamed = [](const std::map<std::string, std::string>& flags) {
    const Status status = With(flags).status();
    EXPECT_EQ(status.reason(), "invalid_value") << status;
    return status.param();
  };
  EXPECT_EQ(blamed({{"auth.jwt_key_file", pem}}), "auth.jwt_issuer");
  EXPECT_EQ(blamed({{"auth.jwt_issuer", "i"}, {"auth.jwt_key_file", pem}}), "auth.jwt_audience");
  EXPECT_EQ(blamed({{"auth.jwt_issuer", "i"}, {"auth.jwt_audience", "a"}}), "auth.jwt_key_file");
  std::map<std::string, std::string> flags = {
      {"auth.jwt_issuer", "i"}, {"auth.jwt_audience", "a"}, {"auth.jwt_key_file", pem}};
  EXPECT_EQ(blamed(flags), "auth.jwt_key_file") << "an Ed25519 key is none for RS256";
  flags["auth.jwt_algorithm"] = "EdDSA";
  EXPECT_TRUE(With(flags).ok());
  flags["auth.jwt_key_file"] = folder_.File("none");
  EXPECT_EQ(blamed(flags), "auth.jwt_key_file");
  flags["auth.jwt_key_file"] = folder_.path();
  EXPECT_EQ(blamed(flags), "auth.jwt_key_file");
  flags["auth.jwt_key_file"] = Write("long", std::string(20000, 'x'));
  EXPECT_EQ(blamed(flags), "auth.jwt_key_file");
}

}  // namespace
}  // namespace tutti::app
