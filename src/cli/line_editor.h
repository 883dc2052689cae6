// LineEditor: typed bytes in, a line and what a terminal must be told to show it out.
//
// The usual keys: arrows, Home, End, Delete, Backspace, Ctrl-A B D E F H K L N P U W Y, Alt-B D F.
// No terminal in here: a window is two numbers, so that every size and every byte can be tested. A
// line that does not fit the window shows the rows around the cursor. Widths are those of
// wcwidth(), so of the locale. A value of one reader; not for two threads at once.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace tutti::cli {

class LineEditor {
 public:
  static constexpr size_t kLongestLine = 65'536;  // characters; more are not taken
  static constexpr size_t kHistoryLines = 1000;

  enum class Outcome { kEditing, kLine, kGivenUp, kEnd };
  struct Window {
    int rows, columns;
  };

  // `prompt`: printable ASCII.
  explicit LineEditor(std::string prompt) : prompt_(std::move(prompt)) {}

  // An empty line, whose first Draw() is on the row where the cursor then stands. What came of the
  // line before, in part, is forgotten.
  void Begin();
  // kLine at Enter, kGivenUp at Ctrl-C, kEnd at Ctrl-D on an empty line: then the next is Begin().
  Outcome Feed(char byte);
  // The line as UTF-8. A line that ended with kLine is the newest of the history.
  std::string line() const;

  // From what was drawn last to what is so now. With `done` the line will not change any more: all
  // of it, `tail` behind it, and the cursor on a new row.
  std::string Draw(Window window);
  std::string DrawDone(Window window, std::string_view tail);
  // The cursor was moved by others: the next Draw() begins on its row.
  void Forget() { cursor_row_ = 0; }

 private:
  struct Layout {
    std::vector<std::string> rows;
    size_t cursor_row = 0;
    int cursor_column = 0;
  };
  Outcome Key(char32_t key);
  void EscapeKey(char32_t key);
  void Control(std::string_view parameters, char32_t final);
  void Insert(char32_t character);
  void Erase(size_t from, size_t to, bool keep);
  void Recall(size_t entry);
  size_t Before(size_t position) const;
  size_t Behind(size_t position) const;
  size_t WordBefore() const;
  size_t WordBehind() const;
  Layout Lay(int columns, std::string_view tail) const;
  std::string Show(const Layout& layout, size_t from, size_t to, size_t cursor_row);

  const std::string prompt_;
  std::u32string text_, cut_, draft_;  // draft_: the line that Up left
  size_t cursor_ = 0;                  // in text_
  std::deque<std::u32string> history_;
  size_t recalled_ = 0;  // in history_; its size is the draft

  Utf8Repair repair_;
  enum class State { kText, kEscape, kControl, kSingleShift } state_ = State::kText;
  std::string parameters_;  // of a control sequence
  size_t cursor_row_ = 0;   // of the rows on the screen
  bool clear_screen_ = false;
};

}  // namespace tutti::cli
