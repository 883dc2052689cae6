#include "services/usage/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <string>

#include "protocol/control.h"
#include "protocol/json/json.h"
#include "services/usage/ledger_rows.h"

namespace tutti::usage {
namespace {

using ::testing::HasSubstr;

class UsageControlTest : public ::testing::Test {
 protected:
  UsageControlTest() {
    const std::array tables = {kLedgerTable};
    store_ = *store::Store::Open({}, tables);
    EXPECT_TRUE(store_
                    ->WriteNow([](store::Database& rows) -> Status {
                      for (int i = 0; i < kRows; ++i) RETURN_IF_ERROR(InsertRow(rows, RowOf(i)));
                      return OkStatus();
                    })
                    .ok());
  }
  static Row RowOf(int i) {
    return {.time_ms = 1000 + i / 3,  // several share a millisecond
            .tenant = "acme",
            .key_id = i % 2 == 0 ? "key:a" : "key:b",
            .model = "m",
            .route = "chat",
            .outcome = "ok",
            .prompt_tokens = i,
            .cached_tokens = i / 2,
            .output_tokens = 1};
  }
  std::string Ask(std::string_view request) {
    const auto names = []() -> Result<std::map<std::string, std::string>> {
      return std::map<std::string, std::string>{{"key:a", "robot"}, {"key:c", "unused"}};
    };
    return protocol::ControlLine(HandleControl(*store_, names, request));
  }
  // All pages of an export.
  std::string Export(const std::string& form, const std::string& more) {
    std::string lines;
    int64_t after_ms = 0, after_id = 0;
    for (int page = 0; page < 100; ++page) {
      const std::string answer =
          Ask(R"({"op":"usage.rows","form":")" + form + R"(","after_ms":)" +
              std::to_string(after_ms) + R"(,"after_id":)" + std::to_string(after_id) + more + "}");
      const auto document = protocol::ParseJson(answer);
      const protocol::JsonObject& object = document->root().get_object();
      if (object.at("rows").get_int64() == 0) return lines;
      lines += std::string_view(object.at("lines").get_string());
      after_ms = object.at("after_ms").get_int64();
      after_id = object.at("after_id").get_int64();
    }
    ADD_FAILURE() << "an export without an end";
    return lines;
  }

  static constexpr int kRows = 1700;
  std::unique_ptr<store::Store> store_;
};

TEST_F(UsageControlTest, PagesHoldEveryRowOnceInBothForms) {
  std::string json, csv;
  for (int i = 0; i < kRows; ++i) {
    AppendJsonLine(RowOf(i), &json);
    AppendCsvLine(RowOf(i), &csv);
  }
  EXPECT_EQ(Export("json", ""), json);
  EXPECT_EQ(Export("csv", ""), csv);
}

TEST_F(UsageControlTest, AStretchIsHalfOpen) {
  std::string wanted;
  for (int i = 3; i < 9; ++i) AppendJsonLine(RowOf(i), &wanted);
  EXPECT_EQ(Export("json", R"(,"from_ms":1001,"to_ms":1003)"), wanted);
}

TEST_F(UsageControlTest, SumsAreOfTheRows) {
  const std::string sums = Ask(R"({"op":"usage.sums","by":"key"})");
  EXPECT_THAT(sums, HasSubstr(R"("group":"key:a","name":"robot","requests":850)"));
  EXPECT_THAT(sums, HasSubstr(R"("group":"key:b","requests":850)"));
  EXPECT_THAT(Ask(R"({"op":"usage.sums","by":"day"})"),
              HasSubstr(R"("group":"1970-01-01","requests":1700)"));
}

TEST_F(UsageControlTest, WhatIsNoRequestIsRefused) {
  for (const char* bad :
       {"", "[]", "{}", R"({"op":"usage.none"})", R"({"op":"usage.sums"})",
        R"({"op":"usage.sums","by":"colour"})", R"({"op":"usage.rows","form":"xml"})",
        R"({"op":"usage.rows","form":"csv","from_ms":-1})",
        R"({"op":"usage.rows","form":"csv","after_id":"x"})"}) {
    EXPECT_THAT(Ask(bad), HasSubstr(R"({"ok":false,"code":)")) << bad;
  }
  EXPECT_THAT(Ask(std::string(5000, ' ')), HasSubstr("request_too_large"));
  EXPECT_TRUE(IsUsageRequest(R"({"op":"usage.sums"})"));
  EXPECT_FALSE(IsUsageRequest(R"({"op":"keys.list"})"));
  EXPECT_FALSE(IsUsageRequest("usage."));
}

}  // namespace
}  // namespace tutti::usage
