#include "cli/password_prompt.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <string>

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

// What a person sees and what the command gets, at a terminal of its own.
struct Session {
  std::string seen, got;  // got: the password, or "!" and why there is none
  bool echo_after = false;
};

Session At(const std::string& keys) {
  int result[2];
  CHECK(pipe(result) == 0);
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
  CHECK(pid >= 0);
  if (pid == 0) {
    const auto password = TypedPassword();
    termios modes{};
    tcgetattr(STDIN_FILENO, &modes);
    const std::string text = std::string((modes.c_lflag & ECHO) != 0 ? "e" : "-") +
                             (password.ok() ? *password : "!" + password.status().reason());
    (void)!write(result[1], text.data(), text.size());
    _exit(0);
  }
  close(result[1]);
  Session session;
  size_t sent = 0;
  const auto read_some = [&] {
    char bytes[256];
    const ssize_t count = read(terminal, bytes, sizeof bytes);
    if (count > 0) session.seen.append(bytes, static_cast<size_t>(count));
    return count > 0;
  };
  // A line is typed once its prompt is seen.
  int prompts = 0;
  while (read_some()) {
    int shown = 0;
    for (size_t at = 0; (at = session.seen.find(": ", at)) != std::string::npos; ++at) ++shown;
    for (; prompts < shown && sent < keys.size(); ++prompts) {
      const size_t end = std::min(keys.find('\n', sent), keys.size() - 1) + 1;
      CHECK(write(terminal, keys.data() + sent, end - sent) > 0);
      sent = end;
    }
  }
  char bytes[256];
  for (ssize_t count = 0; (count = read(result[0], bytes, sizeof bytes)) > 0;)
    session.got.append(bytes, static_cast<size_t>(count));
  close(result[0]);
  close(terminal);
  waitpid(pid, nullptr, 0);
  session.echo_after = session.got.starts_with('e');
  session.got = session.got.substr(1);
  return session;
}

TEST(PasswordPrompt, AtATerminalItIsTypedTwiceAndUnseen) {
  const Session session = At("correct horse\ncorrect horse\n");
  EXPECT_EQ(session.got, "correct horse");
  EXPECT_EQ(session.seen, "Password: \r\nThe same again: \r\n");
  EXPECT_TRUE(session.echo_after);
}

TEST(PasswordPrompt, KeysOfEditingWork) {
  EXPECT_EQ(At("wrong\x15"
               "grx\x7f\xc3\xbc\xc3\x9f\x7f\xc3\x9f!\ngr\xc3\xbc\xc3\x9f!\n")
                .got,
            "gr\xc3\xbc\xc3\x9f!");
}

TEST(PasswordPrompt, TwoThatDifferAreRefused) { EXPECT_EQ(At("one\ntwo\n").got, "!invalid_value"); }

TEST(PasswordPrompt, CtrlCGivesUpAndTheTerminalIsAsBefore) {
  const Session session = At("half\x03");
  EXPECT_EQ(session.got, "!cancelled");
  EXPECT_TRUE(session.echo_after);
}

}  // namespace
}  // namespace tutti::cli
