#include "tokenizer/regex/symbols.h"

#include <algorithm>
#include <map>
#include <string>

namespace tutti::tokenizer::regex {
namespace {

// Never in a text, and of no category but Cn.
constexpr char32_t kUnassigned = 0x10FFFF;

// A place where a set begins or ends.
struct Change {
  char32_t at;
  uint32_t set;
};

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
  const auto append = [&](Symbol symbol, char32_t from, char32_t to) {
    for (char32_t c = from; c < to; ++c) {
      block.push_back(symbol);
      if (block.size() < kBlockSize) continue;
      const auto [it, added] =
          known_blocks.emplace(block, static_cast<uint16_t>(known_blocks.size()));
      if (added) made.blocks_.insert(made.blocks_.end(), block.begin(), block.end());
      made.block_.push_back(it->second);
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
    append(it->second, at, end);
    at = end;
  }
  made.count_ = known.size();
  for (size_t set = 0; set < sets.size(); ++set) made.members_[set].push_back(sets[set].edge);
  for (char32_t c = 0; c < made.ascii_.size(); ++c) made.ascii_[c] = made.Of(c);
  made.invalid_ = made.Of(kUnassigned);
  return made;
}

}  // namespace tutti::tokenizer::regex
