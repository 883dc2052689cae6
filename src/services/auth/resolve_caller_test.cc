#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/auth/authenticator.h"
#include "services/auth/key_text.h"
#include "services/auth/testing/one_key.h"

namespace tutti::auth {
namespace {

using Fields = std::vector<std::string_view>;

bool IsKnown(testing::OneKey& known, const Fields& fields, bool loopback = true) {
  return ResolveCaller(known.authority(), loopback, {.authorization = fields}, 1000).ok();
}

TEST(WhoAsksTest, OneKeyAsABearerIsTakenAndNothingElse) {
  testing::OneKey known("sk-test");
  EXPECT_TRUE(IsKnown(known, {"Bearer sk-test"}));
  EXPECT_TRUE(IsKnown(known, {"bEARER sk-test"}));
  EXPECT_FALSE(IsKnown(known, {}));
  EXPECT_FALSE(IsKnown(known, {"Bearer sk-test", "Bearer sk-test"}));
  const std::string long_key = "Bearer " + std::string(5000, 'k');
  for (const std::string_view wrong :
       {std::string_view(""), std::string_view("sk-test"), std::string_view("Bearer"),
        std::string_view("Bearer "), std::string_view("Basic sk-test"),
        std::string_view("Bearer  sk-test"), std::string_view("Bearer sk-tes"),
        std::string_view("Bearer sk-test "), std::string_view("Bearer SK-TEST"),
        std::string_view(long_key)}) {
    EXPECT_FALSE(IsKnown(known, {wrong})) << wrong;
  }
}

TEST(WhoAsksTest, WithoutAKeyEverybodyOfThisMachineIsServedAndNobodyElse) {
  testing::OneKey known;
  EXPECT_TRUE(IsKnown(known, {}));
  EXPECT_TRUE(IsKnown(known, {"Bearer whatever"}));
  EXPECT_FALSE(IsKnown(known, {}, /*loopback=*/false));
  EXPECT_FALSE(IsKnown(known, {"Bearer whatever"}, /*loopback=*/false));
}

TEST(WhoAsksTest, FromTheFirstKeyOnItIsAskedFor) {
  testing::OneKey known;
  const Result<IssuedKey> key =
      known.accounts().CreateKey({.name = "a", .grant = {}, .expires_s = {}}, 1000);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_FALSE(IsKnown(known, {}));
  EXPECT_TRUE(IsKnown(known, {"Bearer " + key->text}));
  ASSERT_TRUE(known.accounts().RevokeKeys("a", 1000).ok());
  EXPECT_FALSE(IsKnown(known, {"Bearer " + key->text}));
  EXPECT_FALSE(IsKnown(known, {})) << "a server that has had keys does not open by itself";
}

TEST(WhoAsksTest, AClaimNamesTheKeyOrTheCertificateAndNoSecret) {
  const std::string key = *MakeKeyText(), bearer = "Bearer " + key;
  const Fields of_key = {bearer}, other = {"Bearer secret"};
  const CertifiedName ann{.name = "ann", .expires_s = {}};
  EXPECT_EQ(ClaimOf({.authorization = of_key}), "key:" + std::string(*KeyIdOf(key)));
  EXPECT_EQ(ClaimOf({.authorization = other, .certificate = &ann}), "-");
  EXPECT_EQ(ClaimOf({.certificate = &ann}), "certificate:ann");
  EXPECT_EQ(ClaimOf({}), "-");
}

// The name of the resolved caller, or the reason of the refusal.
std::string Caller(testing::OneKey& known, const Fields& fields, const std::string& certificate,
                   int64_t now_s = 1000) {
  const CertifiedName name{.name = certificate, .expires_s = 2000};
  const auto who = ResolveCaller(known.authority(), true,
                                 {.authorization = fields, .certificate = &name}, now_s);
  return who.ok() ? (*who)->name : std::string(who.status().reason());
}

TEST(WhoAsksTest, ACertificateSpeaksForARequestThatShowsNothingItself) {
  testing::OneKey known("sk-test", /*certificates=*/true);
  known.AddUser("ann");
  EXPECT_EQ(Caller(known, {}, "ann"), "ann");
  EXPECT_EQ(Caller(known, {}, "ann", 2000), "invalid_api_key") << "its time is over";
  EXPECT_EQ(Caller(known, {}, "bob"), "invalid_api_key");
  EXPECT_EQ(Caller(known, {"Bearer sk-test"}, "ann"), "configured");
  EXPECT_EQ(Caller(known, {"Bearer sk-test"}, "bob"), "configured");
}

TEST(WhoAsksTest, WhatARequestShowsAndIsWrongIsNotMadeGoodByACertificate) {
  testing::OneKey known("sk-test", /*certificates=*/true);
  known.AddUser("ann");
  for (const Fields& wrong : {Fields{"Bearer sk-wrong"}, Fields{""}, Fields{"Bearer "},
                              Fields{"Basic eA=="}, Fields{"Bearer sk-test", "Bearer sk-test"}})
    EXPECT_EQ(Caller(known, wrong, "ann"), "invalid_api_key") << wrong[0];
}

TEST(BearerTest, WhatABearerShowsIsReadWhateverItIs) {
  EXPECT_EQ(BearerOf(Fields{"Bearer a.b-c"}), "a.b-c");
  EXPECT_EQ(BearerOf(Fields{"bEARER  x"}), " x");
  for (const Fields& none : {Fields{}, Fields{""}, Fields{"Bearer"}, Fields{"Bearer "},
                             Fields{"Basic eA=="}, Fields{"Bearer a", "Bearer a"}})
    EXPECT_EQ(BearerOf(none), "");
}

TEST(MayUseTest, OneOfTheRulesScopesIsEnough) {
  Principal who{.kind = PrincipalKind::kKey, .id = "k", .name = "k", .grant = {}, .expires_s = {}};
  who.grant.scopes.routes = {RouteClass::kEmbed};
  EXPECT_TRUE(MayUse(who, {RouteClass::kEmbed}).ok());
  EXPECT_TRUE(MayUse(who, {RouteClass::kGenerate, RouteClass::kEmbed}).ok());
  EXPECT_EQ(MayUse(who, {RouteClass::kGenerate}).reason(), "insufficient_scope");
  EXPECT_EQ(MayUse(who, {RouteClass::kAdmin}).reason(), "insufficient_scope");
}

TEST(MayUseTest, WhereNobodyIsKnownEverybodyOperatesTheServer) {
  EXPECT_TRUE(MayUse(*OpenPrincipal(), {RouteClass::kAdmin}).ok());
}

}  // namespace
}  // namespace tutti::auth
