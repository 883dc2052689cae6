#include "tokenizer/regex/automaton.h"

#include <array>
#include <utility>

#include "base/utf8.h"

namespace tutti::tokenizer::regex {
namespace {

// Most pieces of a text that other steps have cut are short: their rows need no memory of the heap.
constexpr size_t kRowsOnStack = 1'024;

// The character that ends at `end`: its beginning, code point and validity.
struct Before {
  size_t begin;
  char32_t code_point;
  bool valid;
};

Before CharacterBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
    --begin;
  const CodePoint c = DecodeAt(text, begin);
  if (c.valid && begin + c.length == end) return {begin, c.code_point, true};
  return {end - 1, 0, false};
}

}  // namespace

void Automaton::ReadBackwards(std::string_view text, Row* rows) const {
  uint32_t state = 0;
  for (size_t at = text.size(); at > 0;) {
    const auto byte = static_cast<unsigned char>(text[at - 1]);
    Symbol symbol;
    size_t begin = at - 1;
    if (byte < 0x80) {
      symbol = symbols_.OfAscii(byte);
    } else {
      const Before before = CharacterBefore(text, at);
      symbol = before.valid ? symbols_.Of(before.code_point) : symbols_.OfInvalid();
      begin = before.begin;
      for (size_t inside = begin + 1; inside < at; ++inside) rows[inside] = kInside;
    }
    const Cell cell = cells_[size_t{state} << shift_ | symbol];
    rows[at] = cell.row;
    state = cell.state;
    at = begin;
  }
  rows[0] = cells_[size_t{state} << shift_ | symbols_.edge()].row;
}

void Automaton::FindAll(std::string_view text, MatchSink& sink) const {
  if (text.empty()) return;
  std::array<Row, kRowsOnStack> small;
  std::unique_ptr<Row[]> large;
  Row* rows = small.data();
  if (text.size() >= small.size()) {
    large = std::make_unique_for_overwrite<Row[]>(text.size() + 1);
    rows = large.get();
  }
  ReadBackwards(text, rows);

  const auto next = [&](size_t at) {
    do {
      ++at;
    } while (at < text.size() && rows[at] == kInside);
    return at;
  };
  const auto choice = [&](size_t at, Place place) {
    if (place >= columns_) return only_[place - columns_];
    return choices_[size_t{rows[at]} * columns_ + place];
  };
  size_t last_end = text.size() + 1;  // none
  for (size_t at = 0; at <= text.size();) {
    Place place = choice(at, 0);
    if (place == kNone) {
      at = next(at);
      continue;
    }
    size_t end = at;
    while (place != kEnd) {
      end = next(end);
      place = choice(end, place);
    }
    if (end == at && end == last_end) {
      at = next(at);
      continue;
    }
    sink.OnMatch(at, end);
    at = last_end = end;
  }
}

}  // namespace tutti::tokenizer::regex
