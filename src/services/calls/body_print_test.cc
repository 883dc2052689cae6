#include "services/calls/body_print.h"

#include <gtest/gtest.h>

namespace tutti::calls {
namespace {

TEST(BodyPrint, IsOfWhatTheBodySaysHoweverItIsWritten) {
  EXPECT_EQ(PrintOf("{}").size(), 32u);
  EXPECT_EQ(PrintOf(R"({"a":1,"b":"\u0061"})"), PrintOf("{ \"a\" : 1,\n\"b\":\"a\" }"));
  EXPECT_NE(PrintOf(R"({"a":1})"), PrintOf(R"({"a":2})"));
  EXPECT_NE(PrintOf("no json"), PrintOf("no  json")) << "or of its bytes";
}

}  // namespace
}  // namespace tutti::calls
