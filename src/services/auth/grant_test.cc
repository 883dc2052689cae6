#include "services/auth/grant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti::auth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename Reader>
auto Read(const std::string& text, Reader reader) {
  const auto document = protocol::ParseJson(text);
  CHECK(document.ok()) << document.status();
  return reader(document->root());
}
Result<Scopes> ScopesFrom(const std::string& text) { return Read(text, &ReadScopes); }
Result<Limits> LimitsFrom(const std::string& text) { return Read(text, &ReadLimits); }

TEST(Grant, WithoutScopesEverythingIsAllowedButAdministration) {
  const Scopes scopes;
  EXPECT_THAT(scopes.models, IsEmpty());
  for (const RouteClass route : kAllRouteClasses)
    EXPECT_EQ(scopes.routes.Has(route), route != RouteClass::kAdmin) << RouteClassName(route);
  EXPECT_EQ(*ScopesFrom("{}"), scopes);
  EXPECT_EQ(*ScopesFrom(R"({"routes":[],"models":[]})"), scopes);
}

TEST(Grant, ScopesAreReadAsTheyWereWritten) {
  const auto scopes = ScopesFrom(R"({"routes":["embed","admin"],"models":["b","a","b"]})");
  ASSERT_TRUE(scopes.ok()) << scopes.status();
  EXPECT_THAT(scopes->models, ElementsAre("a", "b"));
  EXPECT_TRUE(scopes->routes.Has(RouteClass::kAdmin));
  EXPECT_TRUE(scopes->routes.Has(RouteClass::kPublic)) << "health is nobody's to forbid";
  EXPECT_FALSE(scopes->routes.Has(RouteClass::kGenerate));
  EXPECT_EQ(*ScopesFrom(ScopesText(*scopes)), *scopes);
  EXPECT_EQ(ScopesText(*scopes), R"({"routes":["embed","admin"],"models":["a","b"]})");
  EXPECT_TRUE(HasModel(*scopes, "a"));
  EXPECT_FALSE(HasModel(*scopes, "A"));
  EXPECT_TRUE(HasModel(Scopes(), "anything"));
}

TEST(Grant, ScopesThatMeanNothingAreRefused) {
  for (const char* bad :
       {"[]", R"({"routes":"embed"})", R"({"routes":["embedd"]})", R"({"routes":[1]})",
        R"({"routes":["public"]})", R"({"models":[""]})", R"({"models":[null]})", R"({"x":1})"})
    EXPECT_FALSE(ScopesFrom(bad).ok()) << bad;
  std::string many = R"({"models":["0")";
  for (int i = 1; i <= 64; ++i) many += ",\"" + std::to_string(i) + "\"";
  EXPECT_EQ(ScopesFrom(many + "]}").status().param(), "models");
  EXPECT_THAT(ScopesFrom(R"({"routes":["nope"]})").status().message(), HasSubstr("tokenize"));
}

TEST(Grant, LimitsAreAbsentOrWholeNumbersFromOneOn) {
  const auto limits = LimitsFrom(R"({"requests_per_minute":60,"daily_tokens":1000000})");
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_EQ(limits->requests_per_minute, 60);
  EXPECT_EQ(limits->daily_tokens, 1000000);
  EXPECT_FALSE(limits->concurrency.has_value());
  EXPECT_EQ(*LimitsFrom(LimitsText(*limits)), *limits);
  EXPECT_EQ(*LimitsFrom(R"({"concurrency":null})"), Limits());
  for (const char* bad : {R"({"concurrency":0})", R"({"concurrency":-1})", R"({"concurrency":"5"})",
                          R"({"concurrency":1.5})", R"({"concurrency":99999999999999999})",
                          R"({"concurency":5})", "[]"})
    EXPECT_FALSE(LimitsFrom(bad).ok()) << bad;
}

TEST(Grant, NamesAreShortAndPlain) {
  for (const char* good : {"a", "ci-2", "Ann.B_c", "0"}) EXPECT_TRUE(IsName(good)) << good;
  for (const std::string& bad :
       {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a/b"),
        std::string("a+"), std::string("caf\xc3\xa9"), std::string("a\0", 2), std::string("#")})
    EXPECT_FALSE(IsName(bad)) << bad;
  EXPECT_TRUE(IsName(std::string(64, 'a')));
}

TEST(Grant, ARowThatCannotBeReadIsACorruptStore) {
  EXPECT_TRUE(GrantOfRow("t", "{}", "{}").ok());
  EXPECT_EQ(GrantOfRow("t", "{", "{}").status().reason(), "record_corrupt");
  EXPECT_EQ(GrantOfRow("t", "{}", "[]").status().reason(), "record_corrupt");
  EXPECT_EQ(GrantOfRow("t", R"({"routes":["x"]})", "{}").status().reason(), "record_corrupt");
}

}  // namespace
}  // namespace tutti::auth
