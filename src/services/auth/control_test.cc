#include "services/auth/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "protocol/control.h"
#include "protocol/json/json.h"
#include "services/auth/testing/opened_store.h"

namespace tutti::auth {
namespace {

using testing::kNow;

using ::testing::HasSubstr;
using ::testing::Not;

class ControlTest : public ::testing::Test {
 protected:
  std::string Ask(const std::string& request, int64_t now_s = kNow) {
    std::string answer = protocol::ControlLine(HandleControl(*authority_, request, now_s));
    EXPECT_TRUE(protocol::ParseJson(answer).ok()) << answer;
    EXPECT_THAT(answer, Not(HasSubstr("\n"))) << "one line";
    return answer;
  }
  // The text of a member, also of one within `key`.
  static std::string Member(const std::string& answer, std::string_view name) {
    const auto document = protocol::ParseJson(answer);
    CHECK(document.ok());
    const protocol::Json* value = document->root().get_object().if_contains(name);
    if (value == nullptr) value = document->root().at("key").get_object().if_contains(name);
    CHECK(value != nullptr) << answer;
    return value->is_string() ? std::string(value->get_string()) : protocol::PrintJson(*value);
  }

  std::unique_ptr<store::Store> store_ = OpenedStore();
  std::unique_ptr<Accounts> accounts_ = *Accounts::Open(store_.get());
  std::unique_ptr<Authenticator> authority_ = *Authenticator::Create(
      accounts_.get(), {.configured_key = "", .issuers = {}, .hash = testing::kQuick, .pool = {}});
};

TEST_F(ControlTest, AKeyIsMadeShownOnceListedRotatedAndRevoked) {
  const std::string made =
      Ask(R"({"op":"keys.create","name":"ci","tenant":"acme","scopes":{"routes":["embed"],)"
          R"("models":["m"]},"limits":{"requests_per_minute":60},"expires_in_s":86400})");
  EXPECT_EQ(Member(made, "ok"), "true") << made;
  EXPECT_EQ(Member(made, "state"), "active");
  EXPECT_EQ(Member(made, "expires_s"), std::to_string(kNow + 86400));
  const std::string secret = Member(made, "secret"), id = Member(made, "id");
  const auto who = authority_->FromBearer(secret, kNow);
  ASSERT_TRUE(who.ok());
  EXPECT_EQ((*who)->grant.tenant, "acme");
  EXPECT_EQ((*who)->grant.limits.requests_per_minute, 60);
  EXPECT_TRUE(Authorize(**who, RouteClass::kEmbed, "m").ok());
  EXPECT_FALSE(Authorize(**who, RouteClass::kEmbed, "n").ok());

  const std::string list = Ask(R"({"op":"keys.list"})");
  EXPECT_THAT(list, HasSubstr(id));
  EXPECT_THAT(list, Not(HasSubstr(secret.substr(19)))) << "a secret is shown once";

  const std::string second = Ask(R"({"op":"keys.rotate","name":"ci","grace_s":100})");
  EXPECT_TRUE(authority_->FromBearer(Member(second, "secret"), kNow + 99).ok());
  EXPECT_TRUE(authority_->FromBearer(secret, kNow + 99).ok());
  EXPECT_FALSE(authority_->FromBearer(secret, kNow + 100).ok());

  EXPECT_EQ(Ask(R"({"op":"keys.revoke","key":")" + id + "\"}"),
            R"({"ok":true,"revoked":[")" + id + R"("]})");
  EXPECT_THAT(Ask(R"({"op":"keys.list"})"), HasSubstr(R"("state":"revoked")"));
}

TEST_F(ControlTest, AKeyGetsOtherRights) {
  const std::string made = Ask(R"({"op":"keys.create","name":"ci","scopes":{"routes":["embed"]},)"
                               R"("limits":{"concurrency":1,"requests_per_minute":60}})");
  const std::string secret = Member(made, "secret"), id = Member(made, "id");
  const auto grant = [&] { return (*authority_->FromBearer(secret, kNow))->grant; };
  const std::string changed =
      Ask(R"({"op":"keys.update","key":"ci","limits":{"requests_per_minute":5}})");
  EXPECT_THAT(changed, HasSubstr(R"("limits":{"requests_per_minute":5,"concurrency":1})"));
  EXPECT_EQ(grant().limits.requests_per_minute, 5);
  EXPECT_FALSE(grant().scopes.routes.Has(RouteClass::kGenerate)) << "the scopes stay";
  Ask(R"({"op":"keys.update","key":"ci","scopes":{"models":["m"]},"limits":{"concurrency":null}})");
  EXPECT_FALSE(grant().limits.concurrency.has_value());
  EXPECT_FALSE(grant().scopes.routes.Has(RouteClass::kGenerate)) << "the routes stay";
  Ask(R"({"op":"keys.update","key":")" + id + R"(","scopes":{"routes":["generate","embed"]}})");
  EXPECT_TRUE(grant().scopes.routes.Has(RouteClass::kGenerate));
  EXPECT_THAT(grant().scopes.models, ::testing::ElementsAre("m")) << "the models stay";
  EXPECT_EQ(grant().limits.requests_per_minute, 5) << "the limits stay";
  for (const std::string nothing : {"", R"(,"limits":{})", R"(,"scopes":{},"limits":null)"})
    EXPECT_EQ(Member(Ask(R"({"op":"keys.update","key":"ci")" + nothing + "}"), "code"),
              "missing_required_parameter");
  EXPECT_EQ(Member(Ask(R"({"op":"keys.update","key":"ci","tenant":"other"})"), "code"),
            "unknown_parameter");
  EXPECT_EQ(
      Member(Ask(R"({"op":"keys.update","key":"nobody","limits":{"concurrency":1}})"), "code"),
      "not_found");
  // After a restart the same.
  const auto again = *Accounts::Open(store_.get());
  EXPECT_EQ(again->snapshot()->FindKey(id)->principal->grant, grant());
  Ask(R"({"op":"keys.revoke","key":"ci"})");
  EXPECT_EQ(Member(Ask(R"({"op":"keys.update","key":"ci","limits":{"concurrency":1}})"), "code"),
            "not_found");
}

// Regression: an empty list took the limit away, so that the key could do everything.
TEST_F(ControlTest, AnEmptyListOfScopesWidensNoKey) {
  const std::string secret = Member(
      Ask(R"({"op":"keys.create","name":"ci","scopes":{"routes":["embed"],"models":["m"]}})"),
      "secret");
  const auto grant = [&] { return (*authority_->FromBearer(secret, kNow))->grant; };
  const Grant before = grant();
  for (const std::string list : {"routes", "models"}) {
    const std::string answer =
        Ask(R"({"op":"keys.update","key":"ci","scopes":{")" + list + R"(":[]}})");
    EXPECT_EQ(Member(answer, "code"), "invalid_value") << answer;
    EXPECT_THAT(answer, HasSubstr("null for the default"));
    EXPECT_EQ(grant(), before);
  }
  Ask(R"({"op":"keys.update","key":"ci","scopes":{"models":null}})");
  EXPECT_THAT(grant().scopes.models, ::testing::IsEmpty());
}

TEST_F(ControlTest, AUserIsMadeChangedDisabledAndDeleted) {
  const std::string ok = R"({"ok":true})";
  EXPECT_EQ(Ask(R"({"op":"users.create","name":"ann","password":"correct horse"})"), ok);
  const std::string list = Ask(R"({"op":"users.list"})");
  EXPECT_THAT(list, HasSubstr(R"({"name":"ann","enabled":true,"tenant":"default")"));
  EXPECT_THAT(list, Not(HasSubstr("argon2"))) << "hashes stay in the store";
  const std::string before = accounts_->snapshot()->FindUser("ann")->password_hash;
  EXPECT_EQ(Ask(R"({"op":"users.password","name":"ann","password":"another horse"})"), ok);
  EXPECT_NE(accounts_->snapshot()->FindUser("ann")->password_hash, before);
  EXPECT_EQ(Ask(R"({"op":"users.disable","name":"ann"})"), ok);
  EXPECT_FALSE(accounts_->snapshot()->FindUser("ann")->enabled);
  EXPECT_EQ(Ask(R"({"op":"users.enable","name":"ann"})"), ok);
  EXPECT_TRUE(accounts_->snapshot()->FindUser("ann")->enabled);
  EXPECT_EQ(Ask(R"({"op":"users.delete","name":"ann"})"), ok);
  EXPECT_EQ(Member(Ask(R"({"op":"users.delete","name":"ann"})"), "code"), "not_found");
}

TEST_F(ControlTest, AUserWithoutAPasswordHasOneThatNobodyKnows) {
  const std::string ok = R"({"ok":true})";
  for (const char* const name : {"ann", "bob"})
    EXPECT_EQ(Ask(R"({"op":"users.create","name":")" + std::string(name) +
                  R"(","no_password":true,"tenant":"acme"})"),
              ok);
  const auto ann = accounts_->snapshot()->FindUser("ann");
  EXPECT_EQ(ann->principal->grant.tenant, "acme");
  EXPECT_NE(ann->password_hash, accounts_->snapshot()->FindUser("bob")->password_hash);
  EXPECT_THAT(ann->password_hash, ::testing::StartsWith("$argon2id$")) << "as much work as others'";
  EXPECT_EQ(Ask(R"({"op":"users.password","name":"ann","password":"another horse"})"), ok);
}

TEST_F(ControlTest, WhatIsAskedWronglyIsRefusedWithItsCode) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "invalid_json"},
      {"{", "invalid_json"},
      {"[]", "invalid_value"},
      {"{}", "invalid_value"},
      {R"({"op":"keys.destroy"})", "invalid_value"},
      {R"({"op":7})", "invalid_value"},
      {R"({"op":"keys.list","op":"keys.list"})", "duplicate_key"},
      {R"({"op":"keys.list","x":1})", "unknown_parameter"},
      {R"({"op":"keys.list","":1})", "unknown_parameter"},
      {R"({"op":"keys.create"})", "missing_required_parameter"},
      {R"({"op":"keys.create","name":7})", "invalid_value"},
      {R"({"op":"keys.create","name":"a b"})", "invalid_value"},
      {R"({"op":"keys.create","name":"a","tenant":"#"})", "invalid_value"},
      {R"({"op":"keys.create","name":"a","expires_in_s":0})", "invalid_value"},
      {R"({"op":"keys.create","name":"a","expires_in_s":1e30})", "invalid_value"},
      {R"({"op":"keys.create","name":"a","limits":{"concurrency":-1}})", "invalid_value"},
      {R"({"op":"keys.create","name":"a","scopes":{"route":[]}})", "unknown_parameter"},
      {R"({"op":"keys.create","name":"."})", "invalid_value"},
      {R"({"op":"keys.create","name":".."})", "invalid_value"},
      {R"({"op":"users.create","name":"..","password":"correct horse"})", "invalid_value"},
      {R"({"op":"keys.create","name":"a","scopes":{"routes":[]}})", "invalid_value"},
      {R"({"op":"keys.create","name":"a","scopes":{"models":[]}})", "invalid_value"},
      {R"({"op":"users.create","name":"ann","no_password":true,"scopes":{"routes":[]}})",
       "invalid_value"},
      {R"({"op":"keys.revoke","key":"nobody"})", "not_found"},
      {R"({"op":"keys.rotate","name":"nobody"})", "not_found"},
      {R"({"op":"users.create","name":"ann","password":"short"})", "invalid_value"},
      {R"({"op":"users.create","name":"ann"})", "missing_required_parameter"},
      {R"({"op":"users.create","name":"ann","no_password":false})", "missing_required_parameter"},
      {R"({"op":"users.create","name":"ann","no_password":1})", "invalid_value"},
      {R"({"op":"users.create","name":"ann","no_password":true,"password":"correct horse"})",
       "invalid_value"},
      {R"({"op":"users.password","name":"ann","password":"correct horse"})", "not_found"},
  };
  for (const auto& [request, code] : cases)
    EXPECT_EQ(Member(Ask(request), "code"), code) << request;
  EXPECT_EQ(Member(Ask(std::string(kMaxControlRequestBytes + 1, ' ')), "code"),
            "request_too_large");
  EXPECT_TRUE(accounts_->snapshot()->empty());
}

TEST_F(ControlTest, NoBytesAreTooStrangeToBeAnswered) {
  Random random(5);
  const std::string request =
      R"({"op":"keys.create","name":"ci","scopes":{"routes":["embed"]},"expires_in_s":86400})";
  for (int i = 0; i < 2000; ++i) {
    std::string strange = request;
    for (int64_t n = random.Between(1, 4); n > 0; --n)
      strange[random.Below(strange.size())] = static_cast<char>(random.Below(256));
    Ask(strange);
  }
}

}  // namespace
}  // namespace tutti::auth
