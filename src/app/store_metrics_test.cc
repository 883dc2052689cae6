#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/service_metrics.h"
#include "app/store.h"
#include "base/clock.h"
#include "base/log.h"

namespace tutti::app {
namespace {

using ::testing::HasSubstr;

class StoreMetricsTest : public ::testing::Test {
 protected:
  void Record() {
    auto place = ledger_.Open();
    ASSERT_TRUE(place.ok()) << place.status();
    ledger_.Record(*std::move(place), {.tenant = "t", .model = "m"});
    (void)ledger_.Flush();
  }
  void Fail() {
    (void)store_->WriteNow([](store::Database&) { return Unavailable("store_failed", "EIO"); });
  }

  const std::vector<store::Migration> tables_ = StoreTables();
  const std::unique_ptr<store::Store> store_ = *store::Store::Open({}, tables_);
  ManualClock clock_;
  usage::Ledger ledger_{{}, store_.get(), &clock_};
  telemetry::MetricsRegistry registry_;
};

TEST_F(StoreMetricsTest, RowsAreCountedByWhatBecameOfThem) {
  const Collectors metrics = CollectStore(registry_, *store_, ledger_);
  EXPECT_THAT(registry_.Expose(), HasSubstr("tutti_usage_rows_total{outcome=\"lost\"} 0\n"));
  Record();
  auto running = ledger_.Open();
  Fail();
  ledger_.Record(*std::move(running), {.tenant = "t", .model = "m"});
  (void)ledger_.Flush();
  EXPECT_EQ(ledger_.Open().status().reason(), "storage_error");
  const std::string text = registry_.Expose();
  EXPECT_THAT(text, HasSubstr("tutti_usage_rows_total{outcome=\"written\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tutti_usage_rows_total{outcome=\"lost\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tutti_usage_refused_total 1\n"));
  EXPECT_THAT(text, HasSubstr("tutti_usage_rows_waiting 0\n"));
}

TEST_F(StoreMetricsTest, AStoreThatIsFullAndOneThatHasFailedShow) {
  const Collectors metrics = CollectStore(registry_, *store_, ledger_);
  EXPECT_THAT(registry_.Expose(), HasSubstr("tutti_store_failed 0\n"));
  (void)store_->WriteNow([](store::Database&) { return Unavailable("store_full", "no room"); });
  std::string text = registry_.Expose();
  EXPECT_THAT(text, HasSubstr("tutti_store_full 1\n"));
  EXPECT_THAT(text, HasSubstr("tutti_store_errors_total{reason=\"store_full\"} 1\n"));
  Record();
  EXPECT_THAT(registry_.Expose(), HasSubstr("tutti_store_full 0\n"));
  Fail();
  text = registry_.Expose();
  EXPECT_THAT(text, HasSubstr("tutti_store_failed 1\n"));
  EXPECT_THAT(text, HasSubstr("tutti_store_errors_total{reason=\"store_failed\"} 1\n"));
}

class WrittenLines final : public Logger::Sink {
 public:
  void Line(std::string_view line) override { all.emplace_back(line.substr(line.find(' ') + 1)); }
  std::vector<std::string> all;
};

class Well final : public api::HealthProbe {
 public:
  Status started() const override { return OkStatus(); }
  Status live() const override { return OkStatus(); }
  Status ready() const override { return OkStatus(); }
};

// Regression: a failing store was visible in answers only.
TEST_F(StoreMetricsTest, AStoreThatFailsHasALineAndOneWhenItWorksAgainAndIsNotReady) {
  const auto lines = std::make_shared<WrittenLines>();
  Logger log(LogLevel::kInfo, lines);
  const Well well;
  StoreWatch watch(well, *store_, ledger_, clock_, log);
  const auto full = [&] {
    (void)store_->WriteNow([](store::Database&) { return Unavailable("store_full", "no room"); });
    watch.Look();
  };
  watch.Look();
  EXPECT_TRUE(lines->all.empty());
  for (int i = 0; i < 10; ++i) full();
  EXPECT_EQ(lines->all, std::vector<std::string>{"ERROR store.full reason=store_full"});
  EXPECT_TRUE(watch.ready().ok()) << "clients that store nothing are served";
  Record();
  watch.Look();
  EXPECT_EQ(lines->all.size(), 1u) << "something small may fit";
  full();
  Record();
  watch.Look();
  clock_.Advance(StoreWatch::kQuiet);
  watch.Look();
  watch.Look();
  ASSERT_EQ(lines->all.size(), 2u);
  EXPECT_EQ(lines->all[1], "INFO store.works_again");
  Fail();
  watch.Look();
  watch.Look();
  ASSERT_EQ(lines->all.size(), 3u);
  EXPECT_EQ(lines->all[2], "ERROR store.failed reason=store_failed why=EIO");
  EXPECT_EQ(watch.ready().reason(), "storage_error");
  EXPECT_TRUE(watch.live().ok());
}

}  // namespace
}  // namespace tutti::app
