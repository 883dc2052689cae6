#include "telemetry/recent_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti::telemetry {
namespace {

TEST(RecentErrors, MessagesLoseTheirQuotations) {
  const auto without = [](const char* text) { return WithoutQuotes(text, 200); };
  EXPECT_EQ(without("model \"my model\" is unknown"), "model \"...\" is unknown");
  EXPECT_EQ(without("model 'x' and `y`"), "model '...' and `...`");
  EXPECT_EQ(without("the model's queue isn't empty"), "the model's queue isn't empty");
  EXPECT_EQ(without(R"(a "quoted \" quote" b)"), R"(a "..." b)");
  EXPECT_EQ(without("open \"secret"), "open \"");
  EXPECT_EQ(without("bytes \x01\xff\n"), "bytes ???");
  EXPECT_EQ(without(""), "");
  EXPECT_EQ(WithoutQuotes(std::string(500, 'x'), 200).size(), 200u);
  EXPECT_LE(WithoutQuotes(std::string(199, 'x') + "\"abc\"", 200).size(), 200u);
}

TEST(RecentErrors, ClientsErrorsHaveNoMessage) {
  RecentErrors errors;
  errors.Add({.code = "invalid_value", .status = 400, .message = "temperature is 7"});
  errors.Add({.code = "rate_limit_exceeded", .status = 429, .message = "60 a minute"});
  errors.Add({.code = "internal_error", .status = 500, .message = "the runner failed"});
  const std::vector<RecentError> all = errors.Read();
  ASSERT_EQ(all.size(), 3u);
  for (const RecentError& error : all)
    EXPECT_EQ(error.message.empty(), error.status == 400) << error.code;
}

TEST(RecentErrors, AFloodOfClientsErrorsHidesNoOther) {
  RecentErrors errors;
  errors.Add({.unix_ms = 1, .code = "internal_error", .status = 500});
  for (int i = 2; i < 1000; ++i) errors.Add({.unix_ms = i, .code = "not_found", .status = 404});
  const std::vector<RecentError> all = errors.Read();
  ASSERT_EQ(all.size(), 1 + RecentErrors::kKept);
  EXPECT_EQ(all.front().code, "internal_error");
  EXPECT_EQ(all.back().unix_ms, 999);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i].unix_ms, all[i - 1].unix_ms);
}

}  // namespace
}  // namespace tutti::telemetry
