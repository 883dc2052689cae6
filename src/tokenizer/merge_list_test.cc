#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "base/random.h"
#include "tokenizer/merge_table.h"

namespace tutti::tokenizer {
namespace {

TEST(MinTreeTest, FindsTheFirstOfTheLeastKeysAfterAnyChanges) {
  Random random(5);
  for (const size_t count : {1, 2, 15, 16, 17, 255, 256, 257, 3000, 5000}) {
    std::vector<int32_t> keys(count);
    for (int32_t& key : keys) key = static_cast<int32_t>(random.Below(30));
    MinTree<int32_t> tree;
    tree.Reset(count) = keys;
    tree.Build();
    for (int step = 0; step < 2000; ++step) {
      const auto least = std::min_element(keys.begin(), keys.end());
      size_t position = 0;
      ASSERT_EQ(tree.FindMin(&position), *least);
      // When nothing is left, the position is of no use; else it is the first.
      const bool any = *least != MinTree<int32_t>::kNever;
      ASSERT_EQ(any ? position : 0, any ? static_cast<size_t>(least - keys.begin()) : 0);
      const size_t at = any && random.Chance(0.7) ? position : random.Below(count);
      keys[at] =
          random.Chance(0.5) ? MinTree<int32_t>::kNever : static_cast<int32_t>(random.Below(30));
      tree.Set(at, keys[at]);
      ASSERT_EQ(tree.At(at), keys[at]);
    }
  }
}

using Merges = std::map<std::pair<TokenId, TokenId>, std::pair<int32_t, TokenId>>;

// The definition, quadratic: look at all pairs, merge the first of the least rank, start again.
std::vector<TokenId> MergeByDefinition(std::vector<TokenId> symbols, const Merges& merges) {
  for (;;) {
    size_t best = symbols.size();
    int32_t best_rank = 0;
    TokenId merged = kNoToken;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = merges.find({symbols[i], symbols[i + 1]});
      if (found == merges.end() || (best < symbols.size() && found->second.first >= best_rank))
        continue;
      best = i;
      best_rank = found->second.first;
      merged = found->second.second;
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(MergeListTest, MergesAsTheDefinitionDoesForRandomTablesInAnyOrder) {
  Random random(6);
  MergeList<int32_t> list;  // reused, as encoders do
  for (int round = 0; round < 400; ++round) {
    // Ranks in no order at all: merged symbols may merge again at once.
    Merges merges;
    const auto alphabet = static_cast<TokenId>(2 + random.Below(3));
    TokenId next = alphabet;
    for (uint64_t n = random.Below(40); n > 0; --n) {
      const auto any = [&] {
        return static_cast<TokenId>(random.Below(static_cast<uint64_t>(next)));
      };
      const std::pair<TokenId, TokenId> pair{any(), any()};
      if (merges
              .emplace(pair,
                       std::pair<int32_t, TokenId>(static_cast<int32_t>(random.Below(1000)), next))
              .second)
        ++next;
    }
    std::vector<TokenId> word(random.Below(300));
    for (TokenId& symbol : word)
      symbol = static_cast<TokenId>(random.Below(static_cast<uint64_t>(alphabet)));
    if (random.Chance(0.2)) std::fill(word.begin(), word.end(), 0);

    std::vector<TokenId>& symbols = list.symbols();
    symbols = word;
    list.Merge([&](size_t left, size_t right, size_t) -> MergeList<int32_t>::Pair {
      const auto found = merges.find({symbols[left], symbols[right]});
      if (found == merges.end()) return {};
      return {found->second.first, found->second.second};
    });
    std::vector<TokenId> got;
    for (size_t i = 0; i < symbols.size(); i = list.Next(i)) got.push_back(symbols[i]);
    ASSERT_EQ(got, MergeByDefinition(word, merges)) << "round " << round;
  }
}

}  // namespace
}  // namespace tutti::tokenizer
