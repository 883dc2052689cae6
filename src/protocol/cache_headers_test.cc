#include "protocol/cache_headers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::protocol {
namespace {

using api::CacheOutcome;
using std::chrono::seconds;

std::string HeadersOf(const std::vector<std::pair<CacheOutcome, Duration>>& outcomes) {
  std::vector<std::shared_ptr<api::CacheReport>> reports;
  for (const auto& [outcome, age] : outcomes) {
    reports.push_back(std::make_shared<api::CacheReport>());
    reports.back()->Set(outcome, age);
  }
  std::vector<std::pair<std::string, std::string>> headers;
  AppendCacheHeaders(reports, &headers);
  std::string all;
  for (const auto& [name, value] : headers) all += name + ": " + value + "\n";
  return all;
}

TEST(CacheHeaders, DirectivesAreReadInAnyOrderAndCase) {
  EXPECT_TRUE(ReadCacheControl("no-store").no_store);
  EXPECT_TRUE(ReadCacheControl(" NO-Cache ").no_cache);
  const api::CacheControl all = ReadCacheControl("max-age=60,private ,\tno-store, no-cache=\"x\"");
  EXPECT_TRUE(all.no_store && all.no_cache);
  EXPECT_EQ(all.max_age, seconds(60));
  EXPECT_EQ(ReadCacheControl("max-age=0").max_age, seconds(0));
  EXPECT_GT(ReadCacheControl("max-age=99999999999999999999999").max_age, seconds(1 << 30));
}

TEST(CacheHeaders, WhatIsNoDirectiveChangesNothing) {
  for (const char* text :
       {"", ",", ",,,", "nostore", "max-age", "max-age=", "max-age=-1",
        "max-age=-9999999999999999999999", "max-age=1x", "=", "no-store2", "x=no-store"}) {
    const api::CacheControl control = ReadCacheControl(text);
    EXPECT_FALSE(control.no_store || control.no_cache || control.max_age.has_value()) << text;
  }
}

TEST(CacheHeaders, ACallIsAHitOnlyIfEachOfItsPromptsWas) {
  EXPECT_EQ(HeadersOf({}), "");
  EXPECT_EQ(HeadersOf({{CacheOutcome::kNone, {}}}), "");
  EXPECT_EQ(HeadersOf({{CacheOutcome::kHit, seconds(3)}}), "x-cache: hit\nAge: 3\n");
  EXPECT_EQ(HeadersOf({{CacheOutcome::kHit, seconds(3)}, {CacheOutcome::kHit, seconds(5)}}),
            "x-cache: hit\nAge: 5\n");
  EXPECT_EQ(HeadersOf({{CacheOutcome::kHit, seconds(3)}, {CacheOutcome::kMiss, {}}}),
            "x-cache: miss\n");
  EXPECT_EQ(HeadersOf({{CacheOutcome::kJoin, {}}, {CacheOutcome::kHit, {}}}), "x-cache: join\n");
  EXPECT_EQ(HeadersOf({{CacheOutcome::kBypass, {}}}), "x-cache: bypass\n");
}

}  // namespace
}  // namespace tutti::protocol
