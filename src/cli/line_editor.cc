#include "cli/line_editor.h"

#include <algorithm>
#include <cwchar>
#include <utility>

namespace tutti::cli {
namespace {

constexpr char32_t kEscape = 0x1B, kDelete = 0x7F;
constexpr size_t kLongestParameters = 16;
constexpr int kTabColumns = 4;

constexpr char32_t Ctrl(char letter) { return static_cast<char32_t>(letter - '@'); }

// Columns; what the locale does not know is taken for one.
int Width(char32_t character) {
  if (character == '\t') return kTabColumns;
  const int width = wcwidth(static_cast<wchar_t>(character));
  return width < 0 ? 1 : width;
}

bool IsSpace(char32_t character) { return character == ' ' || character == '\t'; }

}  // namespace

void LineEditor::Begin() {
  text_.clear();
  draft_.clear();
  cursor_ = 0;
  recalled_ = history_.size();
  repair_ = {};
  state_ = State::kText;
  cursor_row_ = 0;
}

std::string LineEditor::line() const {
  std::string out;
  for (const char32_t character : text_) AppendUtf8(character, out);
  return out;
}

LineEditor::Outcome LineEditor::Feed(char byte) {
  std::string characters;
  repair_.Push({&byte, 1}, characters);
  Outcome outcome = Outcome::kEditing;
  for (size_t i = 0; i < characters.size() && outcome == Outcome::kEditing;) {
    const CodePoint next = DecodeAt(characters, i);
    i += next.length;
    if (next.code_point == kReplacementCharacter) continue;  // bytes that are no text
    if (state_ == State::kText) {
      outcome = Key(next.code_point);
    } else {
      EscapeKey(next.code_point);
    }
  }
  return outcome;
}

LineEditor::Outcome LineEditor::Key(char32_t key) {
  switch (key) {
    case '\r':
    case '\n':
      if (!text_.empty() && (history_.empty() || history_.back() != text_)) {
        history_.push_back(text_);
        if (history_.size() > kHistoryLines) history_.pop_front();
      }
      return Outcome::kLine;
    case Ctrl('C'):
      return Outcome::kGivenUp;
    case Ctrl('D'):
      if (text_.empty()) return Outcome::kEnd;
      Erase(cursor_, Behind(cursor_), /*keep=*/false);
      break;
    case Ctrl('A'):
      cursor_ = 0;
      break;
    case Ctrl('E'):
      cursor_ = text_.size();
      break;
    case Ctrl('B'):
      cursor_ = Before(cursor_);
      break;
    case Ctrl('F'):
      cursor_ = Behind(cursor_);
      break;
    case Ctrl('H'):
    case kDelete:
      Erase(Before(cursor_), cursor_, /*keep=*/false);
      break;
    case Ctrl('K'):
      Erase(cursor_, text_.size(), /*keep=*/true);
      break;
    case Ctrl('U'):
      Erase(0, cursor_, /*keep=*/true);
      break;
    case Ctrl('W'):
      Erase(WordBefore(), cursor_, /*keep=*/true);
      break;
    case Ctrl('Y'):
      for (const char32_t character : std::u32string(cut_)) Insert(character);
      break;
    case Ctrl('L'):
      clear_screen_ = true;
      break;
    case Ctrl('P'):
      if (recalled_ > 0) Recall(recalled_ - 1);
      break;
    case Ctrl('N'):
      if (recalled_ < history_.size()) Recall(recalled_ + 1);
      break;
    case kEscape:
      state_ = State::kEscape;
      break;
    default:
      Insert(key);
  }
  return Outcome::kEditing;
}

// ECMA-48: ESC [ parameters final. Terminals send ESC O final too, and ESC before a key for Alt.
void LineEditor::EscapeKey(char32_t key) {
  if (state_ == State::kControl && key < '@') {
    if (key < ' ') {
      state_ = State::kText;
    } else if (parameters_.size() < kLongestParameters) {
      parameters_.push_back(static_cast<char>(key));
    }
    return;
  }
  const State state = std::exchange(state_, State::kText);
  if (state == State::kControl || state == State::kSingleShift) {
    Control(parameters_, key);
    return;
  }
  parameters_.clear();
  if (key == '[') state_ = State::kControl;
  if (key == 'O') state_ = State::kSingleShift;
  if (key == kEscape) state_ = State::kEscape;
  if (key == 'b') cursor_ = WordBefore();
  if (key == 'f') cursor_ = WordBehind();
  if (key == 'd') Erase(cursor_, WordBehind(), /*keep=*/true);
  if (key == kDelete) Erase(WordBefore(), cursor_, /*keep=*/true);
}

void LineEditor::Control(std::string_view parameters, char32_t final) {
  const bool word = parameters.ends_with(";5") || parameters.ends_with(";3");  // Ctrl, Alt
  if (final == 'A') Key(Ctrl('P'));
  if (final == 'B') Key(Ctrl('N'));
  if (final == 'C') cursor_ = word ? WordBehind() : Behind(cursor_);
  if (final == 'D') cursor_ = word ? WordBefore() : Before(cursor_);
  if (final == 'H') cursor_ = 0;
  if (final == 'F') cursor_ = text_.size();
  if (final != '~') return;
  if (parameters == "1" || parameters == "7") cursor_ = 0;
  if (parameters == "4" || parameters == "8") cursor_ = text_.size();
  if (parameters == "3") Erase(cursor_, Behind(cursor_), /*keep=*/false);
}

void LineEditor::Insert(char32_t character) {
  const bool control = character < ' ' || (character >= kDelete && character < 0xA0);
  if ((control && character != '\t') || text_.size() >= kLongestLine) return;
  text_.insert(cursor_++, 1, character);
}

void LineEditor::Erase(size_t from, size_t to, bool keep) {
  if (from >= to) return;
  if (keep) cut_ = text_.substr(from, to - from);
  text_.erase(from, to - from);
  cursor_ = from;
}

void LineEditor::Recall(size_t entry) {
  if (recalled_ == history_.size()) draft_ = text_;
  recalled_ = entry;
  text_ = entry == history_.size() ? draft_ : history_[entry];
  cursor_ = text_.size();
}

// Marks that stand on a character are passed together with it.
size_t LineEditor::Before(size_t position) const {
  if (position == 0) return 0;
  do {
    --position;
  } while (position > 0 && Width(text_[position]) == 0);
  return position;
}

size_t LineEditor::Behind(size_t position) const {
  if (position >= text_.size()) return text_.size();
  do {
    ++position;
  } while (position < text_.size() && Width(text_[position]) == 0);
  return position;
}

size_t LineEditor::WordBefore() const {
  size_t position = cursor_;
  while (position > 0 && IsSpace(text_[position - 1])) --position;
  while (position > 0 && !IsSpace(text_[position - 1])) --position;
  return position;
}

size_t LineEditor::WordBehind() const {
  size_t position = cursor_;
  while (position < text_.size() && IsSpace(text_[position])) ++position;
  while (position < text_.size() && !IsSpace(text_[position])) ++position;
  return position;
}

LineEditor::Layout LineEditor::Lay(int columns, std::string_view tail) const {
  Layout out;
  out.rows.emplace_back();
  int column = 0;
  const auto put = [&](char32_t character) {
    const int width = Width(character);
    if (column + width > columns) {
      out.rows.emplace_back();
      column = 0;
    }
    if (character == '\t') {
      out.rows.back().append(static_cast<size_t>(width), ' ');
    } else {
      AppendUtf8(character, out.rows.back());
    }
    column += width;
  };
  // A cursor behind a full row would stand nowhere.
  const auto mark_cursor = [&](int width) {
    if (column + width > columns) {
      out.rows.emplace_back();
      column = 0;
    }
    out.cursor_row = out.rows.size() - 1;
    out.cursor_column = column;
  };
  for (const char character : prompt_) put(static_cast<unsigned char>(character));
  for (size_t i = 0; i < text_.size(); ++i) {
    if (i == cursor_) mark_cursor(Width(text_[i]));
    put(text_[i]);
  }
  if (cursor_ == text_.size()) mark_cursor(1);
  for (const char character : tail) put(static_cast<unsigned char>(character));
  return out;
}

// Rows [from, to) in place of those that were drawn, the cursor in the first column of the last.
std::string LineEditor::Show(const Layout& layout, size_t from, size_t to, size_t cursor_row) {
  std::string out = "\r";
  if (cursor_row_ > 0) out += "\x1b[" + std::to_string(cursor_row_) + "A";
  if (std::exchange(clear_screen_, false)) out += "\x1b[H\x1b[2J";
  out += "\x1b[J";
  for (size_t row = from; row < to; ++row) {
    if (row > from) out += "\r\n";
    out += layout.rows[row];
  }
  cursor_row_ = cursor_row;
  return out;
}

std::string LineEditor::Draw(Window window) {
  // No terminal is narrower than a wide character or a tab; the line is not all seen there anyway.
  const Layout layout = Lay(std::max(window.columns, kTabColumns), "");
  const size_t shown = std::min(layout.rows.size(), static_cast<size_t>(std::max(window.rows, 1)));
  const size_t last =
      std::max(shown, std::min(layout.cursor_row + 1 + shown / 2, layout.rows.size()));
  const size_t first = last - shown;
  const size_t cursor_row = layout.cursor_row - first;
  std::string out = Show(layout, first, last, cursor_row);
  if (const size_t up = last - 1 - layout.cursor_row; up > 0)
    out += "\x1b[" + std::to_string(up) + "A";
  out += "\r";
  if (layout.cursor_column > 0) out += "\x1b[" + std::to_string(layout.cursor_column) + "C";
  return out;
}

std::string LineEditor::DrawDone(Window window, std::string_view tail) {
  const Layout layout = Lay(std::max(window.columns, kTabColumns), tail);
  std::string out = Show(layout, 0, layout.rows.size(), 0);
  return out + "\r\n";
}

}  // namespace tutti::cli
