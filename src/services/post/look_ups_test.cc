#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "services/post/target.h"

namespace tutti::post {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LookUpsTest, AnAddressIsItselfAndANameIsAskedFor) {
  std::atomic<int> asked{0};
  LookUps look_ups({.ask = [&](const std::string& host) -> Result<Addresses> {
    ++asked;
    return host == "known" ? Result<Addresses>(Addresses{"192.0.2.1"})
                           : Unavailable("unavailable", "no such host");
  }});
  EXPECT_EQ(*look_ups.Find("127.0.0.1", "t", seconds(5)), Addresses{"127.0.0.1"});
  EXPECT_EQ(*look_ups.Find("::1", "t", seconds(5)), Addresses{"::1"});
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(*look_ups.Find("known", "t", seconds(5)), Addresses{"192.0.2.1"});
  EXPECT_EQ(look_ups.Find("other", "t", seconds(5)).status().message(), "no such host");
  EXPECT_EQ(look_ups.late("t"), 0);
}

TEST(LookUpsTest, TheSystemKnowsThisMachine) {
  LookUps look_ups({});
  const auto found = look_ups.Find("localhost", "t", seconds(30));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->front() == "127.0.0.1" || found->front() == "::1") << found->front();
}

TEST(LookUpsTest, OneThatHangsIsGivenUpAndCountsUntilItEnds) {
  auto released = std::make_shared<std::promise<void>>();
  const std::shared_future<void> release = released->get_future().share();
  {
    LookUps look_ups({.time = milliseconds(30),
                      .most = 2,
                      .ask = [release](const std::string&) -> Result<Addresses> {
                        release.wait();
                        return Addresses{"192.0.2.1"};
                      }});
    EXPECT_NE(look_ups.Find("a", "t", seconds(5)).status().message().find("in time"),
              std::string::npos);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(look_ups.Find("b", "u", milliseconds(1)).ok()) << "what the caller has left";
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
    EXPECT_EQ(look_ups.late("t"), 1);
    EXPECT_EQ(look_ups.late("u"), 1);
    EXPECT_NE(look_ups.Find("c", "v", seconds(5)).status().message().find("too many"),
              std::string::npos);
    EXPECT_EQ(look_ups.late("v"), 0);
    released->set_value();
    for (int i = 0; i < 1000 && look_ups.late("t") + look_ups.late("u") > 0; ++i)
      std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(look_ups.late("t"), 0);
    EXPECT_TRUE(look_ups.Find("d", "t", seconds(5)).ok());
  }
  auto never = std::make_shared<std::promise<void>>();
  {
    LookUps gone(
        {.time = milliseconds(10),
         .ask = [wait = never->get_future().share()](const std::string&) -> Result<Addresses> {
           wait.wait();
           return Addresses{};
         }});
    EXPECT_FALSE(gone.Find("a", "t", seconds(5)).ok());
  }
  never->set_value();  // what is left behind ends by itself
}

}  // namespace
}  // namespace tutti::post
