// A dialog with a model of this process, over several openings of its store.
#include "app/local_dialog.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"
#include "temp_folder.h"

namespace tutti::app {
namespace {

class LocalDialogTest : public ::testing::Test {
 protected:
  LocalDialogTest() {
    Result<OpenedModel> opened = inference_.Open({"tiny", file_.path()});
    EXPECT_TRUE(opened.ok()) << opened.status();
    const Status loaded = inference_.Load(*std::move(opened));
    EXPECT_TRUE(loaded.ok()) << loaded;
  }
  std::unique_ptr<LocalDialog> Open(const std::string& session = "main") {
    auto dialog = LocalDialog::Open(
        inference_, {.folder = folder_.path(), .session = session, .model = "tiny"});
    EXPECT_TRUE(dialog.ok()) << dialog.status();
    return *std::move(dialog);
  }
  static LocalDialog::Question Question(const std::string& text, int tokens = 6) {
    LocalDialog::Question question{text, "", {}};
    question.sampling.temperature = 0;
    question.sampling.max_tokens = tokens;
    question.sampling.ignore_eos = true;
    return question;
  }
  static std::string Answer(LocalDialog& dialog, const std::string& text) {
    std::string answer;
    const Status status = dialog.Ask(
        Question(text), [&](std::string_view piece) { answer += piece; }, [] { return false; });
    EXPECT_TRUE(status.ok()) << status;
    return answer;
  }

  const support::TempFolder folder_;
  const gguf::testing::TempFile file_{gguf::testing::MakeCheckpoint({}).Build()};
  const Settings settings_ =
      Settings::Resolve(
          {.flags = {{"kv-cache-bytes", "8MiB"}, {"threads", "1"}}, .environment = {}, .file = ""})
          .value();
  LocalInference inference_{settings_, nullptr};
};

TEST_F(LocalDialogTest, TheNextOpeningGoesOnAndAnotherSessionKnowsNothing) {
  std::string first, second;
  {
    const auto dialog = Open();
    EXPECT_TRUE(dialog->History()->empty());
    first = Answer(*dialog, "one");
    EXPECT_FALSE(first.empty());
  }
  {
    const auto dialog = Open();
    const auto history = *dialog->History();
    ASSERT_EQ(history.size(), 2u);
    EXPECT_EQ(history[0].content, "one");
    EXPECT_EQ(history[1].content, first) << "what was shown as it came";
    second = Answer(*dialog, "two");
    EXPECT_EQ(dialog->History()->size(), 4u);
    EXPECT_EQ(dialog->History()->at(3).content, second);
  }
  {
    const auto other = Open("other");
    EXPECT_TRUE(other->History()->empty());
    EXPECT_NE(Answer(*other, "two"), second) << "without the first question";
  }
  EXPECT_EQ(Open()->History()->size(), 4u);
}

TEST_F(LocalDialogTest, WhatWasClearedIsGoneAlsoForTheNext) {
  {
    const auto dialog = Open();
    Answer(*dialog, "one");
    ASSERT_TRUE(dialog->Clear().ok());
    EXPECT_TRUE(dialog->History()->empty());
  }
  EXPECT_TRUE(Open()->History()->empty());
}

TEST_F(LocalDialogTest, AStoppedAnswerWasNotSaid) {
  const auto dialog = Open();
  Answer(*dialog, "one");
  int pieces = 0;
  const Status status = dialog->Ask(
      Question("two", 1500), [&](std::string_view) { ++pieces; }, [&] { return pieces > 0; });
  EXPECT_EQ(status.reason(), "cancelled");
  EXPECT_EQ(dialog->History()->size(), 2u);
  Answer(*dialog, "three");
  EXPECT_EQ(dialog->History()->at(2).content, "three");
}

TEST_F(LocalDialogTest, WhatCannotBeSaidIsAnErrorAndTheDialogGoesOn) {
  const auto dialog = Open();
  const Status status = dialog->Ask(
      Question(std::string(50'000, 'x')), [](std::string_view) {}, [] { return false; });
  EXPECT_EQ(status.reason(), "context_length_exceeded") << status;
  EXPECT_TRUE(dialog->History()->empty());
  Answer(*dialog, "one");
  EXPECT_EQ(
      LocalDialog::Open(inference_, {.folder = folder_.path(), .session = "", .model = "tiny"})
          .status()
          .reason(),
      "store_locked");
}

}  // namespace
}  // namespace tutti::app
