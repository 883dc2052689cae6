#include "tokenizer/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "tokenizer/jinja/unicode.h"

namespace tutti::tokenizer::jinja {
namespace {

bool IsDigitByte(char c) { return c >= '0' && c <= '9'; }
bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || IsDigitByte(c) ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> Run() {
    while (status_.ok() && pos_ < source_.size()) Root();
    if (!status_.ok()) return status_;
    Emit(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  char At(size_t i) const { return i < source_.size() ? source_[i] : '\0'; }
  bool StartsWith(size_t i, std::string_view text) const {
    return source_.substr(std::min(i, source_.size()), text.size()) == text;
  }
  void Emit(TokenType type, std::string_view text) { tokens_.push_back({type, line_, text}); }
  void Error(const std::string& message) {
    if (!status_.ok()) return;
    status_ = InvalidArgument("tokenizer_invalid",
                              "chat template line " + std::to_string(line_) + ": " + message);
  }
  // Moves to `end`, counting lines and remembering whether a line starts there.
  void AdvanceTo(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(pos_),
                                         source_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    line_starts_ = end > pos_ && source_[end - 1] == '\n';
    pos_ = end;
  }
  size_t SkipSpace(size_t i) const {
    while (i < source_.size()) {
      const CodePoint c = DecodeAt(source_, i);
      if (!IsSpace(c.code_point)) break;
      i += c.length;
    }
    return i;
  }

  // Text up to the next tag, then the tag.
  void Root() {
    size_t begin = pos_;
    while (true) {
      begin = source_.find('{', begin);
      if (begin == std::string_view::npos) {
        EmitData(source_.substr(pos_));
        AdvanceTo(source_.size());
        return;
      }
      const char next = At(begin + 1);
      if (next == '%' || next == '{' || next == '#') break;
      ++begin;
    }
    const char kind = At(begin + 1);
    const char sign = At(begin + 2);
    const bool has_sign = sign == '-' || sign == '+';
    EmitData(Trimmed(source_.substr(pos_, begin - pos_), has_sign ? sign : '\0', kind != '{'));
    const size_t after = begin + 2 + (has_sign ? 1 : 0);
    if (kind == '%') {
      if (const size_t raw = RawBegin(after); raw != 0) {
        AdvanceTo(raw);
        Raw();
        return;
      }
    }
    AdvanceTo(after);
    if (kind == '#') {
      Comment();
    } else {
      Tag(kind == '%');
    }
  }

  void EmitData(std::string_view text) {
    if (!text.empty()) Emit(TokenType::kData, text);
  }

  // The part of the text before a tag that remains after the tag's sign has trimmed it.
  std::string_view Trimmed(std::string_view text, char sign, bool lstrip_blocks) const {
    if (sign == '-') return text.substr(0, Strip(text, false, true).end);
    if (sign == '+' || !lstrip_blocks) return text;
    const size_t newline = text.rfind('\n');
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (line == 0 && !line_starts_) return text;
    const Span rest = Strip(text.substr(line), true, false);
    return rest.begin == text.size() - line ? text.substr(0, line) : text;
  }

  // Offset after "raw %}" at `after` (with its trailing white space when "-%}"), or 0 if it is
  // another tag.
  size_t RawBegin(size_t after) const {
    size_t i = SkipSpace(after);
    if (!StartsWith(i, "raw")) return 0;
    i = SkipSpace(i + 3);
    if (StartsWith(i, "-%}")) return SkipSpace(i + 3);
    return StartsWith(i, "%}") ? i + 2 : 0;
  }

  void Raw() {
    for (size_t begin = pos_; (begin = source_.find("{%", begin)) != std::string_view::npos;
         begin += 2) {
      const char sign = At(begin + 2);
      const bool has_sign = sign == '-' || sign == '+';
      size_t i = SkipSpace(begin + 2 + (has_sign ? 1 : 0));
      if (!StartsWith(i, "endraw")) continue;
      i = SkipSpace(i + 6);
      const size_t end = BlockEnd(i);
      if (end == 0) continue;
      EmitData(Trimmed(source_.substr(pos_, begin - pos_), has_sign ? sign : '\0', true));
      AdvanceTo(end);
      return;
    }
    Error("raw block without its end");
  }

  // Offset after "%}", "-%}" with the white space behind it, "+%}", or "%}" with one newline; 0 if
  // none is here.
  size_t BlockEnd(size_t i) const {
    if (StartsWith(i, "-%}")) return SkipSpace(i + 3);
    if (StartsWith(i, "+%}")) return i + 3;
    if (!StartsWith(i, "%}")) return 0;
    return At(i + 2) == '\n' ? i + 3 : i + 2;
  }

  void Comment() {
    const size_t close = source_.find("#}", pos_);
    if (close == std::string_view::npos) return Error("comment without its end");
    const char sign = close > pos_ ? source_[close - 1] : '\0';
    size_t end = close + 2;
    if (sign == '-') {
      end = SkipSpace(end);
    } else if (sign != '+' && At(end) == '\n') {
      ++end;
    }
    AdvanceTo(end);
  }

  // The tokens inside {{ }} or {% %}, with both ends.
  void Tag(bool block) {
    Emit(block ? TokenType::kBlockBegin : TokenType::kVariableBegin, "");
    std::string open;  // brackets still to be closed
    while (status_.ok()) {
      if (open.empty()) {
        const size_t end = block ? BlockEnd(pos_) : VariableEnd(pos_);
        if (end != 0) {
          Emit(block ? TokenType::kBlockEnd : TokenType::kVariableEnd, "");
          AdvanceTo(end);
          return;
        }
      }
      if (pos_ >= source_.size()) return Error(block ? "'{%' without '%}'" : "'{{' without '}}'");
      const size_t space = SkipSpace(pos_);
      if (space > pos_) {
        AdvanceTo(space);
        continue;
      }
      const char c = source_[pos_];
      if (IsDigitByte(c)) {
        Number();
      } else if (IsNameByte(c)) {
        size_t end = pos_;
        while (end < source_.size() && IsNameByte(source_[end])) ++end;
        Take(TokenType::kName, end);
      } else if (c == '\'' || c == '"') {
        String(c);
      } else {
        Operator(&open);
      }
    }
  }

  size_t VariableEnd(size_t i) const {
    if (StartsWith(i, "-}}")) return SkipSpace(i + 3);
    return StartsWith(i, "}}") ? i + 2 : 0;
  }

  void Take(TokenType type, size_t end) {
    Emit(type, source_.substr(pos_, end - pos_));
    AdvanceTo(end);
  }

  void String(char quote) {
    for (size_t i = pos_ + 1; i < source_.size(); ++i) {
      if (source_[i] == '\\') {
        ++i;
      } else if (source_[i] == quote) {
        return Take(TokenType::kString, i + 1);
      }
    }
    Error("string without its closing quote");
  }

  // digits, each perhaps after one "_"
  size_t Digits(size_t i) const {
    while (IsDigitByte(At(i)) || (At(i) == '_' && IsDigitByte(At(i + 1)))) ++i;
    return i;
  }

  void Number() {
    const auto lower = [this](size_t i) { return static_cast<char>(At(i) | 0x20); };
    if (At(pos_) == '0' &&
        (lower(pos_ + 1) == 'x' || lower(pos_ + 1) == 'o' || lower(pos_ + 1) == 'b')) {
      const char base = lower(pos_ + 1);
      const auto fits = [base](char c) {
        if (base == 'b') return c == '0' || c == '1';
        if (base == 'o') return c >= '0' && c <= '7';
        return IsDigitByte(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
      };
      size_t i = pos_ + 2;
      while (fits(At(i)) || (At(i) == '_' && fits(At(i + 1)))) ++i;
      if (i > pos_ + 2) return Take(TokenType::kInteger, i);
    }
    const size_t whole = Digits(pos_);
    const bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';
    if (!after_dot) {
      size_t end = whole;
      if (At(end) == '.' && IsDigitByte(At(end + 1))) end = Digits(end + 1);
      if (lower(end) == 'e') {
        const size_t exponent = end + (At(end + 1) == '+' || At(end + 1) == '-' ? 2 : 1);
        if (IsDigitByte(At(exponent))) end = Digits(exponent);
      }
      if (end > whole) return Take(TokenType::kFloat, end);
    }
    if (At(pos_) != '0') return Take(TokenType::kInteger, whole);
    size_t zeros = pos_;
    while (At(zeros) == '0' || (At(zeros) == '_' && At(zeros + 1) == '0')) ++zeros;
    Take(TokenType::kInteger, zeros);
  }

  void Operator(std::string* open) {
    constexpr std::array<std::string_view, 6> kDouble{"//", "**", "==", "!=", ">=", "<="};
    const char c = source_[pos_];
    const bool is_double = std::any_of(kDouble.begin(), kDouble.end(), [this](std::string_view op) {
      return StartsWith(pos_, op);
    });
    if (is_double) return Take(TokenType::kOperator, pos_ + 2);
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      return Error("unexpected character");
    }
    if (c == '(') open->push_back(')');
    if (c == '[') open->push_back(']');
    if (c == '{') open->push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (open->empty() || open->back() != c) return Error(std::string("unexpected '") + c + "'");
      open->pop_back();
    }
    Take(TokenType::kOperator, pos_ + 1);
  }

  std::string_view source_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
  Status status_;
};

}  // namespace

std::string NormaliseNewlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      text.push_back('\n');
    } else {
      text.push_back(source[i]);
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Result<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace tutti::tokenizer::jinja
