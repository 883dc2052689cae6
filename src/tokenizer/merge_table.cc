#include "tokenizer/merge_table.h"

#include <utility>

namespace tutti::tokenizer {
namespace {

constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();

Status InvalidMerge(std::string message) {
  return InvalidArgument("tokenizer_invalid", std::move(message));
}

}  // namespace

Result<MergeTable> MergeTable::Create(const Vocabulary& vocabulary,
                                      const std::vector<std::string>& merges,
                                      std::string_view prefix) {
  if (merges.size() > kMaxMerges) {
    return InvalidArgument(
        "tokenizer_limit",
        std::to_string(merges.size()) + " merges; the limit is " + std::to_string(kMaxMerges));
  }
  MergeTable table;
  table.merges_.Reserve(merges.size());
  table.is_merged_.assign(static_cast<size_t>(vocabulary.size()), false);
  table.is_piece_.assign(static_cast<size_t>(vocabulary.size()), false);
  std::string merged_text;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t border = MergeBorder(merge);
    if (border == std::string_view::npos) {
      return InvalidMerge("merge " + std::to_string(rank) +
                          " is not two pieces with a space between them");
    }
    const std::string_view left = merge.substr(0, border);
    const std::string_view right = merge.substr(border + 1);
    merged_text.assign(left);
    merged_text.append(right.starts_with(prefix) ? right.substr(prefix.size()) : right);
    const TokenId left_id = vocabulary.Find(left);
    const TokenId right_id = vocabulary.Find(right);
    const TokenId merged_id = vocabulary.Find(merged_text);
    if (left_id == kNoToken || right_id == kNoToken || merged_id == kNoToken) {
      if (++table.unusable_ > merges.size() / 2)
        return InvalidMerge("merge " + std::to_string(rank) + " has a piece that is no token");
      continue;
    }
    if (vocabulary.IsSpecial(merged_id)) continue;
    table.is_merged_[static_cast<size_t>(merged_id)] = true;
    table.is_piece_[static_cast<size_t>(left_id)] = true;
    table.is_piece_[static_cast<size_t>(right_id)] = true;
    const PairTable::Value value = {static_cast<int32_t>(rank), merged_id};
    // The first of two equal merges holds: the second could never be reached.
    if (table.merges_.Insert(PairTable::Key(left_id, right_id), value) == Inserted::kTooManyProbes)
      return InvalidArgument("tokenizer_limit", "merges collide in the hash table");
  }
  return table;
}

void MergeTable::Merge(Scratch& scratch) const {
  if (scratch.symbols.size() <= Scratch::kShort) {
    MergeShort(scratch);
  } else {
    MergeLong(scratch);
  }
}

// Scans for the lowest rank until none is left: quadratic, over at most kShort symbols.
void MergeTable::MergeShort(Scratch& scratch) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  auto& pairs = scratch.pairs_;
  size_t count = symbols.size();
  const auto look_up = [&](size_t i) {
    const PairTable::Value* found = merges_.Find(PairTable::Key(symbols[i], symbols[i + 1]));
    pairs[i] = found != nullptr ? *found : PairTable::Value{kNoRank, kNoToken};
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].first < pairs[best].first) best = i;
    }
    if (pairs[best].first == kNoRank) break;
    symbols[best] = pairs[best].second;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      pairs[i] = pairs[i + 1];
    }
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  symbols.resize(count);
}

void MergeTable::MergeLong(Scratch& scratch) const {
  std::vector<TokenId>& symbols = scratch.list_.symbols();
  symbols.swap(scratch.symbols);
  scratch.list_.Merge([&](size_t left, size_t right, size_t) -> MergeList<int32_t>::Pair {
    const PairTable::Value* found = merges_.Find(PairTable::Key(symbols[left], symbols[right]));
    if (found == nullptr) return {};
    return {found->first, found->second};
  });
  scratch.symbols.clear();
  for (size_t i = 0; i < symbols.size(); i = scratch.list_.Next(i))
    scratch.symbols.push_back(symbols[i]);
}

}  // namespace tutti::tokenizer
