// `tutti keys` and `tutti users` as typed: on a free store, and through the control socket of a
// process that holds the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "app/control.h"
#include "app/store.h"
#include "cli/command_line.h"
#include "protocol/control.h"
#include "server/control/control_server.h"
#include "services/auth/authenticator.h"
#include "services/auth/testing/opened_store.h"
#include "services/usage/ledger_rows.h"
#include "store/store.h"
#include "temp_folder.h"

namespace tutti::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string out, err;
};

// Standard input is `input` for the length of it.
class Input {
 public:
  explicit Input(const std::string& input) : before_(dup(STDIN_FILENO)) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], input.data(), input.size()) == static_cast<ssize_t>(input.size()));
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
  }
  ~Input() {
    dup2(before_, STDIN_FILENO);
    close(before_);
  }

 private:
  const int before_;
};

// A process that has the store and answers, as a server does.
struct Holder {
  explicit Holder(const std::string& folder)
      : store(*store::Store::Open({.folder = folder}, app::StoreTables())),
        accounts(*auth::Accounts::Open(store.get())),
        authority(*auth::Authenticator::Create(accounts.get(), QuickHashes())) {}
  static auth::Authenticator::Options QuickHashes() {
    auth::Authenticator::Options options;
    options.hash = auth::testing::kQuick;
    options.pool.nice = 0;
    return options;
  }
  void Listen(const std::string& folder) {
    auto opened = control::ControlServer::Open(folder, [this](std::string_view request) {
      return protocol::ControlLine(app::AnswerControl(*store, *authority, request));
    });
    CHECK(opened.ok()) << opened.status();
    server = *std::move(opened);
  }
  bool Accepts(const std::string& key) const {
    return authority->FromBearer(key, std::time(nullptr)).ok();
  }
  bool LetsIn(const std::string& name, const std::string& password) const {
    std::promise<bool> answer;
    authority->FromPassword(
        name, password, [&](const Result<auth::PrincipalRef>& who) { answer.set_value(who.ok()); });
    return answer.get_future().get();
  }

  std::unique_ptr<store::Store> store;
  std::unique_ptr<auth::Accounts> accounts;
  std::unique_ptr<auth::Authenticator> authority;
  std::unique_ptr<control::ControlServer> server;
};

// Each test runs twice: the command opens the store itself, or a server (Holder) has the store open
// and answers.
class KeysTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) return;
    holder_ = std::make_unique<Holder>(Folder());
    holder_->Listen(Folder());
  }
  std::string Folder() const { return folder_.File("store"); }
  Outcome Run(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), "tutti");
    arguments.insert(arguments.end(), {"--store", Folder()});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const Input standard_input(input);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Outcome outcome;
    outcome.status = Main(static_cast<int>(arguments.size()), argv.data());
    std::fflush(stdout);
    outcome.out = ::testing::internal::GetCapturedStdout();
    outcome.err = ::testing::internal::GetCapturedStderr();
    return outcome;
  }
  // Runs `question` on the store's owner: the running Holder, or one opened for this call.
  template <typename Question>
  bool Ask(Question question) {
    if (holder_ != nullptr) return question(*holder_);
    return question(Holder(Folder()));
  }

  support::TempFolder folder_;
  std::unique_ptr<Holder> holder_;
};

INSTANTIATE_TEST_SUITE_P(Store, KeysTest, ::testing::Bool(), [](const auto& param) {
  return param.param ? "ThroughTheSocket" : "Alone";
});

TEST_P(KeysTest, AKeyIsMadeListedRotatedAndRevoked) {
  const Outcome made = Run({"keys", "create", "--tenant", "acme", "--routes", "embed,tokenize",
                            "ci", "--expires", "30d"});
  ASSERT_EQ(made.status, 0) << made.err;
  ASSERT_TRUE(made.out.ends_with('\n'));
  const std::string key = made.out.substr(0, made.out.size() - 1);
  EXPECT_EQ(key.size(), auth::kKeyChars) << "nothing else on standard output";
  EXPECT_THAT(made.err, HasSubstr("shown this once"));
  EXPECT_THAT(made.err, HasSubstr("without a key or a user are refused from now on"));
  EXPECT_THAT(made.err, Not(HasSubstr(key)));
  EXPECT_TRUE(Ask([&](const Holder& holder) { return holder.Accepts(key); }));

  const Outcome list = Run({"keys", "list"});
  EXPECT_THAT(list.out, StartsWith("NAME  ID"));
  for (const char* part : {"ci", "active", "acme", "embed,tokenize"})
    EXPECT_THAT(list.out, HasSubstr(part));

  const Outcome updated = Run({"keys", "update", "ci", "--requests-per-minute", "7"});
  ASSERT_EQ(updated.status, 0) << updated.err;
  EXPECT_THAT(updated.out, HasSubstr("requests_per_minute=7"));
  EXPECT_NE(Run({"keys", "update", "ci"}).status, 0) << "nothing would change";
  EXPECT_EQ(Run({"keys", "update", "nobody", "--concurrency", "1"}).status, 1);

  const Outcome second = Run({"keys", "rotate", "ci", "--grace", "1h"});
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_EQ(Run({"keys", "rotate", "ci"}).status, 1);

  const Outcome revoked = Run({"keys", "revoke", "ci"});
  ASSERT_EQ(revoked.status, 0) << revoked.err;
  EXPECT_THAT(revoked.out, HasSubstr("revoked " + key.substr(6, 12)));
  EXPECT_THAT(revoked.err, HasSubstr("No active key is left"));
  EXPECT_FALSE(Ask([&](const Holder& holder) { return holder.Accepts(key); }));
  EXPECT_THAT(Run({"keys", "list", "--json"}).out, HasSubstr(R"("state":"revoked")"));
}

TEST_P(KeysTest, AUserIsMadeChangedDisabledAndDeleted) {
  const auto lets_in = [&](const std::string& password) {
    return Ask([&](const Holder& holder) { return holder.LetsIn("ann", password); });
  };
  const Outcome made = Run({"users", "create", "ann", "--password-stdin"}, "correct horse\n");
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(made.out, "created ann\n");
  EXPECT_TRUE(lets_in("correct horse"));
  EXPECT_EQ(Run({"users", "passwd", "ann", "--password-stdin"}, "another horse").status, 0);
  EXPECT_FALSE(lets_in("correct horse"));
  EXPECT_TRUE(lets_in("another horse"));
  EXPECT_EQ(Run({"users", "disable", "ann"}).status, 0);
  EXPECT_FALSE(lets_in("another horse"));
  EXPECT_THAT(Run({"users", "list"}).out, HasSubstr("disabled"));
  EXPECT_EQ(Run({"users", "enable", "ann"}).status, 0);
  EXPECT_TRUE(lets_in("another horse"));
  EXPECT_EQ(Run({"users", "delete", "ann", "--json"}).out, "{\"ok\":true}\n");
  EXPECT_FALSE(lets_in("another horse"));
}

// Regression: a new user with the name of a deleted one could read the deleted user's dialogs.
TEST_P(KeysTest, ADeletedUsersDialogsGoWithTheUserAndNobodyElses) {
  for (const char* name : {"ann", "bob"})
    ASSERT_EQ(Run({"users", "create", name, "--no-password"}).status, 0);
  const auto execute = [&](const std::string& sql) {
    return Ask([&](const Holder& holder) {
      return holder.store->WriteNow([&](store::Database& rows) { return rows.Execute(sql); }).ok();
    });
  };
  const auto count = [&](const std::string& where) {
    int64_t rows = -1;
    Ask([&](const Holder& holder) {
      return holder.store
          ->ReadNow([&](store::Database& database) -> Status {
            ASSIGN_OR_RETURN(store::Statement row,
                             database.Prepare("SELECT count(*) FROM dialog WHERE " + where));
            ASSIGN_OR_RETURN(const bool found, row.Step());
            if (found) rows = row.Int(0);
            return OkStatus();
          })
          .ok();
    });
    return rows;
  };
  for (const char* dialog :
       {"'default', 'native', 'ann/a', 'user:ann'", "'default', 'native', 'ann/b', 'user:ann'",
        "'default', 'native', 'bob/a', 'user:bob'", "'acme', 'native', 'ann/a', 'user:ann'"}) {
    ASSERT_TRUE(execute("INSERT INTO dialog(tenant, project, session, owner, used_s) VALUES(" +
                        std::string(dialog) + ", 1000)"));
  }
  ASSERT_EQ(Run({"users", "delete", "ann"}).status, 0);
  EXPECT_EQ(count("tenant='default' AND owner='user:ann'"), 0);
  EXPECT_EQ(count("owner='user:bob'"), 1);
  EXPECT_EQ(count("tenant='acme'"), 1);
}

TEST_P(KeysTest, AUserOfACertificateNeedsNoPassword) {
  const Outcome made = Run({"users", "create", "ann", "--no-password", "--tenant", "acme"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(Run({"users", "list"}).out, HasSubstr("acme"));
  EXPECT_FALSE(Ask([&](const Holder& holder) { return holder.LetsIn("ann", ""); }));
  EXPECT_EQ(Run({"users", "create", "bob", "--no-password", "--password-stdin"}, "correct horse\n")
                .status,
            78);
}

TEST_P(KeysTest, WhatIsRefusedSaysWhyWithItsExitStatus) {
  ASSERT_EQ(Run({"keys", "create", "ci"}).status, 0);
  const auto expect = [&](std::vector<std::string> arguments, int status, const char* words,
                          const std::string& input = "") {
    const Outcome outcome = Run(std::move(arguments), input);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words));
    EXPECT_EQ(outcome.out, "");
  };
  expect({"keys", "create", "ci"}, 1, "name_taken");
  expect({"keys", "create", "a b"}, 78, "A-Z a-z 0-9");
  expect({"keys", "create", "x", "--routes", "embedd"}, 78, "generate, embed, tokenize");
  expect({"keys", "create", "x", "--expires", "30"}, 78, "30d");
  expect({"keys", "create", "x", "--concurrency", "0"}, 78, "from 1 to");
  expect({"keys", "create", "x", "--daily-tokens", "many"}, 78, "--daily-tokens");
  expect({"keys", "create"}, 2, "NAME");
  expect({"keys", "revoke", "nobody"}, 1, "there is no active key");
  expect({"keys", "rotat", "ci"}, 2, "did you mean rotate?");
  expect({"users", "create", "ann", "--password-stdin"}, 78, "12 to 1024", "short\n");
  expect({"users", "create", "ann"}, 1, "--password-stdin");
  expect({"users", "create", "ann", "--password", "x"}, 2, "here it is --password-stdin");
  expect({"users", "enable", "nobody"}, 1, "there is no user");
}

TEST_P(KeysTest, ModelsAndLimitsAreKeptAndListed) {
  ASSERT_EQ(Run({"keys", "create", "ci", "--models", "a,b", "--requests-per-minute", "60",
                 "--daily-tokens", "1000"})
                .status,
            0);
  const std::string listed = Run({"keys", "list"}).out;
  EXPECT_THAT(listed, HasSubstr("a,b"));
  EXPECT_THAT(listed, HasSubstr("requests_per_minute=60,daily_tokens=1000"));
}

// Regression: the table had ids alone, which did not show whose usage it was.
TEST_P(KeysTest, UsageShowsTheNamesOfKeys) {
  ASSERT_EQ(Run({"keys", "create", "robot"}).status, 0);
  const std::string listed = Run({"keys", "list", "--json"}).out;
  const std::string member = "\"id\":\"";
  const size_t at = listed.find(member) + member.size();
  const std::string id = "key:" + listed.substr(at, listed.find('"', at) - at);
  EXPECT_TRUE(Ask([&](const Holder& holder) {
    return holder.store
        ->WriteNow([&](store::Database& rows) -> Status {
          for (const std::string& key : {id, std::string("user:ada")}) {
            RETURN_IF_ERROR(usage::InsertRow(
                rows, {.time_ms = 1, .tenant = "default", .key_id = key, .output_tokens = 7}));
          }
          return OkStatus();
        })
        .ok();
  }));
  const std::string table = Run({"usage", "--by", "key"}).out;
  EXPECT_THAT(table, ::testing::ContainsRegex("KEY +NAME +REQUESTS"));
  EXPECT_THAT(table, ::testing::ContainsRegex(id + " +robot +1 "));
  EXPECT_THAT(table, ::testing::ContainsRegex("user:ada +1 "));
  const std::string json = Run({"usage", "--by", "key", "--json"}).out;
  EXPECT_THAT(json, HasSubstr("\"group\":\"" + id + "\",\"name\":\"robot\",\"requests\":1"));
  EXPECT_THAT(json, HasSubstr("\"group\":\"user:ada\",\"requests\":1"));
  EXPECT_THAT(Run({"usage", "--by", "tenant"}).out, Not(HasSubstr("NAME")));
}

TEST_P(KeysTest, NoFileHoldsASecret) {
  const Outcome made = Run({"keys", "create", "ci"});
  ASSERT_EQ(Run({"users", "create", "ann", "--password-stdin"}, "correct horse\n").status, 0);
  for (const auto& file : std::filesystem::directory_iterator(Folder())) {
    if (!file.is_regular_file()) continue;
    std::ifstream stream(file.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream),
                            std::istreambuf_iterator<char>()};
    EXPECT_EQ(bytes.find(made.out.substr(19, auth::kKeySecretChars)), std::string::npos);
    EXPECT_EQ(bytes.find("correct horse"), std::string::npos);
  }
}

class KeysAlone : public KeysTest {};
INSTANTIATE_TEST_SUITE_P(Store, KeysAlone, ::testing::Values(false));

TEST_P(KeysAlone, WhoHasTheStoreAndDoesNotAnswerIsNamed) {
  const Holder silent(Folder());
  const Outcome outcome = Run({"keys", "list"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("store_locked"));
  EXPECT_THAT(outcome.err, HasSubstr("process " + std::to_string(getpid())));
}

// They made one, and answered with an empty table.
TEST_P(KeysAlone, OnlyWhatMakesSomethingMakesAStore) {
  const std::vector<std::vector<std::string>> asking = {
      {"keys", "list"}, {"keys", "revoke", "ci"}, {"users", "list"}, {"usage"}};
  for (const std::vector<std::string>& arguments : asking) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 1) << arguments.front();
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("there is no store in " + Folder()));
    EXPECT_FALSE(std::filesystem::exists(Folder()));
  }
  EXPECT_EQ(Run({"keys", "create", "ci"}).status, 0);
  EXPECT_EQ(Run({"keys", "list"}).status, 0);
}

TEST_P(KeysAlone, AStoreInMemoryHasNoKeysToSpeakOf) {
  std::vector<std::string> arguments = {"tutti", "keys", "list", "--store", "memory"};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  EXPECT_EQ(Main(5, argv.data()), 78);
}

}  // namespace
}  // namespace tutti::cli
