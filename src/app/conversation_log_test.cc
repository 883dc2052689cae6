#include "app/conversation_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "temp_folder.h"

namespace tutti::app {
namespace {

using std::chrono::minutes;
using ::testing::HasSubstr;
using ::testing::Not;

class ConversationLogTest : public ::testing::Test {
 protected:
  void Open(const std::string& session, int64_t file_bytes = 1 << 20) {
    auto log = ConversationLog::Open(
        {.file = file_, .session = session, .file_bytes = file_bytes, .time = minutes(10)}, &clock_,
        [] { return int64_t{1'700'000'000'123}; }, &log_);
    ASSERT_TRUE(log.ok()) << log.status();
    conversation_ = *std::move(log);
  }
  void Ask(const std::string& session, const std::string& text) {
    sessions::Message message;
    message.input = {{api::Role::kUser, text, ""}};
    conversation_->OnAccepted({"t", "driving", session}, ++turn_, message);
  }
  std::string Written(const std::string& suffix = "") {
    conversation_->Flush();
    std::ifstream in(file_ + suffix);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  support::TempFolder folder_;
  const std::string file_ = folder_.File("conversations.jsonl");
  ManualClock clock_;
  Logger log_{LogLevel::kOff};
  int64_t turn_ = 0;
  std::unique_ptr<ConversationLog> conversation_;
};

TEST_F(ConversationLogTest, OneSessionIsWrittenWithItsSecretsMaskedAndNoOther) {
  Open("car-1");
  sessions::Message message;
  message.input = {{api::Role::kUser, "my key is sk-test_abcdefgh", ""}};
  message.system_prompt = "be brief";
  conversation_->OnAccepted({"t", "driving", "car-1"}, 7, message);
  protocol::ResponseState end;
  end.text = "Keep \"it\".";
  end.status = protocol::ResponseStatus::kCompleted;
  conversation_->OnEnded({"t", "driving", "car-1"}, 7, end);
  Ask("car-2", "nobody's business");
  Ask("car-11", "nobody's business");
  const std::string head =
      R"({"time":"2023-11-14T22:13:20.123Z","tenant":"t","project":"driving","session":"car-1","turn":7,)";
  EXPECT_EQ(Written(), head + R"("role":"system","text":"be brief"})" + "\n" + head +
                           R"("role":"user","text":"my key is ***"})" + "\n" + head +
                           R"("role":"assistant","text":"Keep \"it\".","status":"completed"})" +
                           "\n");
}

TEST_F(ConversationLogTest, AStarIsEverybody) {
  Open("*");
  Ask("a", "one");
  Ask("b", "two");
  EXPECT_THAT(Written(), HasSubstr("one"));
  EXPECT_THAT(Written(), HasSubstr("two"));
}

TEST_F(ConversationLogTest, ItEndsWhenItsTimeIsOver) {
  Open("*");
  clock_.Advance(minutes(10) - Duration(1));
  Ask("a", "before");
  clock_.Advance(Duration(1));
  Ask("a", "after");
  clock_.Advance(minutes(10));
  Ask("a", "after");
  EXPECT_THAT(Written(), HasSubstr("before"));
  EXPECT_THAT(Written(), Not(HasSubstr("after")));
}

TEST_F(ConversationLogTest, FilesRotateAtTheirSizeAndTheOldestGoes) {
  Open("*", 4096);
  for (int i = 0; i < 200; ++i) Ask("a", "message " + std::to_string(i));
  EXPECT_THAT(Written(), HasSubstr("message 199\""));
  for (const char* const suffix : {"", ".1", ".2", ".3"}) {
    EXPECT_LE(std::filesystem::file_size(file_ + suffix), 4096u);
    EXPECT_GT(std::filesystem::file_size(file_ + suffix), 0u);
    struct stat info {};
    ASSERT_EQ(stat((file_ + suffix).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U) << suffix;
  }
  EXPECT_FALSE(std::filesystem::exists(file_ + ".4"));
  // Without a gap from the oldest that is left to the last.
  const std::string all = Written(".3") + Written(".2") + Written(".1") + Written();
  int first = 0;
  while (all.find("message " + std::to_string(first) + "\"") == std::string::npos) ++first;
  EXPECT_GT(first, 0);
  for (int i = first; i < 200; ++i)
    EXPECT_THAT(all, HasSubstr("message " + std::to_string(i) + "\""));
}

TEST_F(ConversationLogTest, ItGoesOnInAFileThatIsThereAndMakesItItsUsersAlone) {
  std::ofstream(file_) << "before\n";
  ASSERT_EQ(chmod(file_.c_str(), 0644), 0);
  Open("*");
  Ask("a", "after");
  EXPECT_THAT(Written(), ::testing::StartsWith("before\n{"));
  struct stat info {};
  ASSERT_EQ(stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(ConversationLogTest, ALongTextIsCutBetweenTwoCharacters) {
  Open("*");
  std::string text = "x";
  while (text.size() < (80U << 10)) text += "\xc3\xa4\xc3\xb6 ";
  Ask("a", text);
  EXPECT_THAT(Written(), HasSubstr("\"cut\":true"));
  EXPECT_LT(Written().size(), 66U << 10);
}

TEST_F(ConversationLogTest, WithoutASessionOrAFileItIsRefused) {
  const auto refused = [&](const std::string& file, const std::string& session) {
    return ConversationLog::Open(
               {.file = file, .session = session}, &clock_, [] { return int64_t{0}; }, &log_)
        .status()
        .reason();
  };
  EXPECT_EQ(refused(file_, ""), "invalid_value");
  EXPECT_EQ(refused(folder_.File("no/such/folder"), "*"), "io_error");
  EXPECT_EQ(refused("/dev/null", "*"), "io_error");
}

}  // namespace
}  // namespace tutti::app
