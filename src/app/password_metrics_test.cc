#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "app/service_metrics.h"
#include "app/store.h"
#include "services/auth/testing/opened_store.h"

namespace tutti::app {
namespace {

using ::testing::HasSubstr;

TEST(PasswordMetricsTest, HashesAreCountedWhereTheyAreComputed) {
  const std::vector<store::Migration> tables = StoreTables();
  const auto store = *store::Store::Open({}, tables);
  const auto accounts = *auth::Accounts::Open(store.get());
  auth::Authenticator::Options options;
  options.hash = auth::testing::kQuick;
  options.pool.threads = 2;
  options.pool.max_waiting = 1000;
  const auto authority = *auth::Authenticator::Create(accounts.get(), options);
  telemetry::MetricsRegistry registry;
  const Collectors metrics = CollectPasswords(registry, *authority);
  EXPECT_THAT(registry.Expose(), HasSubstr("tutti_password_hashes_most_running 0\n"));
  ASSERT_TRUE(authority->HashNewPassword("correct horse battery").ok());
  for (int i = 0; i < 200; ++i) authority->FromPassword("nobody", "wrong", [](const auto&) {});
  std::promise<void> last;
  authority->FromPassword("nobody", std::string(5000, 'x'), [&](const auto&) { last.set_value(); });
  last.get_future().wait();
  while (authority->hash_counts().computed < 201) std::this_thread::yield();
  const std::string text = registry.Expose();
  EXPECT_THAT(text, HasSubstr("tutti_password_hashes_total{outcome=\"computed\"} 201\n"))
      << "one that is too long costs nothing";
  EXPECT_THAT(text, HasSubstr("tutti_password_threads 2\n"));
  EXPECT_THAT(text, HasSubstr("tutti_password_hashes_running 0\n"));
  const int64_t most = authority->hash_counts().max_running;
  EXPECT_TRUE(most == 1 || most == 2) << most;
  EXPECT_THAT(text, HasSubstr("tutti_password_hashes_most_running " + std::to_string(most) + "\n"));
}

}  // namespace
}  // namespace tutti::app
