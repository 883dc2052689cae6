#include "services/auth/accounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "services/auth/testing/opened_store.h"
#include "temp_folder.h"

namespace tutti::auth {
namespace {

using testing::kNow;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr int64_t kDay = 86400;

std::unique_ptr<Accounts> Opened(store::Store* store) {
  auto accounts = Accounts::Open(store);
  CHECK(accounts.ok()) << accounts.status();
  return *std::move(accounts);
}

class AccountsTest : public ::testing::Test {
 protected:
  IssuedKey Create(const std::string& name, std::optional<int64_t> expires_s = {}) {
    auto key = accounts_->CreateKey({.name = name, .grant = {}, .expires_s = expires_s}, kNow);
    CHECK(key.ok()) << key.status();
    return *std::move(key);
  }
  IssuedKey Rotate(const std::string& name, int64_t grace_s, int64_t now_s) {
    auto key = accounts_->RotateKey(name, grace_s, now_s);
    CHECK(key.ok()) << key.status();
    return *std::move(key);
  }
  // "ok", or the reason of the refusal.
  std::string Check(const std::string& text, int64_t now_s = kNow) {
    const auto found = CheckKey(*accounts_->snapshot(), text, now_s);
    return found.ok() ? "ok" : found.status().reason();
  }

  std::unique_ptr<store::Store> store_ = OpenedStore();
  std::unique_ptr<Accounts> accounts_ = Opened(store_.get());
};

TEST_F(AccountsTest, AKeyIsKnownFromTheMomentItIsMade) {
  Grant grant{.tenant = "acme", .scopes = {}, .limits = {}};
  grant.scopes.models = {"m"};
  grant.limits.concurrency = 3;
  const auto key = accounts_->CreateKey({.name = "ci", .grant = grant, .expires_s = {}}, kNow);
  ASSERT_TRUE(key.ok()) << key.status();
  const auto found = CheckKey(*accounts_->snapshot(), key->text, kNow);
  ASSERT_TRUE(found.ok()) << found.status();
  const Principal& who = *(*found)->principal;
  EXPECT_EQ(who.kind, PrincipalKind::kKey);
  EXPECT_EQ(who.id, key->record.id);
  EXPECT_EQ(who.name, "ci");
  EXPECT_EQ(who.grant, grant);
}

TEST_F(AccountsTest, OnlyTheWholeKeyIsTaken) {
  const std::string text = Create("ci").text;
  EXPECT_EQ(Check(text), "ok");
  EXPECT_EQ(Check(""), "invalid_api_key");
  EXPECT_EQ(Check(text + "x"), "invalid_api_key");
  EXPECT_EQ(Check(text.substr(0, text.size() - 1)), "invalid_api_key");
  for (size_t i = 0; i < text.size(); ++i) {
    std::string wrong = text;
    wrong[i] = wrong[i] == 'A' ? 'B' : 'A';
    EXPECT_EQ(Check(wrong), "invalid_api_key") << i;
  }
}

TEST_F(AccountsTest, ARevokedKeyIsRefusedOnceTheCallReturnsAndItsHolderIsToldWhy) {
  const IssuedKey key = Create("ci"), other = Create("other");
  const auto revoked = accounts_->RevokeKeys("ci", kNow);
  ASSERT_TRUE(revoked.ok()) << revoked.status();
  EXPECT_THAT(*revoked, ElementsAre(key.record.id));
  EXPECT_EQ(Check(key.text), "key_revoked");
  EXPECT_EQ(Check(other.text), "ok");
  // A caller with the id but not the key learns nothing about it.
  std::string wrong = key.text;
  wrong.back() = wrong.back() == 'A' ? 'B' : 'A';
  EXPECT_EQ(Check(wrong), "invalid_api_key");
  EXPECT_EQ(accounts_->RevokeKeys("ci", kNow).status().reason(), "not_found");
  EXPECT_TRUE(accounts_->RevokeKeys(other.record.id, kNow).ok()) << "also by id";
  EXPECT_EQ(Check(other.text), "key_revoked");
}

TEST_F(AccountsTest, ListenersRunAfterRevocationHoldsAndBeforeItReturns) {
  const IssuedKey key = Create("ci");
  std::vector<std::string> told;
  auto token = accounts_->Listen([&](const Ended& ended) {
    EXPECT_EQ(ended.kind, PrincipalKind::kKey);
    told.push_back(ended.id + " " + Check(key.text));
  });
  ASSERT_TRUE(accounts_->RevokeKeys("ci", kNow).ok());
  EXPECT_THAT(told, ElementsAre(key.record.id + " key_revoked"));
  token.reset();
  Create("two");
  ASSERT_TRUE(accounts_->RevokeKeys("two", kNow).ok());
  EXPECT_THAT(told, SizeIs(1)) << "who let go of its token hears no more";
}

TEST_F(AccountsTest, AnExpiredKeyIsRefused) {
  const IssuedKey key = Create("ci", kNow + 10);
  EXPECT_EQ(Check(key.text, kNow + 9), "ok");
  EXPECT_EQ(Check(key.text, kNow + 10), "invalid_api_key");
  EXPECT_EQ(accounts_->CreateKey({.name = "late", .grant = {}, .expires_s = kNow}, kNow)
                .status()
                .reason(),
            "invalid_value");
}

TEST_F(AccountsTest, ARotationHasTwoActiveKeysUntilTheFirstEnds) {
  const IssuedKey first = Create("ci");
  const IssuedKey second = Rotate("ci", kDay, kNow);
  EXPECT_EQ(Check(first.text, kNow + kDay - 1), "ok");
  EXPECT_EQ(Check(second.text, kNow + kDay - 1), "ok");
  const auto third = accounts_->RotateKey("ci", kDay, kNow + kDay - 1);
  EXPECT_EQ(third.status().reason(), "two_keys_active");
  EXPECT_THAT(third.status().message(), HasSubstr(first.record.id));
  EXPECT_EQ(Check(first.text, kNow + kDay), "invalid_api_key");
  EXPECT_EQ(Check(second.text, kNow + kDay), "ok");
  EXPECT_EQ(Check(Rotate("ci", kDay, kNow + kDay).text, kNow + kDay), "ok");
  const auto revoked = accounts_->RevokeKeys("ci", kNow + kDay);
  ASSERT_TRUE(revoked.ok());
  EXPECT_THAT(*revoked, SizeIs(2)) << "by its name, all that are active";
}

TEST_F(AccountsTest, ARotatedKeyKeepsWhatItWasGivenAndLivesAsLong) {
  Grant grant{.tenant = "acme", .scopes = {}, .limits = {}};
  grant.scopes.routes = {RouteClass::kEmbed};
  ASSERT_TRUE(
      accounts_->CreateKey({.name = "ci", .grant = grant, .expires_s = kNow + 10 * kDay}, kNow)
          .ok());
  const IssuedKey second = Rotate("ci", 100 * kDay, kNow + 4 * kDay);
  EXPECT_EQ(second.record.grant, grant);
  EXPECT_EQ(second.record.expires_s, kNow + 14 * kDay);
  const auto keys = accounts_->Keys();
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ(keys->front().expires_s, kNow + 10 * kDay) << "a rotation makes no life longer";
}

TEST_F(AccountsTest, ANameOfAnActiveKeyIsNotGivenTwice) {
  Create("ci");
  EXPECT_EQ(
      accounts_->CreateKey({.name = "ci", .grant = {}, .expires_s = {}}, kNow).status().reason(),
      "name_taken");
  ASSERT_TRUE(accounts_->RevokeKeys("ci", kNow).ok());
  Create("ci");
  EXPECT_EQ(accounts_->RotateKey("nobody", kDay, kNow).status().reason(), "not_found");
  EXPECT_EQ(
      accounts_->CreateKey({.name = "a b", .grant = {}, .expires_s = {}}, kNow).status().param(),
      "name");
  EXPECT_EQ(accounts_
                ->CreateKey({.name = "x",
                             .grant = {.tenant = "a/b", .scopes = {}, .limits = {}},
                             .expires_s = {}},
                            kNow)
                .status()
                .param(),
            "tenant");
}

// Regression: a key whose name was the id of another one was revoked when that was revoked again.
TEST_F(AccountsTest, TheIdOfAKeyNamesNoOtherKey) {
  const std::string id = Create("ci").record.id;
  const auto made = accounts_->CreateKey({.name = id, .grant = {}, .expires_s = {}}, kNow);
  EXPECT_EQ(made.status().reason(), "name_taken");
  EXPECT_EQ(*accounts_->RevokeKeys(id, kNow), std::vector<std::string>{id});
  Create("other");
  EXPECT_EQ(accounts_->RevokeKeys(id, kNow).status().reason(), "not_found");
  EXPECT_EQ(accounts_->RevokeKeys("other", kNow)->size(), 1u);
}

TEST_F(AccountsTest, KeysThatEndedLongAgoAreForgottenWhenOneIsMade) {
  const IssuedKey gone = Create("gone"), expired = Create("expired", kNow + 1), kept = Create("k");
  ASSERT_TRUE(accounts_->RevokeKeys("gone", kNow).ok());
  const int64_t later = kNow + kKeptAfterEndS + 2;
  ASSERT_TRUE(accounts_->CreateKey({.name = "new", .grant = {}, .expires_s = {}}, later).ok());
  EXPECT_EQ(Check(gone.text, later), "invalid_api_key");
  EXPECT_EQ(Check(kept.text, later), "ok");
  EXPECT_THAT(*accounts_->Keys(), SizeIs(2));
}

TEST_F(AccountsTest, TheStoreHoldsABoundedNumberOfKeys) {
  ASSERT_TRUE(store_
                  ->WriteNow([](store::Database& database) -> Status {
                    return database.Execute(
                        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<" +
                        std::to_string(kMaxKeys) +
                        ") INSERT INTO api_key(id, name, digest, tenant, scopes, limits, "
                        "created_s) SELECT i, 'n'||i, zeroblob(32), 't', '{}', '{}', 0 FROM n");
                  })
                  .ok());
  EXPECT_EQ(
      accounts_->CreateKey({.name = "one", .grant = {}, .expires_s = {}}, kNow).status().reason(),
      "too_many_keys");
}

TEST_F(AccountsTest, TheLastUseIsNotedOnceAMinute) {
  const IssuedKey key = Create("ci");
  const auto used = [&] { return accounts_->Keys()->front().used_s; };
  const auto note = [&](int64_t now_s) {
    const SnapshotRef snapshot = accounts_->snapshot();
    accounts_->NoteUse(*snapshot->FindKey(key.record.id), now_s);
  };
  EXPECT_FALSE(used().has_value());
  note(kNow);
  EXPECT_EQ(used(), kNow);
  note(kNow + 59);
  EXPECT_EQ(used(), kNow);
  note(kNow + 60);
  EXPECT_EQ(used(), kNow + 60);
}

TEST_F(AccountsTest, UsersAreThereUntilTheyAreRemoved) {
  std::vector<std::string> told;
  const auto token = accounts_->Listen([&](const Ended& ended) {
    EXPECT_EQ(ended.kind, PrincipalKind::kUser);
    told.push_back(ended.id);
  });
  const UserRecord ann{.name = "ann", .password_hash = "h", .grant = {}, .created_s = kNow};
  ASSERT_TRUE(accounts_->CreateUser(ann).ok());
  EXPECT_EQ(accounts_->CreateUser(ann).reason(), "name_taken");
  const UserRecord bad{.name = "a b", .password_hash = "h", .grant = {}};
  EXPECT_EQ(accounts_->CreateUser(bad).param(), "name");
  ASSERT_NE(accounts_->snapshot()->FindUser("ann"), nullptr);
  EXPECT_EQ(accounts_->snapshot()->FindUser("Ann"), nullptr);
  EXPECT_THAT(told, IsEmpty());
  ASSERT_TRUE(accounts_->EnableUser("ann", false).ok());
  EXPECT_FALSE(accounts_->snapshot()->FindUser("ann")->enabled);
  ASSERT_TRUE(accounts_->EnableUser("ann", true).ok());
  ASSERT_TRUE(accounts_->ChangePassword("ann", "g").ok());
  EXPECT_EQ(accounts_->snapshot()->FindUser("ann")->password_hash, "g");
  ASSERT_TRUE(accounts_->RemoveUser("ann").ok());
  EXPECT_EQ(accounts_->snapshot()->FindUser("ann"), nullptr);
  EXPECT_THAT(told, ElementsAre("ann", "ann", "ann")) << "disabled, changed, removed";
  EXPECT_EQ(accounts_->RemoveUser("ann").reason(), "not_found");
  EXPECT_EQ(accounts_->EnableUser("ann", true).reason(), "not_found");
  EXPECT_EQ(accounts_->ChangePassword("ann", "g").reason(), "not_found");
}

// From now on each change of a key or a user needs free pages.
void NeedRoom(store::Store& store) {
  const Status status = store.WriteNow([](store::Database& database) {
    return database.Execute(
        "CREATE TABLE ballast(filler BLOB);"
        "CREATE TRIGGER key_changed AFTER UPDATE ON api_key BEGIN"
        " INSERT INTO ballast VALUES(zeroblob(1000000)); END;"
        "CREATE TRIGGER user_changed AFTER UPDATE ON account BEGIN"
        " INSERT INTO ballast VALUES(zeroblob(1000000)); END");
  });
  CHECK(status.ok()) << status;
}
void SetRoom(store::Store& store, const std::string& pages) {  // no fewer than there are
  const Status status = store.ReadNow([&](store::Database& database) {
    return database.Execute("PRAGMA max_page_count=" + pages);
  });
  CHECK(status.ok()) << status;
}

// Regression: on a full disk a leaked key stayed valid until somebody freed space.
TEST_F(AccountsTest, RevocationOnAFullDiskHoldsAtOnceAndIsStoredLater) {
  const auto serving = *Accounts::Open(store_.get(), /*serving=*/true);
  const IssuedKey key = *serving->CreateKey({.name = "ci", .grant = {}, .expires_s = {}}, kNow);
  ASSERT_TRUE(serving->CreateUser({.name = "ann", .password_hash = "h", .grant = {}}).ok());
  std::vector<std::string> told;
  const auto listening = serving->Listen([&](const Ended& ended) { told.push_back(ended.id); });
  NeedRoom(*store_);
  SetRoom(*store_, "1");
  EXPECT_EQ(accounts_->RevokeKeys("ci", kNow).status().reason(), "store_full")
      << "nobody is kept out by a process that lets nobody in";

  const auto revoked = serving->RevokeKeys("ci", kNow);
  ASSERT_TRUE(revoked.ok()) << revoked.status();
  EXPECT_THAT(*revoked, ElementsAre(key.record.id));
  ASSERT_TRUE(serving->EnableUser("ann", false).ok());
  EXPECT_THAT(told, ElementsAre(key.record.id, "ann"));
  const auto shut_out = [&] {
    const SnapshotRef snapshot = serving->snapshot();
    return CheckKey(*snapshot, key.text, kNow).status().reason() == "key_revoked" &&
           !snapshot->FindUser("ann")->enabled;
  };
  EXPECT_TRUE(shut_out());
  EXPECT_TRUE(serving->unwritten());
  EXPECT_EQ(serving->RevokeKeys("ci", kNow).status().reason(), "not_found") << "it is no key now";
  serving->WriteUnwritten();
  SetRoom(*store_, "1000000");
  EXPECT_TRUE(serving->unwritten()) << "it was tried before there was room";
  ASSERT_TRUE(serving->CreateKey({.name = "other", .grant = {}, .expires_s = {}}, kNow).ok());
  EXPECT_TRUE(shut_out()) << "also in what is read anew";

  serving->WriteUnwritten();
  EXPECT_TRUE(store_->ReadNow([](store::Database&) { return OkStatus(); }).ok());
  EXPECT_FALSE(serving->unwritten());
  EXPECT_TRUE(shut_out());
  const auto next = *Accounts::Open(store_.get());
  EXPECT_EQ(CheckKey(*next->snapshot(), key.text, kNow).status().reason(), "key_revoked");
  EXPECT_FALSE(next->snapshot()->FindUser("ann")->enabled);
}

TEST_F(AccountsTest, AUserWhoWasDisabledOnAFullDiskMayBeLetInAgain) {
  const auto serving = *Accounts::Open(store_.get(), /*serving=*/true);
  ASSERT_TRUE(serving->CreateUser({.name = "ann", .password_hash = "h", .grant = {}}).ok());
  NeedRoom(*store_);
  SetRoom(*store_, "1");
  ASSERT_TRUE(serving->EnableUser("ann", false).ok());
  EXPECT_EQ(serving->EnableUser("ann", true).reason(), "store_full");
  EXPECT_FALSE(serving->snapshot()->FindUser("ann")->enabled) << "what was refused changed nothing";
  SetRoom(*store_, "1000000");
  ASSERT_TRUE(serving->EnableUser("ann", true).ok());
  EXPECT_TRUE(serving->snapshot()->FindUser("ann")->enabled);
  EXPECT_FALSE(serving->unwritten());
}

TEST_F(AccountsTest, ARehashThatWasOvertakenByANewPasswordChangesNothing) {
  const UserRecord ann{.name = "ann", .password_hash = "old", .grant = {}};
  ASSERT_TRUE(accounts_->CreateUser(ann).ok());
  ASSERT_TRUE(accounts_->ChangePassword("ann", "new").ok());
  accounts_->Rehash("ann", "old", "old again");
  EXPECT_EQ(accounts_->Users()->front().password_hash, "new");
  accounts_->Rehash("ann", "new", "new again");
  EXPECT_EQ(accounts_->Users()->front().password_hash, "new again");
  EXPECT_EQ(accounts_->snapshot()->FindUser("ann")->password_hash, "new again");
}

// While one thread makes and revokes keys, what the others read is always one state or the next.
TEST_F(AccountsTest, ReadersNeverSeeHalfAChange) {
  const IssuedKey stays = Create("stays");
  std::atomic<bool> stop = false;
  std::atomic<int> reads = 0, wrong = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const SnapshotRef snapshot = accounts_->snapshot();
        if (!CheckKey(*snapshot, stays.text, kNow).ok() || snapshot->keys.size() > 51) ++wrong;
        ++reads;
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const std::string text = Create("k" + std::to_string(i)).text;
    ASSERT_EQ(Check(text), "ok");
    ASSERT_TRUE(accounts_->RevokeKeys("k" + std::to_string(i), kNow).ok());
    ASSERT_EQ(Check(text), "key_revoked");
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(reads, 0);
}

std::string BytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(AccountsOnDisk, NoFileOfTheStoreHoldsASecret) {
  const support::TempFolder folder;
  std::vector<IssuedKey> keys;
  {
    const auto store = OpenedStore(folder.path());
    const auto accounts = Opened(store.get());
    for (int i = 0; i < 20; ++i) {
      auto key = accounts->CreateKey(
          {.name = "name-of-key-" + std::to_string(i), .grant = {}, .expires_s = {}}, kNow);
      ASSERT_TRUE(key.ok());
      keys.push_back(*std::move(key));
    }
    ASSERT_TRUE(accounts->RotateKey("name-of-key-3", kDay, kNow).ok());
    ASSERT_TRUE(accounts->RevokeKeys("name-of-key-4", kNow).ok());
    // Also checks the open database's log file.
    bool name_found = false;
    for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
      const std::string bytes = BytesOf(file.path());
      name_found = name_found || bytes.find("name-of-key-7") != std::string::npos;
      for (const IssuedKey& key : keys)
        EXPECT_EQ(bytes.find(key.text.substr(19)), std::string::npos) << file.path();
    }
    EXPECT_TRUE(name_found) << "the scan reads what is written";
  }
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    const std::string bytes = BytesOf(file.path());
    for (const IssuedKey& key : keys)
      EXPECT_EQ(bytes.find(key.text.substr(19)), std::string::npos) << file.path();
  }
}

TEST(AccountsOnDisk, ARevocationThatWasAcknowledgedSurvivesSigkill) {
  const support::TempFolder folder;
  std::string text;
  {
    const auto store = OpenedStore(folder.path());
    auto key = Opened(store.get())->CreateKey({.name = "ci", .grant = {}, .expires_s = {}}, kNow);
    ASSERT_TRUE(key.ok());
    text = key->text;
  }
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const auto store = OpenedStore(folder.path());
    const auto accounts = Opened(store.get());
    if (accounts->RevokeKeys("ci", kNow).ok()) (void)!write(told[1], "y", 1);
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(told[0], &answer, 1), 1);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  const auto store = OpenedStore(folder.path());
  const auto accounts = Opened(store.get());
  EXPECT_EQ(CheckKey(*accounts->snapshot(), text, kNow).status().reason(), "key_revoked");
  close(told[0]);
  close(told[1]);
}

TEST(AccountsOnDisk, TheTablesCanBeTakenBack) {
  auto database = store::Database::Open("");
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE(store::Migrate({&kAuthTables, 1}, &*database).ok());
  ASSERT_TRUE(LoadKeys(*database).ok());
  ASSERT_TRUE(store::Migrate({}, &*database).ok());
  auto tables = database->Prepare("SELECT count(*) FROM sqlite_master WHERE name='api_key'");
  ASSERT_TRUE(tables.ok());
  ASSERT_TRUE(tables->Step().ok());
  EXPECT_EQ(tables->Int(0), 0);
}

}  // namespace
}  // namespace tutti::auth
