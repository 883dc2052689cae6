#include "services/auth/principal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::auth {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PrincipalTest, WithoutKeysThisMachineIsServedAndNobodyElse) {
  EXPECT_TRUE(IsOpenTo(/*loopback=*/true, /*anyone_is_known=*/false));
  EXPECT_FALSE(IsOpenTo(true, true)) << "from the first key on";
  EXPECT_FALSE(IsOpenTo(false, false));
  EXPECT_FALSE(IsOpenTo(false, true));
}

TEST(PrincipalTest, EveryClassOfRoutesIsGivenByItsOwnScopeAlone) {
  for (const RouteClass given : kAllRouteClasses) {
    Principal who;
    who.grant.scopes.routes = {given};
    for (const RouteClass asked : kAllRouteClasses) {
      const Status status = Authorize(who, asked);
      EXPECT_EQ(status.ok(), asked == given || asked == RouteClass::kPublic)
          << RouteClassName(given) << " " << RouteClassName(asked);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
        EXPECT_EQ(status.reason(), "insufficient_scope");
        EXPECT_THAT(status.message(), HasSubstr(std::string(RouteClassName(asked))));
      }
    }
  }
}

TEST(PrincipalTest, AModelOutsideTheScopeIsRefusedByName) {
  Principal who;
  who.grant.scopes.models = {"small"};
  EXPECT_TRUE(Authorize(who, RouteClass::kGenerate, "small").ok());
  EXPECT_TRUE(Authorize(who, RouteClass::kModels).ok()) << "no model is asked for";
  const Status refused =
      Authorize(who, RouteClass::kGenerate, "large\x1b[2J" + std::string(999, 'x'));
  EXPECT_EQ(refused.reason(), "insufficient_scope");
  EXPECT_THAT(refused.message(), Not(HasSubstr("\x1b")));
  EXPECT_LT(refused.message().size(), 200U);
}

TEST(PrincipalTest, NobodyInParticularMayDoAllButAdminister) {
  EXPECT_TRUE(Authorize(*OpenPrincipal(), RouteClass::kGenerate, "any").ok());
  EXPECT_EQ(Authorize(*OpenPrincipal(), RouteClass::kAdmin).reason(), "insufficient_scope");
  EXPECT_EQ(OpenPrincipal()->grant.tenant, "default");
}

TEST(PrincipalTest, WhoShowsNothingIsToldWhereAKeyBelongs) {
  EXPECT_EQ(NotAuthenticated().code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(NotAuthenticated().reason(), "invalid_api_key");
}

}  // namespace
}  // namespace tutti::auth
