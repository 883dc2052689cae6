#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "app/control.h"
#include "services/auth/control.h"
#include "services/auth/testing/opened_store.h"

namespace tutti::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class LinesOfOperators final : public Logger::Sink {
 public:
  void Line(std::string_view line) override { all.emplace_back(line.substr(line.find(' ') + 1)); }
  std::vector<std::string> Take() { return std::exchange(all, {}); }

 private:
  std::vector<std::string> all;
};

class OperatorLogTest : public ::testing::Test {
 protected:
  Result<std::string> Ask(const std::string& request, std::string_view by = "key:boss") {
    return operators_.Answer(request, by, [this](std::string_view asked) -> Result<std::string> {
      if (asked.find("jobs.") != std::string_view::npos)
        return NotFound("not_found", "there is no such job");
      return auth::HandleControl(*authority_, asked, auth::testing::kNow);
    });
  }
  bool Answered(const std::string& request) { return Ask(request).ok(); }

  std::shared_ptr<LinesOfOperators> lines_ = std::make_shared<LinesOfOperators>();
  Logger log_{LogLevel::kInfo, lines_};
  std::unique_ptr<store::Store> store_ = auth::OpenedStore();
  std::unique_ptr<auth::Accounts> accounts_ = *auth::Accounts::Open(store_.get());
  std::unique_ptr<auth::Authenticator> authority_ = *auth::Authenticator::Create(
      accounts_.get(),
      {.configured_key = "", .issuers = {}, .hash = auth::testing::kQuick, .pool = {}});
  OperatorLog operators_{*authority_, &log_};
};

TEST_F(OperatorLogTest, NamesWhoChangedAnAccount) {
  const auto made = Ask(R"({"op":"keys.create","name":"ci","tenant":"acme"})");
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string id = accounts_->snapshot()->keys.begin()->first;
  EXPECT_THAT(lines_->Take(), ElementsAre("INFO accounts.changed op=keys.create name=ci id=" + id +
                                              " tenant=acme result=ok by=key:boss",
                                          HasSubstr("auth.closed")));
  EXPECT_FALSE(Ask(R"({"op":"keys.revoke","key":"nobody"})", "control").ok());
  EXPECT_THAT(lines_->Take(), ElementsAre("INFO accounts.changed op=keys.revoke name=nobody id=- "
                                          "tenant=- result=not_found by=control"));
  EXPECT_TRUE(Answered(R"({"op":"keys.update","key":"ci","limits":{"concurrency":1}})"));
  EXPECT_THAT(lines_->Take(), ElementsAre(HasSubstr("op=keys.update name=ci")));
  EXPECT_TRUE(Answered(R"({"op":"keys.list"})"));
  EXPECT_THAT(lines_->Take(), IsEmpty()) << "a list changes nothing";
}

TEST_F(OperatorLogTest, HasNoSecret) {
  const auto made = Ask(R"({"op":"keys.create","name":"ci"})");
  ASSERT_TRUE(made.ok()) << made.status();
  const size_t at = made->find("tutti-");
  const std::string secret = made->substr(at, made->find('"', at) - at);
  EXPECT_FALSE(Answered(R"({"op":"keys.revoke","key":")" + secret + "\"}")) << "this is no name";
  EXPECT_TRUE(Answered(R"({"op":"users.create","name":"ann","password":"correct horse"})"));
  for (const std::string& line : lines_->Take()) {
    EXPECT_THAT(line, Not(HasSubstr(secret.substr(secret.rfind('-')))));
    EXPECT_THAT(line, Not(HasSubstr("horse")));
  }
}

TEST_F(OperatorLogTest, NamesWhoChangedAJob) {
  EXPECT_EQ(Ask(R"({"op":"jobs.cancel","id":"job_1"})").status().reason(), "not_found");
  EXPECT_THAT(lines_->Take(), ElementsAre("INFO jobs.changed op=jobs.cancel id=job_1 tenant=- "
                                          "result=not_found by=key:boss"));
  EXPECT_FALSE(Answered(R"({"op":"jobs.cancel","id":"a\nb"})"));
  EXPECT_THAT(lines_->Take(), ElementsAre(HasSubstr(" id=- ")));
  EXPECT_FALSE(Answered(R"({"op":"jobs.list"})"));
  EXPECT_FALSE(Answered(R"({"op":"jobs.show","id":"job_1"})"));
  EXPECT_THAT(lines_->Take(), IsEmpty());
}

TEST_F(OperatorLogTest, WhatIsNoRequestIsAnsweredAndNotLogged) {
  for (const std::string request : {"", "[]", "{", R"({"op":7})", R"({"op":"keys"})"})
    EXPECT_FALSE(Ask(request).ok()) << request;
  EXPECT_THAT(lines_->Take(), IsEmpty());
}

}  // namespace
}  // namespace tutti::app
