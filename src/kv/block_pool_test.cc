#include "kv/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::kv {
namespace {

TEST(KvBlockPool, AReservationDestroyedUncommittedReturnsItsBlocks) {
  KvBlockPool pool(4);
  BlockTable table;
  {
    Result<KvReservation> r = pool.Reserve(table, 3, 1);
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(table.size(), 3);
    EXPECT_EQ(pool.free(), 1);
  }
  EXPECT_EQ(table.size(), 0);
  EXPECT_EQ(pool.free(), 4);
  {
    Result<KvReservation> r = pool.Reserve(table, 3, 1);
    ASSERT_TRUE(r.ok());
    r->Commit();
  }
  EXPECT_EQ(table.size(), 3);
  pool.Release(table);
  EXPECT_EQ(pool.free(), 4);
}

TEST(KvBlockPool, ARefusalNamesTheNumbersAndChangesNothing) {
  KvBlockPool pool(4);
  BlockTable table;
  const Result<KvReservation> r = pool.Reserve(table, 5, 1);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.status().reason(), "kv_exhausted");
  EXPECT_THAT(r.status().message(),
              testing::AllOf(testing::HasSubstr("5"), testing::HasSubstr("4 of 4")));
  EXPECT_EQ(pool.free(), 4);
}

TEST(KvBlockPool, PromisedBlocksAreKeptForTheirTableOnly) {
  KvBlockPool pool(4);
  BlockTable pinned, other;
  ASSERT_TRUE(pool.Promise(pinned, 3));
  EXPECT_EQ(pool.available(), 1);
  EXPECT_FALSE(pool.Promise(other, 2));
  EXPECT_FALSE(pool.Reserve(other, 2, 1).ok());
  {
    Result<KvReservation> r =
        pool.Reserve(pinned, 2, 1);  // rolled back: the promise is whole again
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(pinned.promised(), 1);
  }
  EXPECT_EQ(pinned.promised(), 3);
  Result<KvReservation> r = pool.Reserve(pinned, 2, 1);
  ASSERT_TRUE(r.ok());
  r->Commit();
  EXPECT_EQ(pool.available(), 1);
  pool.Release(pinned);
  EXPECT_EQ(pool.available(), 4);
  EXPECT_EQ(pool.promised(), 0);
}

TEST(KvBlockPool, SharedBlocksLiveUntilTheLastHolderLetsGo) {
  KvBlockPool pool(4);
  BlockTable a, b;
  Result<KvReservation> r = pool.Reserve(a, 2, 1);
  ASSERT_TRUE(r.ok());
  r->Commit();
  pool.Share(b, a.ids());
  pool.Release(a);
  EXPECT_EQ(pool.active(), 2);
  EXPECT_EQ(pool.references(b[0]), 1);
  pool.Release(b);
  EXPECT_EQ(pool.active(), 0);
}

TEST(KvBlockPool, AFreedBlockChangesItsGeneration) {
  KvBlockPool pool(1);
  BlockTable table;
  Result<KvReservation> r = pool.Reserve(table, 1, 1);
  ASSERT_TRUE(r.ok());
  r->Commit();
  const BlockId block = table[0];
  const uint32_t generation = pool.generation(block);
  pool.Release(table);
  EXPECT_NE(pool.generation(block), generation);
}

TEST(KvBlockPool, EqualBlocksBecomeOne) {
  KvBlockPool pool(4);
  const RootId root = pool.index().AcquireRoot("", "");
  const std::vector<TokenId> tokens(kBlockTokens, 5);
  BlockTable a, b;
  for (BlockTable* table : {&a, &b}) {
    Result<KvReservation> r = pool.Reserve(*table, 1, 1);
    ASSERT_TRUE(r.ok());
    r->Commit();
  }
  EXPECT_NE(a[0], b[0]);
  pool.Index(a, 0, root, tokens);
  pool.Index(b, 0, root, tokens);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(pool.active(), 1);
  EXPECT_EQ(pool.free(), 3);
  pool.Release(a);
  pool.Release(b);
  EXPECT_EQ(pool.cached(), 1);
}

// Fills `blocks` new blocks of `table` with tokens that begin with `first`, and enters them.
void FillBlocks(KvBlockPool& pool, BlockTable& table, RootId root, int blocks, TokenId first) {
  for (int b = 0; b < blocks; ++b) {
    Result<KvReservation> r = pool.Reserve(table, 1, 1);
    ASSERT_TRUE(r.ok());
    r->Commit();
    pool.Index(table, table.size() - 1, root, std::vector<TokenId>(kBlockTokens, first + b));
  }
}

TEST(KvBlockPool, ForgottenBlocksLeaveTheIndexAndTheirTableKeepsThem) {
  KvBlockPool pool(8, {}, 2, 2);
  const RootId root = pool.index().AcquireRoot("", "");
  BlockTable table;
  FillBlocks(pool, table, root, 3, 5);
  const SlotId slot = pool.window_blocks().Take();
  pool.window_blocks().Attach(table[2], slot);
  pool.Forget(table, 0);
  EXPECT_EQ(pool.index().size(), 0);
  EXPECT_EQ(pool.window_blocks().Of(table[2]), kNoSlot);
  EXPECT_EQ(pool.active(), 3);
  std::string why;
  EXPECT_TRUE(pool.index().Check(&why)) << why;
  pool.window_blocks().Drop(slot);
  pool.Release(table);
  EXPECT_EQ(pool.free(), 8);
  pool.index().ReleaseRoot(root);
}

// Those that the table began with were not computed with it.
TEST(KvBlockPool, BlocksBeforeTheFirstAreNotForgotten) {
  KvBlockPool pool(8);
  const RootId root = pool.index().AcquireRoot("", "");
  BlockTable table;
  FillBlocks(pool, table, root, 3, 5);
  pool.Forget(table, 2);
  EXPECT_TRUE(pool.index().indexed(table[1]));
  EXPECT_FALSE(pool.index().indexed(table[2]));
  pool.Release(table);
  EXPECT_EQ(pool.cached(), 2);
  pool.index().ReleaseRoot(root);
}

TEST(KvBlockPool, BlocksThatOthersUseOrContinueAreNotForgotten) {
  KvBlockPool pool(8);
  const RootId root = pool.index().AcquireRoot("", "");
  BlockTable table, other;
  FillBlocks(pool, table, root, 2, 5);
  pool.Share(other, table.ids().first(1));
  FillBlocks(pool, other, root, 1, 20);
  pool.Release(other);
  FillBlocks(pool, table, root, 1, 7);
  pool.Share(other, table.ids().first(2));
  pool.Forget(table, 0);  // `other` uses two of the three
  EXPECT_EQ(pool.index().size(), 3);
  pool.Release(other);
  pool.Forget(table, 0);  // a cached block continues the first
  EXPECT_EQ(pool.index().size(), 2);
  EXPECT_TRUE(pool.index().indexed(table[0]));
  EXPECT_FALSE(pool.index().indexed(table[1]));
  std::string why;
  EXPECT_TRUE(pool.index().Check(&why)) << why;
  pool.Release(table);
  EXPECT_EQ(pool.cached(), 2);
}

TEST(KvBlockPool, AnInjectedFaultFailsOneOwnerOnly) {
  KvBlockPool pool(4);
  pool.SetAllocationFault([](uint32_t owner) { return owner == 7; });
  BlockTable a, b;
  EXPECT_EQ(pool.Reserve(a, 1, 7).status().reason(), "kv_exhausted");
  EXPECT_TRUE(pool.Reserve(b, 1, 8).ok());
}

}  // namespace
}  // namespace tutti::kv
