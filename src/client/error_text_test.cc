#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "client/http_client.h"

namespace tutti::client {
namespace {

std::string TextOf(const char* json) { return ErrorText(boost::json::parse(json)); }

TEST(ErrorTextTest, EveryPublishedFormIsRead) {
  EXPECT_EQ(TextOf(R"({"error":{"message":"out of memory","code":500}})"), "out of memory");
  EXPECT_EQ(TextOf(R"({"error":"model is busy"})"), "model is busy");
  EXPECT_EQ(TextOf(R"({"object":"error","message":"context too long","code":400})"),
            "context too long");
  EXPECT_EQ(TextOf(R"({"detail":"Not Found"})"), "Not Found");
  EXPECT_EQ(TextOf(R"({"error":{"code":5}})"), R"({"code":5})");
}

TEST(ErrorTextTest, AnswersAreNoErrors) {
  EXPECT_EQ(TextOf(R"({"choices":[],"message":"x"})"), "");
  EXPECT_EQ(TextOf(R"({"error":null,"choices":[]})"), "");
  EXPECT_EQ(TextOf("[1]"), "");
  EXPECT_EQ(TextOf("{}"), "");
}

}  // namespace
}  // namespace tutti::client
