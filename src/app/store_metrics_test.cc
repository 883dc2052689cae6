#include "app/store_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "app/store.h"
#include "base/clock.h"

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
  const StoreMetrics metrics(registry_, ledger_);
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

}  // namespace
}  // namespace tutti::app
