#include "cli/line_editor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <clocale>
#include <random>
#include <vector>

namespace tutti::cli {
namespace {

using Edit = LineEditor::Outcome;
using Window = LineEditor::Window;

constexpr Window kWindow{24, 80};

// A terminal that understands what the editor writes: text of one column each (but wide ones), CR,
// LF and ESC [ n A, C, J, H. Rows scroll out at the top.
class Screen {
 public:
  explicit Screen(Window window) : window_(window), rows_(Rows(), std::u32string()) {}

  void Write(std::string_view bytes) {
    for (size_t i = 0; i < bytes.size();) {
      const CodePoint next = DecodeAt(bytes, i);
      i += next.length;
      if (next.code_point == 0x1B) {
        int number = 0;
        for (++i; bytes[i] >= '0' && bytes[i] <= '9'; ++i) number = number * 10 + bytes[i] - '0';
        Control(bytes[i++], number);
      } else if (next.code_point == '\r') {
        column_ = 0;
      } else if (next.code_point == '\n') {
        if (++row_ == Rows()) {
          --row_;
          rows_.erase(rows_.begin());
          rows_.emplace_back();
        }
      } else {
        Put(next.code_point);
      }
    }
  }

  // Without blanks at the end.
  std::string Row(size_t row) const {
    std::string out;
    for (const char32_t character : rows_[row]) {
      if (character != 0) AppendUtf8(character, out);
    }
    return out.substr(0, out.find_last_not_of(' ') + 1);
  }
  std::string All() const {
    std::string out;
    for (size_t row = 0; row < Rows(); ++row) out += Row(row);
    return out;
  }
  size_t row() const { return row_; }
  size_t column() const { return column_; }

 private:
  size_t Rows() const { return static_cast<size_t>(window_.rows); }
  void Control(char final, int number) {
    const auto count = static_cast<size_t>(number);
    if (final == 'A') row_ -= std::min(row_, count);
    if (final == 'C') column_ += count;
    if (final == 'H') row_ = column_ = 0;
    if (final == 'J') {
      if (number == 2) std::fill(rows_.begin(), rows_.end(), std::u32string());
      rows_[row_].resize(std::min(rows_[row_].size(), column_));
      std::fill(rows_.begin() + static_cast<std::ptrdiff_t>(row_) + 1, rows_.end(),
                std::u32string());
    }
  }
  void Put(char32_t character) {
    const size_t width = character >= 0x1100 ? 2 : 1;
    ASSERT_LE(column_ + width, static_cast<size_t>(window_.columns)) << "beyond the window";
    std::u32string& row = rows_[row_];
    if (row.size() < column_ + width) row.resize(column_ + width, U' ');
    row[column_] = character;
    if (width == 2) row[column_ + 1] = 0;
    column_ += width;
  }

  Window window_;
  std::vector<std::u32string> rows_;
  size_t row_ = 0, column_ = 0;
};

class LineEditorTest : public testing::Test {
 protected:
  LineEditorTest() {
    std::setlocale(LC_CTYPE, "C.UTF-8");
    editor_.Begin();
  }
  ~LineEditorTest() override { std::setlocale(LC_CTYPE, "C"); }

  Edit Type(std::string_view keys) {
    Edit outcome = Edit::kEditing;
    for (const char byte : keys) outcome = editor_.Feed(byte);
    return outcome;
  }
  std::string Typed(std::string_view keys) {
    editor_.Begin();
    EXPECT_EQ(Type(keys), Edit::kEditing);
    return editor_.line();
  }
  void Say(std::string_view line) {
    editor_.Begin();
    Type(line);
    EXPECT_EQ(Type("\r"), Edit::kLine);
  }

  LineEditor editor_{"> "};
};

TEST_F(LineEditorTest, KeysEditTheLine) {
  EXPECT_EQ(Typed("Hi wrld\x1b[D\x1b[D\x1b[Do"), "Hi world");
  EXPECT_EQ(Typed("abc\x01x\x05y\x02z"), "xabczy");
  EXPECT_EQ(Typed("abc\x1b[Hx\x1b[Fy\x1b[1~1\x1b[4~4\x1bOH2\x1bOF5"), "21xabcy45");
  EXPECT_EQ(Typed("abc\x01\x06\x04"), "ac");
  EXPECT_EQ(Typed("abc\x01\x1b[3~"), "bc");
  EXPECT_EQ(Typed("abc\x7f\x08"), "a");
  EXPECT_EQ(Typed("one two three\x1b"
                  "b\x0b"),
            "one two ");
  EXPECT_EQ(Typed("one two three\x1b[1;5D\x15"), "three");
  EXPECT_EQ(Typed("one two\x17\x19\x19"), "one twotwo");
  EXPECT_EQ(Typed("one two\x01\x1b"
                  "d\x1b[1;3C!"),
            " two!");
  EXPECT_EQ(Typed("a\tb\x1b[200~\x1b[5~\x1b[99;99Z\x1bx"
                  "c"),
            "a\tbc");
}

TEST_F(LineEditorTest, CharactersAreWhole) {
  EXPECT_EQ(Typed("gré\x7füße 日本\x1b[D\x7f"), "grüße 本");
  // The cursor moves over a combining mark together with its base character.
  EXPECT_EQ(Typed("ae\xcc\x81"
                  "b\x02\x02x"),
            "axe\xcc\x81"
            "b");
  EXPECT_EQ(Typed("ae\xcc\x81\x7f"), "a");
}

TEST_F(LineEditorTest, WhatIsNoTextIsDropped) {
  EXPECT_EQ(Typed(std::string_view("a\xff\xc3(\xed\xa0\x80\0\x1c\xc2\x85"
                                   "b",
                                   12)),
            "a(b");
  // A character cut off by the end of the line before does not reach into this one.
  Type("\xe6\x97");
  EXPECT_EQ(Typed("\x97x"), "x");
  Type("\x1b[");
  EXPECT_EQ(Typed("Ax"), "Ax");
}

TEST_F(LineEditorTest, LinesEndInThreeWays) {
  EXPECT_EQ(Type("text\r"), Edit::kLine);
  EXPECT_EQ(editor_.line(), "text");
  editor_.Begin();
  EXPECT_EQ(Type("\n"), Edit::kLine);
  editor_.Begin();
  EXPECT_EQ(Type("text\x03"), Edit::kGivenUp);
  editor_.Begin();
  EXPECT_EQ(Type("x\x04"), Edit::kEditing);
  EXPECT_EQ(Type("\x7f\x04"), Edit::kEnd);
}

TEST_F(LineEditorTest, EarlierLinesComeBack) {
  Say("first");
  Say("second");
  Say("second");
  Say("");
  EXPECT_EQ(Typed("draft\x1b[A"), "second");
  Type("\x1b[A\x10\x10");
  EXPECT_EQ(editor_.line(), "first");
  Type("\x1b[B");
  EXPECT_EQ(editor_.line(), "second");
  Type("\x0e\x0e");
  EXPECT_EQ(editor_.line(), "draft");
  // A change to a recalled line is dropped when another line is recalled.
  EXPECT_EQ(Typed("\x1b[A!\x1b[A\x1b[B"), "second");
}

TEST_F(LineEditorTest, TheHistoryAndALineAreBounded) {
  for (size_t i = 0; i < LineEditor::kHistoryLines + 10; ++i) Say(std::to_string(i));
  editor_.Begin();
  for (size_t i = 0; i < LineEditor::kHistoryLines + 50; ++i) Type("\x10");
  EXPECT_EQ(editor_.line(), "10");
  EXPECT_EQ(Typed(std::string(LineEditor::kLongestLine + 5, 'x')).size(), LineEditor::kLongestLine);
  Type("\x15\x19\x19");
  EXPECT_EQ(editor_.line().size(), LineEditor::kLongestLine);
}

TEST_F(LineEditorTest, ALineThatFillsRowsIsShownOnSeveral) {
  Screen screen({5, 10});
  Type("12345678");
  screen.Write(editor_.Draw({5, 10}));
  EXPECT_EQ(screen.Row(0), "> 12345678");
  EXPECT_EQ(screen.row(), 1u);  // there is no place behind a full row
  EXPECT_EQ(screen.column(), 0u);
  Type("9日\x1b[D");
  screen.Write(editor_.Draw({5, 10}));
  EXPECT_EQ(screen.Row(1), "9日");
  EXPECT_EQ(screen.column(), 1u);
  Type("\x01");
  screen.Write(editor_.Draw({5, 10}));
  EXPECT_EQ(screen.row(), 0u);
  EXPECT_EQ(screen.column(), 2u);
  screen.Write(editor_.DrawDone({5, 10}, "^C"));
  EXPECT_EQ(screen.Row(0) + "|" + screen.Row(1), "> 12345678|9日^C");
  EXPECT_EQ(screen.row(), 2u);
  EXPECT_EQ(screen.column(), 0u);
}

TEST_F(LineEditorTest, AWideCharacterThatDoesNotFitBeginsTheNextRow) {
  Screen screen({5, 10});
  Type("1234567日x");
  screen.Write(editor_.Draw({5, 10}));
  EXPECT_EQ(screen.Row(0) + "|" + screen.Row(1), "> 1234567|日x");
}

TEST_F(LineEditorTest, ALineLongerThanTheWindowShowsTheRowsAroundTheCursor) {
  Screen screen({3, 10});
  Type(
      "abcdefgh"
      "0123456789"
      "ABCDEFGHIJ"
      "klmnopqrst"
      "uvwxyz");
  screen.Write(editor_.Draw({3, 10}));
  EXPECT_EQ(screen.All(), "ABCDEFGHIJklmnopqrstuvwxyz");
  EXPECT_EQ(screen.row(), 2u);
  Type("\x01");
  screen.Write(editor_.Draw({3, 10}));
  EXPECT_EQ(screen.All(), "> abcdefgh0123456789ABCDEFGHIJ");
  EXPECT_EQ(screen.row(), 0u);
  EXPECT_EQ(screen.column(), 2u);
}

TEST_F(LineEditorTest, CtrlLClearsTheScreen) {
  Screen screen(kWindow);
  screen.Write("an answer\r\n");
  Type("abc\x0c");
  screen.Write(editor_.Draw(kWindow));
  EXPECT_EQ(screen.Row(0), "> abc");
  EXPECT_EQ(screen.All(), "> abc");
}

TEST_F(LineEditorTest, AnyKeysInAnyWindowShowTheLine) {
  const std::vector<std::string> keys = {
      "a",    "word ", "日本", "ü",     "\x1b[D", "\x1b[C",  "\x1b[A", "\x1b[B",
      "\x7f", "\x01",  "\x05", "\x17",  "\x19",   "\x1b[3~", "\x0b",   std::string(90, 'x'),
      "\xff", "\xe6",  "\x1b", "\x1b[", "\x0c"};
  std::mt19937 random(7);
  const auto pick = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const Window window{pick(1, 30), pick(4, 100)};
    Screen screen(window);
    editor_.Begin();
    std::string drawn;
    for (int key = 0; key < 40; ++key) {
      Edit outcome = Type(keys[static_cast<size_t>(pick(0, static_cast<int>(keys.size()) - 1))]);
      ASSERT_EQ(outcome, Edit::kEditing);
      screen.Write(editor_.Draw(window));
      const std::string shown = screen.All(), meant = "> " + editor_.line();
      // Blanks at the end of a row are not seen.
      const auto squeeze = [](std::string text) {
        std::erase(text, ' ');
        return text;
      };
      ASSERT_NE(squeeze(meant).find(squeeze(shown)), std::string::npos)
          << shown << " is not of " << meant << " in " << window.rows << "x" << window.columns;
      if (meant.size() < static_cast<size_t>(window.rows * (window.columns - 1)) / 2) {
        ASSERT_EQ(squeeze(shown), squeeze(meant));
      }
      // Other sizes before the next key, down to none: nothing may break.
      if (key % 10 == 9) {
        editor_.Draw({pick(-1, 3), pick(-1, 9)});
        editor_.DrawDone({pick(-1, 3), pick(-1, 9)}, "^C");
        screen = Screen(window);
        editor_.Forget();
      }
    }
    if (round % 3 == 0) Type("\r");
  }
}

}  // namespace
}  // namespace tutti::cli
