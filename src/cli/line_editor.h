// LineEditor: turns typed bytes into a line, and into the output that shows it on a terminal.
//
// Supports the usual keys: arrows, Home, End, Delete, Backspace, Ctrl-A B D E F H K L N P U W Y,
// Alt-B D F. The class does not access a terminal; a window is two numbers, so that every size and
// every byte can be tested. A line that does not fit the window shows the rows around the cursor.
// Widths are those of wcwidth() in the current locale. Not thread-safe.
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
  static constexpr size_t kLongestLine = 65'536;  // characters; more are ignored
  static constexpr size_t kHistoryLines = 1000;

  enum class Outcome { kEditing, kLine, kGivenUp, kEnd };
  struct Window {
    int rows, columns;
  };

  // `prompt`: printable ASCII.
  explicit LineEditor(std::string prompt) : prompt_(std::move(prompt)) {}

  // Begins an empty line; its first Draw() is on the row of the cursor. Incomplete input of the
  // previous line is dropped.
  void Begin();
  // Returns kLine at Enter, kGivenUp at Ctrl-C, kEnd at Ctrl-D on an empty line; call Begin() after
  // each of these.
  Outcome Feed(char byte);
  // The line as UTF-8. After kLine, it is also the newest line of the history.
  std::string line() const;

  // Output that updates the terminal from the last drawn state to the current one. DrawDone() draws
  // a line that will not change any more: all of it, followed by `tail`, with the cursor on a new
  // row.
  std::string Draw(Window window);
  std::string DrawDone(Window window, std::string_view tail);
  // Other output has moved the cursor: the next Draw() begins on the cursor's row.
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
