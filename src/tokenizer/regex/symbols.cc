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

}  // namespace tutti::tokenizer::regex
