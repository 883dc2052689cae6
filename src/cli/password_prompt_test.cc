#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "cli/terminal.h"
#include "cli/testing/terminal_session.h"

namespace tutti::cli {
namespace {

Result<std::string> Piped(const std::string& text) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  CHECK(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  close(ends[1]);
  auto password = PipedPassword(ends[0]);
  close(ends[0]);
  return password;
}

TEST(PasswordPrompt, OneLineOfStandardInputIsThePassword) {
  EXPECT_EQ(*Piped("correct horse\n"), "correct horse");
  EXPECT_EQ(*Piped("correct horse"), "correct horse");
  EXPECT_EQ(*Piped("correct horse\r\n"), "correct horse");
  EXPECT_EQ(*Piped(" blanks count \n"), " blanks count ");
  EXPECT_EQ(*Piped(std::string(1024, 'p') + "\n"), std::string(1024, 'p'));
  for (const std::string& bad : {std::string(), std::string("\n"), std::string("one\ntwo\n"),
                                 std::string("one\n\n"), std::string(1025, 'p')})
    EXPECT_EQ(Piped(bad).status().reason(), "invalid_value");
}

// The result is the password, or "!" and the reason of the failure.
testing::TerminalSession At(const std::vector<std::string>& lines) {
  return testing::AtATerminal(
      [] {
        const auto password = TypedPassword();
        return password.ok() ? *password : "!" + password.status().reason();
      },
      ": ", lines);
}

TEST(PasswordPrompt, AtATerminalItIsTypedTwiceAndUnseen) {
  const testing::TerminalSession session = At({"correct horse\n", "correct horse\n"});
  EXPECT_EQ(session.result, "correct horse");
  EXPECT_EQ(session.seen, "Password: \r\nThe same again: \r\n");
  EXPECT_TRUE(session.echo_after);
}

TEST(PasswordPrompt, KeysOfEditingWork) {
  EXPECT_EQ(At({"wrong\x15"
                "grx\x7f\xc3\xbc\xc3\x9f\x7f\xc3\x9f!\n",
                "gr\xc3\xbc\xc3\x9f!\n"})
                .result,
            "gr\xc3\xbc\xc3\x9f!");
}

TEST(PasswordPrompt, TwoThatDifferAreRefused) {
  EXPECT_EQ(At({"one\n", "two\n"}).result, "!invalid_value");
}

TEST(PasswordPrompt, CtrlCGivesUpAndTheTerminalIsAsBefore) {
  const testing::TerminalSession session = At({"half\x03"});
  EXPECT_EQ(session.result, "!cancelled");
  EXPECT_TRUE(session.echo_after);
}

}  // namespace
}  // namespace tutti::cli
