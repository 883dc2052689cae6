#include <gtest/gtest.h>

#include "api/names.h"

namespace tutti::api {
namespace {

TEST(Role, EveryRoleIsFoundByItsName) {
  for (const Role role : {Role::kSystem, Role::kUser, Role::kAssistant, Role::kTool})
    EXPECT_EQ(FindRole(RoleName(role)), role) << RoleName(role);
  EXPECT_EQ(FindRole("developer"), Role::kSystem);
  for (const char* other : {"", "User", "function", "system "}) EXPECT_FALSE(FindRole(other));
}

}  // namespace
}  // namespace tutti::api
