// Row N36: a long dialog is cut rarely and by much, so that nearly every prompt begins with the one
// before, and every cut is reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/sessions/sessions.h"
#include "services/sessions/testing/sessions_fixture.h"

namespace tutti::sessions {
namespace {

using responses::DroppedContext;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class SessionsWindowTest : public testing::SessionsFixture {
 protected:
  static constexpr int kTurns = 60;

  int LastPromptTokens() {
    return responses::testing::ScriptedInference::CountOf(inference_->requests().back().prompt);
  }
};

TEST_F(SessionsWindowTest, BetweenCutsEachPromptBeginsWithTheOneBeforeAndEveryCutIsTold) {
  constexpr int kWindow = 900;
  session_options_.window.limit = kWindow;
  Restart();
  EXPECT_TRUE(Ask<Status>(&Sessions::SetSystemPrompt, Key(), "be brief").ok());
  std::string before;
  int added = 0, cuts = 0;
  int64_t dropped = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::string text =
        "turn " + std::to_string(turn) + std::string(static_cast<size_t>(turn * 7 % 40), '.');
    // Without truncation, exactly the prompts are refused that would be cut otherwise, and the
    // dialog stays unchanged.
    Message whole = UserMessage(text);
    whole.window = ContextWindow{.limit = kWindow, .truncate = false};
    const Result<Acceptance> fits = Submit(Key(), whole);
    if (fits.ok()) {
      StepAll();
      ASSERT_TRUE(Ended(fits->response));
      EXPECT_EQ(fits->response->dropped(), DroppedContext{});
      EXPECT_THAT(LastPrompt(), StartsWith(before)) << turn;
    } else {
      ASSERT_EQ(fits.status().reason(), "context_length_exceeded");
      ASSERT_TRUE(fits.status().excess().has_value());
      EXPECT_GT(fits.status().excess()->asked, kWindow);
      EXPECT_EQ(fits.status().excess()->most, kWindow);
      EXPECT_EQ(LastPrompt(), before.substr(0, before.rfind(" [")));
      const Acceptance cut = Accepted(Key(), UserMessage(text));
      StepAll();
      ASSERT_TRUE(Ended(cut.response));
      const DroppedContext gone = cut.response->dropped();
      EXPECT_GT(gone.turns, 0);
      EXPECT_EQ(gone.items, 2 * gone.turns);
      EXPECT_THAT(Events(*cut.response)[3],
                  HasSubstr("\"dropped_turns\":" + std::to_string(gone.turns) +
                            ",\"dropped_items\":" + std::to_string(gone.items) + "}"));
      EXPECT_LE(LastPromptTokens(), kWindow - kWindow / 4);
      dropped += gone.turns;
      ++cuts;
    }
    EXPECT_LE(LastPromptTokens(), kWindow);
    added += 2 * static_cast<int>(text.size()) + 6;  // it, its answer, two tokens around each
    before = LastPrompt() + " [" + text + "]";       // what this model answers
  }
  EXPECT_GE(cuts, 3);
  EXPECT_LE(cuts, added / (kWindow / 4)) << "each makes room for a quarter of the window";
  const auto left = std::get<api::ChatPrompt>(inference_->requests().back().prompt).messages;
  EXPECT_EQ(dropped + static_cast<int64_t>(left.size() - 2) / 2, kTurns - 1)
      << "what is neither in the prompt nor told";
  EXPECT_EQ(AskStore("SELECT count(*) FROM item"), 2 * kTurns) << "the dialog keeps all";
}

}  // namespace
}  // namespace tutti::sessions
