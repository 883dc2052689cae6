#include "cli/line_reader.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "cli/testing/terminal_session.h"

namespace tutti::cli {
namespace {

// The lines that are read, each behind a bar.
std::string ReadLines() {
  const auto reader = MakeLineReader("> ");
  std::string lines;
  std::puts("");
  for (std::string line; reader->Read(line);) lines += "|" + line;
  return lines;
}

// Editing shows the prompt again as well, but not in a new row.
testing::TerminalSession Typed(const std::vector<std::string>& lines) {
  return testing::AtATerminal(ReadLines, "\n> ", lines);
}

TEST(LineReader, KeysEditTheLine) {
  for (const auto& [keys, line] :
       std::vector<std::pair<std::string, std::string>>{{"wrld\x1b[D\x1b[D\x1b[Do", "world"},
                                                        {"abd\x02"
                                                         "c",
                                                         "abcd"},
                                                        {"bc\x01"
                                                         "a\x05"
                                                         "d",
                                                         "abcd"},
                                                        {"bc\x1b[1~a\x1b[4~d", "abcd"},
                                                        {"bc\x1b[Ha\x1b[Fd", "abcd"},
                                                        {"bc\x1bOHa\x1bOFd", "abcd"},
                                                        {"abx\x7f"
                                                         "c",
                                                         "abc"},
                                                        {"xabc\x01\x1b[3~", "abc"},
                                                        {"xabc\x01\x04", "abc"},
                                                        {"abc xyz\x17", "abc "},
                                                        {"abc\x15xyz", "xyz"},
                                                        {"abc xyz\x1b[1;5D\x0b", "abc "},
                                                        {"abc xyz\x1b"
                                                         "b\x0b",
                                                         "abc "},
                                                        {"abc\x15\x19 \x19", "abc abc"},
                                                        {"a\x13"
                                                         "b",
                                                         "ab"}})
    EXPECT_EQ(Typed({keys + "\r", "\x04"}).result, "|" + line) << ::testing::PrintToString(keys);
}

TEST(LineReader, CharactersAreWhole) {
  EXPECT_EQ(Typed({"gr\u00e9\x7f\u00fc\u00dfe \u65e5\u672c\x1b[D\x7f\r", "\x04"}).result,
            "|gr\u00fc\u00dfe \u672c");
}

TEST(LineReader, BytesThatAreNotTextAreDropped) {
  EXPECT_EQ(Typed({"a\xff\xc3"
                   "b\xed\xa0\x80\r",
                   "\x04"})
                .result,
            "|ab");
}

TEST(LineReader, EarlierLinesComeBack) {
  EXPECT_EQ(Typed({"one\r", "two\r", "\x1b[A\x1b[A\r", "\x10!\r", "\x04"}).result,
            "|one|two|one|one!");
}

TEST(LineReader, ALineLongerThanTheWindowIsWhole) {
  const std::string line(1000, 'a');
  EXPECT_EQ(Typed({line + "\x01" + "b" + "\x05" + "c\r", "\x04"}).result, "|b" + line + "c");
}

TEST(LineReader, CtrlCDiscardsTheLine) {
  const testing::TerminalSession session = Typed({"never\x03", "read\r", "\x04"});
  EXPECT_EQ(session.result, "|read");
  EXPECT_NE(session.seen.find("^C\r\n"), std::string::npos) << session.seen;
}

TEST(LineReader, CtrlDEndsAndTheTerminalIsAsBefore) {
  const testing::TerminalSession session = Typed({"\x04"});
  EXPECT_EQ(session.result, "");
  EXPECT_TRUE(session.echo_after);
}

}  // namespace
}  // namespace tutti::cli
