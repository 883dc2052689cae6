#include "services/idempotency/keys.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "temp_folder.h"

namespace tutti::idempotency {
namespace {

class IdempotencyKeysTest : public ::testing::Test {
 protected:
  void Open(const std::string& folder = "") {
    keys_.reset();
    store_.reset();
    auto store = store::Store::Open({.folder = folder}, std::vector<store::Migration>{kKeyTables});
    CHECK(store.ok()) << store.status();
    store_ = *std::move(store);
    keys_ = std::make_unique<IdempotencyKeys>(options_, *store_, [this] { return now_ms_.load(); });
  }
  // The outcome after the store has finished all work.
  struct Outcome {
    int told = 0;
    Status status;
    IdempotencyKeys::Found found;
    std::string text() const {
      if (told == 0) return "waits";
      if (!status.ok()) return status.reason();
      return found.kept != nullptr ? "kept " + found.kept->body : "turn";
    }
  };
  std::shared_ptr<Outcome> Ask(const std::string& key, const std::string& print = "p",
                               const std::string& tenant = "t") {
    auto outcome = std::make_shared<Outcome>();
    keys_->Ask({tenant, "POST", "/v1/embeddings", key, print},
               [outcome](Result<IdempotencyKeys::Found> found) {
                 ++outcome->told;
                 if (!found.ok()) {
                   outcome->status = found.status();
                 } else {
                   outcome->found = *std::move(found);
                 }
               });
    Settle();
    return outcome;
  }
  void Settle() {
    ASSERT_TRUE(store_->ReadNow([](store::Database&) { return OkStatus(); }).ok());
  }
  std::string Answered(const std::string& key, const std::string& body) {
    const auto asked = Ask(key);
    if (asked->found.turn == nullptr) return asked->text();
    asked->found.turn->Answer({200, "", body});
    Settle();
    return "computed";
  }

  IdempotencyKeys::Options options_;
  std::atomic<int64_t> now_ms_{1'000'000};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<IdempotencyKeys> keys_;
};

TEST_F(IdempotencyKeysTest, WhatWasAnsweredIsGivenAgainUnlessItsBodyIsAnother) {
  Open();
  EXPECT_EQ(Answered("k", "one"), "computed");
  EXPECT_EQ(Ask("k")->text(), "kept one");
  EXPECT_EQ(Ask("k", "q")->text(), "idempotency_key_mismatch");
  EXPECT_EQ(Ask("other")->text(), "turn");
  EXPECT_EQ(Ask("k", "p", "u")->text(), "turn") << "another tenant's key";
  now_ms_ += options_.limits.ttl_ms;
  EXPECT_EQ(Ask("k")->text(), "turn") << "a day later";
}

TEST_F(IdempotencyKeysTest, WhoComesMeanwhileWaitsForTheAnswer) {
  Open();
  const auto first = Ask("k"), second = Ask("k"), third = Ask("k");
  ASSERT_EQ(first->text(), "turn");
  EXPECT_EQ(second->text(), "waits");
  EXPECT_EQ(Ask("k", "q")->text(), "idempotency_key_mismatch");
  first->found.turn->Answer({200, "", "one"});
  EXPECT_EQ(second->text(), "kept one") << "at once";
  EXPECT_EQ(third->text(), "kept one");
  EXPECT_EQ(second->told, 1);
}

TEST_F(IdempotencyKeysTest, ATurnThatEndsWithoutAnAnswerPassesOn) {
  Open();
  auto first = Ask("k"), second = Ask("k"), third = Ask("k");
  first->found.turn.reset();
  EXPECT_EQ(second->text(), "turn");
  EXPECT_EQ(third->text(), "waits");
  second->found.turn.reset();
  EXPECT_EQ(third->text(), "turn");
  third->found.turn.reset();
  EXPECT_EQ(Ask("k")->text(), "turn") << "and is forgotten when nobody is left";
}

TEST_F(IdempotencyKeysTest, ADeclinedTurnFreesItsKeyBeforeItIsDestroyed) {
  Open();
  const auto first = Ask("k"), second = Ask("k");
  first->found.turn->Decline();
  EXPECT_EQ(second->text(), "turn");
  second->found.turn->Decline();
  EXPECT_EQ(Ask("k", "another body")->text(), "turn");
}

TEST_F(IdempotencyKeysTest, AStreamIsWaitedForByNobodyAndKeptForNobody) {
  Open();
  auto first = Ask("k"), second = Ask("k");
  first->found.turn->Streams();
  EXPECT_EQ(second->text(), "idempotency_in_progress");
  EXPECT_EQ(second->status.retry_after(), std::chrono::milliseconds(1000));
  EXPECT_EQ(Ask("k")->text(), "idempotency_in_progress");
  EXPECT_EQ(Ask("k", "q")->text(), "idempotency_key_mismatch");
  first->found.turn.reset();
  EXPECT_EQ(Ask("k")->text(), "turn");
}

TEST_F(IdempotencyKeysTest, NoMoreWaitThanMay) {
  options_.waiting = 1;
  Open();
  const auto first = Ask("k"), second = Ask("k");
  EXPECT_EQ(second->text(), "waits");
  EXPECT_EQ(Ask("k")->text(), "idempotency_in_progress");
}

TEST_F(IdempotencyKeysTest, ItOutlivesTheProcess) {
  const support::TempFolder folder;
  Open(folder.path());
  EXPECT_EQ(Answered("k", "one"), "computed");
  auto cut = Ask("cut");
  EXPECT_EQ(cut->text(), "turn");
  cut.reset();
  Open(folder.path());
  EXPECT_EQ(Ask("k")->text(), "kept one");
  EXPECT_EQ(Ask("k", "q")->text(), "idempotency_key_mismatch");
  EXPECT_EQ(Ask("cut")->text(), "turn") << "what had no answer is computed again";
}

TEST_F(IdempotencyKeysTest, WhatCannotBeKeptIsGivenAllTheSame) {
  options_.limits.answer_bytes = 10;
  Open();
  const auto first = Ask("k"), second = Ask("k");
  first->found.turn->Answer({200, "", "longer than that"});
  EXPECT_EQ(second->text(), "kept longer than that");
  EXPECT_EQ(Ask("k")->text(), "turn");
  EXPECT_EQ(keys_->counts().unkept, 1u);
  EXPECT_EQ(Answered("j", "fits"), "computed");
  EXPECT_EQ(keys_->counts().kept, 1u);
}

TEST_F(IdempotencyKeysTest, AFullDiskHindersNoAnswer) {
  Open();
  EXPECT_EQ(Answered("before", "one"), "computed");
  ASSERT_TRUE(
      store_->ReadNow([](store::Database& rows) { return rows.Execute("PRAGMA max_page_count=1"); })
          .ok());  // it is never less than there are
  const std::string body(100'000, 'x');
  const auto first = Ask("k"), second = Ask("k");
  ASSERT_EQ(first->text(), "turn");
  first->found.turn->Answer({200, "", body});
  EXPECT_EQ(second->text(), "kept " + body);
  Settle();
  EXPECT_EQ(keys_->counts().unkept, 1u);
  EXPECT_EQ(Ask("k")->text(), "turn");
  EXPECT_EQ(Ask("before")->text(), "kept one");
}

TEST_F(IdempotencyKeysTest, WhatIsTooOldGoesFromTheStore) {
  Open();
  EXPECT_EQ(Answered("k", "one"), "computed");
  now_ms_ += options_.limits.ttl_ms;
  keys_->Expire();
  int64_t rows = -1;
  ASSERT_TRUE(store_
                  ->ReadNow([&](store::Database& database) -> Status {
                    ASSIGN_OR_RETURN(store::Statement row,
                                     database.Prepare("SELECT count(*) FROM repeat"));
                    ASSIGN_OR_RETURN(const bool found, row.Step());
                    if (found) rows = row.Int(0);
                    return OkStatus();
                  })
                  .ok());
  EXPECT_EQ(rows, 0);
}

}  // namespace
}  // namespace tutti::idempotency
