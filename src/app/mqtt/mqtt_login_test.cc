#include "app/mqtt/mqtt_login.h"

#include <gtest/gtest.h>

#include <ctime>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "services/auth/principal.h"
#include "services/auth/testing/opened_store.h"

namespace tutti::app {
namespace {

using mqtt::listener::Credentials;
using mqtt::listener::Principal;

// Logins of clients that sent a certificate.
class CertificateLoginTest : public ::testing::Test {
 protected:
  static constexpr char kRightPassword[] = "correct horse battery";

  CertificateLoginTest() {
    for (const char* const name : {"ann", "bob"}) {
      const Status made = accounts_->CreateUser(
          {.name = name,
           .password_hash = *auth::HashPassword(kRightPassword, auth::testing::kQuick),
           .grant = {}});
      EXPECT_TRUE(made.ok()) << made;
    }
  }
  static auth::Authenticator::Options Asking() {
    auth::Authenticator::Options options;
    options.hash = auth::testing::kQuick;
    options.client_certificates = true;
    return options;
  }
  Result<Principal> Login(const std::string& certificate, std::optional<std::string> user = {},
                          std::optional<std::string> password = {}) {
    Credentials credentials;
    credentials.user_name = std::move(user);
    credentials.password = std::move(password);
    credentials.certificate = {.name = certificate, .expires_s = expires_s_};
    std::promise<Result<Principal>> answer;
    login_.Check(std::move(credentials),
                 [&](Result<Principal> who) { answer.set_value(std::move(who)); });
    return answer.get_future().get();
  }
  // The user's name, or the reason of the refusal.
  std::string Who(const std::string& certificate, std::optional<std::string> user = {},
                  std::optional<std::string> password = {}) {
    const Result<Principal> who = Login(certificate, std::move(user), std::move(password));
    return who.ok() ? who->user : std::string(who.status().reason());
  }

  int64_t expires_s_ = std::time(nullptr) + 3600;
  std::unique_ptr<store::Store> store_ = auth::OpenedStore();
  std::unique_ptr<auth::Accounts> accounts_ = *auth::Accounts::Open(store_.get());
  std::unique_ptr<auth::Authenticator> authority_ =
      *auth::Authenticator::Create(accounts_.get(), Asking());
  MqttLogin login_{*authority_, "llm/v1", /*loopback=*/true, {}, "default"};
};

TEST_F(CertificateLoginTest, ItIsTheSameUserAsWithAPassword) {
  const Result<Principal> shown = Login("ann"), typed = Login("bob", "ann", kRightPassword);
  ASSERT_TRUE(shown.ok() && typed.ok());
  EXPECT_EQ(shown->user, "ann");
  EXPECT_EQ(shown->credential, typed->credential);
  EXPECT_EQ(shown->tenant, typed->tenant);
  EXPECT_EQ(shown->publish, typed->publish);
  EXPECT_EQ(shown->subscribe, typed->subscribe);
  EXPECT_EQ(shown->respond, typed->respond);
  EXPECT_EQ(shown->retain, typed->retain);
}

TEST_F(CertificateLoginTest, AUserNameBesideItIsItsOwn) {
  EXPECT_EQ(Who("ann", "ann"), "ann");
  for (const char* const other : {"bob", "", "Ann", "nobody"})
    EXPECT_EQ(Who("ann", other), "invalid_api_key") << other;
}

TEST_F(CertificateLoginTest, WhatIsShownWithAPasswordIsJudgedAlone) {
  EXPECT_EQ(Who("ann", "bob", kRightPassword), "bob");
  EXPECT_EQ(Who("nobody", "bob", kRightPassword), "bob");
  EXPECT_EQ(Who("ann", "ann", "wrong horse battery"), "invalid_api_key");
  EXPECT_EQ(Who("ann", "ann", ""), "invalid_api_key");
  EXPECT_EQ(Who("ann", std::nullopt, kRightPassword), "invalid_api_key");
  const auto key =
      accounts_->CreateKey({.name = "app", .grant = {}, .expires_s = {}}, std::time(nullptr));
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(Who("ann", "app", key->text), "app");
  EXPECT_EQ(Who("ann", "ann", key->text), "invalid_api_key");
}

TEST_F(CertificateLoginTest, WhoIsUnknownDisabledOrRemovedIsRefusedLikeAWrongPassword) {
  const Status wrong = Login("ann", "ann", "wrong horse battery").status();
  const Result<Principal> who = Login("ann");
  ASSERT_TRUE(who.ok());
  const auto expect_refused = [&](const std::string& name) {
    const Status status = Login(name).status();
    EXPECT_EQ(status.code(), wrong.code()) << name;
    EXPECT_EQ(status.reason(), wrong.reason()) << name;
  };
  expect_refused("nobody");
  expect_refused("");
  EXPECT_TRUE(login_.MayStay(*who));
  ASSERT_TRUE(accounts_->EnableUser("ann", false).ok());
  expect_refused("ann");
  EXPECT_FALSE(login_.MayStay(*who));
  ASSERT_TRUE(accounts_->EnableUser("ann", true).ok());
  EXPECT_TRUE(login_.MayStay(*who));
  ASSERT_TRUE(accounts_->RemoveUser("ann").ok());
  expect_refused("ann");
  EXPECT_FALSE(login_.MayStay(*who));
}

TEST_F(CertificateLoginTest, WhoStaysLeavesWhenTheCertificateEnds) {
  Result<Principal> who = Login("ann");
  ASSERT_TRUE(who.ok());
  EXPECT_EQ(who->expires_s, expires_s_);
  EXPECT_TRUE(login_.MayStay(*who));
  who->expires_s = std::time(nullptr);
  EXPECT_FALSE(login_.MayStay(*who));
  expires_s_ = std::time(nullptr);
  EXPECT_EQ(Who("ann"), "invalid_api_key");
  EXPECT_FALSE(Login("bob", "bob", kRightPassword)->expires_s.has_value())
      << "no certificate let in";
}

TEST_F(CertificateLoginTest, WhoMayNotGenerateHasNoBusinessOverMqtt) {
  auth::UserRecord user{.name = "eve", .password_hash = "none", .grant = {}};
  user.grant.scopes.routes = {auth::RouteClass::kEmbed};
  ASSERT_TRUE(accounts_->CreateUser(user).ok());
  EXPECT_EQ(Who("eve"), "insufficient_scope");
}

}  // namespace
}  // namespace tutti::app
