#include "protocol/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Ask(std::string_view request, const Status& end = OkStatus()) {
  return ControlLine(
      AnswerControl(request, 1024, 4, [&](const JsonObject& object, JsonWriter* json) -> Status {
        json->Member("op", ControlOperation(object));
        return end;
      }));
}

TEST(Control, AnAnswerIsTheServicesOrARefusalWithNothingOfIt) {
  EXPECT_EQ(Ask(R"({"op":"list"})"), R"({"ok":true,"op":"list"})");
  EXPECT_EQ(Ask(R"({"op":"list"})", BadControl("by", "no")),
            R"({"ok":false,"code":"invalid_value","message":"no"})");
}

TEST(Control, AnAnswerWithoutMembersIsAnEmptyObject) {
  const Result<std::string> answer =
      AnswerControl("{}", 1024, 4, [](const JsonObject&, JsonWriter*) { return OkStatus(); });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "{}");
  EXPECT_EQ(ControlLine(answer), R"({"ok":true})");
}

TEST(Control, AnOperationIsAText) {
  for (const char* request : {"{}", R"({"op":1})", R"({"op":null})"})
    EXPECT_EQ(Ask(request), R"({"ok":true,"op":""})");
}

TEST(Control, WhatIsNoObjectOrTooMuchIsRefused) {
  for (const char* request : {"", "[]", "x", R"("op")", "[1,2,3,4,5]"})
    EXPECT_THAT(Ask(request), StartsWith(R"({"ok":false,"code":")")) << request;
  EXPECT_THAT(Ask(std::string(1025, ' ')), HasSubstr("longer than 1 KiB"));
}

}  // namespace
}  // namespace tutti::protocol
