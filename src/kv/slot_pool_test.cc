#include "kv/slot_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "kv/block_pool.h"

namespace tutti::kv {
namespace {

TEST(SlotPool, ASlotIsFreeActiveOrCached) {
  SlotPool pool(2, 8);
  const SlotId a = pool.Take();
  const SlotId b = pool.Take();
  EXPECT_NE(a, b);
  EXPECT_EQ(pool.Take(), kNoSlot);
  EXPECT_EQ(pool.active(), 2);
  pool.Attach(5, a);
  pool.Drop(a);
  pool.Drop(b);
  EXPECT_EQ(pool.cached(), 1);
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(pool.Of(5), a);
  pool.Reference(a);
  EXPECT_EQ(pool.active(), 1);
  pool.Forget(5);  // the block is evicted while the checkpoint is being copied from
  EXPECT_EQ(pool.Of(5), kNoSlot);
  EXPECT_EQ(pool.active(), 1);
  pool.Drop(a);
  EXPECT_EQ(pool.free(), 2);
}

TEST(SlotPool, TheLeastRecentlyUsedCheckpointIsEvicted) {
  SlotPool pool(3, 8);
  for (BlockId block = 0; block < 3; ++block) {
    const SlotId id = pool.Take();
    pool.Attach(block, id);
    pool.Drop(id);
  }
  pool.Reference(pool.Of(0));
  pool.Drop(pool.Of(0));
  pool.Drop(pool.Take());
  EXPECT_EQ(pool.Of(1), kNoSlot);
  EXPECT_NE(pool.Of(0), kNoSlot);
  EXPECT_NE(pool.Of(2), kNoSlot);
  EXPECT_EQ(pool.evicted(), 1u);
  EXPECT_EQ(pool.free(), 1);
}

TEST(SlotPool, ABlockKeepsItsFirstCheckpoint) {
  SlotPool pool(2, 8);
  const SlotId a = pool.Take(), b = pool.Take();
  pool.Attach(3, a);
  pool.Attach(3, b);
  EXPECT_EQ(pool.Of(3), a);
  pool.Drop(b);
  EXPECT_EQ(pool.free(), 1);
}

TEST(SlotPool, CountsStayRightUnderRandomUse) {
  Random random(3);
  SlotPool pool(9, 16);
  std::vector<SlotId> held;
  for (int i = 0; i < 20'000; ++i) {
    const auto block = static_cast<BlockId>(random.Below(16));
    switch (random.Below(5)) {
      case 0:
      case 1:
        if (const SlotId id = pool.Take(); id != kNoSlot) {
          if (random.Chance(0.5)) pool.Attach(block, id);
          held.push_back(id);
        } else {
          EXPECT_EQ(pool.active(), 9);
        }
        break;
      case 2:
        if (pool.Of(block) != kNoSlot) {
          pool.Reference(pool.Of(block));
          held.push_back(pool.Of(block));
        }
        break;
      case 3:
        pool.Forget(block);
        break;
      default:
        if (held.empty()) break;
        std::swap(held[random.Below(held.size())], held.back());
        pool.Drop(held.back());
        held.pop_back();
    }
    std::string why;
    ASSERT_TRUE(pool.Check(&why)) << why;
  }
  EXPECT_GT(pool.evicted(), 100u);
}

std::vector<TokenId> TokensFrom(int from, int count) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = from + i;
  return tokens;
}

// Enters `tokens` with a checkpoint at each of `ends`, which are ends of blocks or of all tokens.
void RememberStates(KvBlockPool& pool, RootId root, const std::vector<TokenId>& tokens,
                    const std::vector<int>& ends) {
  BlockTable table;
  const int blocks = BlocksFor(static_cast<int>(tokens.size()));
  Result<KvReservation> reservation = pool.Reserve(table, blocks, 1);
  ASSERT_TRUE(reservation.ok());
  reservation->Commit();
  for (int i = 0; i < blocks; ++i) {
    const size_t from = static_cast<size_t>(i) * kBlockTokens;
    const size_t count = std::min<size_t>(kBlockTokens, tokens.size() - from);
    const BlockId block = pool.Index(table, i, root, std::span(tokens).subspan(from, count));
    if (std::find(ends.begin(), ends.end(), static_cast<int>(from + count)) == ends.end()) continue;
    const SlotId id = pool.states().Take();
    pool.states().Attach(block, id);
    pool.states().Drop(id);
  }
  pool.Release(table);
}

TEST(SlotPool, AHitEndsAtTheDeepestCheckpoint) {
  KvBlockPool pool(32, {}, 8);
  const RootId root = pool.index().AcquireRoot("t", "");
  RememberStates(pool, root, TokensFrom(0, 170), {64, 170});
  const auto find = [&](const std::vector<TokenId>& tokens, bool partial = true) {
    std::vector<BlockId> blocks;
    const auto match = pool.index().LookupWith(
        root, tokens, {.states = &pool.states(), .partial = partial}, blocks);
    EXPECT_EQ(blocks.size(), static_cast<size_t>(match.full_blocks));
    return match.full_blocks * kBlockTokens + match.partial_tokens;
  };
  EXPECT_EQ(find(TokensFrom(0, 200)), 170);
  EXPECT_EQ(find(TokensFrom(0, 170)), 170);
  EXPECT_EQ(find(TokensFrom(0, 169)), 64);  // part of a partly filled block is not enough
  EXPECT_EQ(find(TokensFrom(0, 200), /*partial=*/false), 64);
  EXPECT_EQ(find(TokensFrom(0, 70)), 64);
  EXPECT_EQ(find(TokensFrom(0, 63)), 0);
  EXPECT_EQ(find(TokensFrom(1, 63)), 0);
  // A longer text with the same beginning has full blocks without checkpoints: the partly filled
  // one is still found.
  RememberStates(pool, root, TokensFrom(0, 260), {});
  EXPECT_EQ(find(TokensFrom(0, 300)), 170);
  RememberStates(pool, root, TokensFrom(0, 260), {224});
  EXPECT_EQ(find(TokensFrom(0, 300)), 224);
}

TEST(SlotPool, ACheckpointGoesWithItsBlock) {
  KvBlockPool pool(4, {}, 2);
  const RootId root = pool.index().AcquireRoot("t", "");
  RememberStates(pool, root, TokensFrom(0, 128), {64, 128});
  EXPECT_EQ(pool.states().cached(), 2);
  BlockTable table;
  Result<KvReservation> reservation = pool.Reserve(table, 1, 1);  // evicts the last block
  ASSERT_TRUE(reservation.ok());
  EXPECT_EQ(pool.states().cached(), 1);
  EXPECT_EQ(pool.states().free(), 1);
  EXPECT_EQ(pool.states().evicted(), 0u);
}

}  // namespace
}  // namespace tutti::kv
