#include <gtest/gtest.h>

#include "protocol/encoding/call.h"

namespace tutti::protocol {
namespace {

TEST(InputBlame, ARefusalOfTheInferenceApiNamesTheClientsList) {
  const auto blamed = [](const char* param) {
    const Status status = BlameList("texts", InvalidArgument("code", "why").WithParam(param));
    EXPECT_EQ(status.reason(), "code");
    EXPECT_EQ(status.message(), "why");
    return status.param();
  };
  EXPECT_EQ(blamed("input"), "texts");
  EXPECT_EQ(blamed("input[0]"), "texts[0]");
  EXPECT_EQ(blamed("input[2047]"), "texts[2047]");
  for (const char* other : {"", "model", "inputs", "input[", "input[]", "input[x]", "input[1",
                            "input[1].text", "input[-1]", "input[99999999999999999999]"})
    EXPECT_EQ(blamed(other), other);
}

}  // namespace
}  // namespace tutti::protocol
