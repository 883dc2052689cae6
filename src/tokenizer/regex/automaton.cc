#include "tokenizer/regex/automaton.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "base/utf8.h"

namespace tutti::tokenizer::regex {
namespace {

// Never in a text, and of no category but Cn.
constexpr char32_t kUnassigned = 0x10FFFF;

// A place where a set begins or ends.
struct Change {
  char32_t at;
  uint32_t set;
};

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

Result<Symbols> Symbols::Create(std::span<const CharSet> sets) {
  std::vector<Change> changes;
  for (uint32_t set = 0; set < sets.size(); ++set) {
    const CodePoints& points = sets[set].points;
    for (int32_t range = 0; range < points.getRangeCount(); ++range) {
      changes.push_back({static_cast<char32_t>(points.getRangeStart(range)), set});
      changes.push_back({static_cast<char32_t>(points.getRangeEnd(range)) + 1, set});
    }
  }
  std::ranges::sort(changes, {}, &Change::at);

  Symbols made;
  made.members_.assign(sets.size(), {});
  std::vector<bool> inside(sets.size(), false);
  std::map<std::vector<bool>, Symbol> known;
  std::map<std::vector<Symbol>, uint16_t> known_blocks;
  std::vector<Symbol> block;
  const auto add_block = [&](const std::vector<Symbol>& full) {
    const auto [it, added] = known_blocks.emplace(full, static_cast<uint16_t>(known_blocks.size()));
    if (added) made.blocks_.insert(made.blocks_.end(), full.begin(), full.end());
    return it->second;
  };
  const auto append = [&](Symbol symbol, size_t count) {
    while (count > 0) {
      if (block.empty() && count >= kBlockSize) {  // most of the space: few ranges, many blocks
        const uint16_t id = add_block(std::vector<Symbol>(kBlockSize, symbol));
        made.block_.insert(made.block_.end(), count / kBlockSize, id);
        count %= kBlockSize;
        continue;
      }
      const size_t part = std::min(count, kBlockSize - block.size());
      block.insert(block.end(), part, symbol);
      count -= part;
      if (block.size() < kBlockSize) continue;
      made.block_.push_back(add_block(block));
      block.clear();
    }
  };
  size_t next = 0;
  for (char32_t at = 0; at <= 0x10FFFF;) {
    for (; next < changes.size() && changes[next].at == at; ++next)
      inside[changes[next].set] = !inside[changes[next].set];
    const char32_t end =
        next < changes.size() ? std::min<char32_t>(changes[next].at, 0x110000) : 0x110000;
    auto it = known.find(inside);
    if (it == known.end()) {
      if (known.size() == kMaxSymbols) {
        return InvalidArgument("tokenizer_limit", "split expression tells more than " +
                                                      std::to_string(kMaxSymbols) +
                                                      " kinds of characters apart");
      }
      it = known.emplace(inside, static_cast<Symbol>(known.size())).first;
      for (size_t set = 0; set < sets.size(); ++set) made.members_[set].push_back(inside[set]);
    }
    append(it->second, end - at);
    at = end;
  }
  made.count_ = known.size();
  for (size_t set = 0; set < sets.size(); ++set) made.members_[set].push_back(sets[set].edge);
  for (char32_t c = 0; c < made.ascii_.size(); ++c) made.ascii_[c] = made.Of(c);
  made.invalid_ = made.Of(kUnassigned);
  return made;
}

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
