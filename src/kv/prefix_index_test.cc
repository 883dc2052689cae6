#include "kv/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"
#include "kv/block_pool.h"

namespace tutti::kv {
namespace {

std::vector<TokenId> Tokens(int from, int count) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

// Computes `tokens` as a sequence would: takes blocks, enters the full ones and the tail, lets go.
void Remember(KvBlockPool& pool, RootId root, const std::vector<TokenId>& tokens) {
  BlockTable table;
  const int blocks = BlocksFor(static_cast<int>(tokens.size()));
  Result<KvReservation> reservation = pool.Reserve(table, blocks, 1);
  ASSERT_TRUE(reservation.ok());
  reservation->Commit();
  for (int i = 0; i < blocks; ++i) {
    const size_t from = static_cast<size_t>(i) * kBlockTokens;
    const size_t count = std::min<size_t>(kBlockTokens, tokens.size() - from);
    pool.Index(table, i, root, std::span(tokens).subspan(from, count));
  }
  pool.Release(table);
}

TEST(PrefixIndex, FindsTheLongestBeginningInWholeBlocksAndAPartialOne) {
  KvBlockPool pool(16);
  const RootId root = pool.index().AcquireRoot("t", "");
  Remember(pool, root, Tokens(0, 80));  // two full blocks and 16 tokens

  std::vector<BlockId> blocks;
  std::vector<TokenId> prompt = Tokens(0, 70);
  prompt.push_back(999);
  const PrefixIndex::Match match = pool.index().Lookup(root, prompt, blocks);
  EXPECT_EQ(match.full_blocks, 2);
  EXPECT_EQ(match.partial_tokens, 6);
  EXPECT_EQ(blocks.size(), 2u);

  blocks.clear();
  EXPECT_EQ(pool.index().Lookup(root, Tokens(1, 70), blocks).full_blocks, 0);
  EXPECT_TRUE(blocks.empty());
}

TEST(PrefixIndex, TenantsSaltsAndAdaptersDoNotShare) {
  KvBlockPool pool(16);
  PrefixIndex& index = pool.index();
  const RootId a = index.AcquireRoot("ab", "c");
  const RootId b = index.AcquireRoot("a", "bc");
  EXPECT_NE(a, b);
  EXPECT_EQ(index.AcquireRoot("ab", "c"), a);
  const RootId adapted = index.AcquireRoot("ab", "c", "d");
  EXPECT_NE(adapted, a);
  EXPECT_NE(index.AcquireRoot("ab", "", "cd"), adapted);
  Remember(pool, a, Tokens(0, 64));
  std::vector<BlockId> blocks;
  EXPECT_EQ(index.Lookup(a, Tokens(0, 64), blocks).full_blocks, 2);
  EXPECT_EQ(index.Lookup(b, Tokens(0, 64), blocks).full_blocks, 0);
  EXPECT_EQ(index.Lookup(adapted, Tokens(0, 64), blocks).full_blocks, 0);
  EXPECT_EQ(index.Lookup(b, Tokens(0, 64), blocks).partial_tokens, 0);
}

TEST(PrefixIndex, EvictsTheLeastRecentlyUsedLeafFirst) {
  KvBlockPool pool(4);
  const RootId root = pool.index().AcquireRoot("", "");
  Remember(pool, root, Tokens(0, 64));    // blocks A0 A1
  Remember(pool, root, Tokens(100, 64));  // blocks B0 B1
  EXPECT_EQ(pool.cached(), 4);
  {  // use A again: B's leaf is now the oldest
    std::vector<BlockId> blocks;
    pool.index().Lookup(root, Tokens(0, 64), blocks);
    BlockTable table;
    pool.Share(table, blocks);
    pool.Release(table);
  }
  BlockTable table;
  Result<KvReservation> r = pool.Reserve(table, 1, 1);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(pool.evicted(), 1u);
  std::vector<BlockId> blocks;
  EXPECT_EQ(pool.index().Lookup(root, Tokens(0, 64), blocks).full_blocks, 2);
  EXPECT_EQ(pool.index().Lookup(root, Tokens(100, 64), blocks).full_blocks,
            1);  // its first block is still indexed
  r->Return();
}

// N03: with the hash cut to 8 bits, 10,000 requests over 4 tenants never get a block of other
// tokens.
TEST(PrefixIndex, CollisionsNeverGiveWrongReuse) {
  PrefixOptions options;
  options.hash_bits = 8;
  KvBlockPool pool(600, options);
  Random random(7);
  // The true contents of each block, by root: filled in as blocks are written.
  struct Content {
    RootId root = kNoRoot;
    std::vector<TokenId> before_and_in;  // all tokens up to the end of the block
  };
  std::vector<Content> content(600);
  std::vector<RootId> roots;
  for (const char* tenant : {"a", "b", "c", "d"})
    roots.push_back(pool.index().AcquireRoot(tenant, ""));
  int64_t reused = 0;
  for (int request = 0; request < 10'000; ++request) {
    const RootId root = roots[random.Below(roots.size())];
    // Few distinct tokens, so that beginnings repeat.
    std::vector<TokenId> tokens(1 + random.Below(5 * kBlockTokens));
    TokenId value = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i % kBlockTokens == 0) value = static_cast<TokenId>(random.Below(12));
      tokens[i] = value + static_cast<TokenId>(i % 3);
    }
    std::vector<BlockId> blocks;
    const auto match = pool.index().Lookup(root, tokens, blocks);
    reused += match.full_blocks;
    const auto expect_content = [&](BlockId b, size_t end) {
      const Content& c = content[static_cast<size_t>(b)];
      ASSERT_EQ(c.root, root);
      ASSERT_GE(c.before_and_in.size(), end);
      ASSERT_TRUE(std::equal(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end),
                             c.before_and_in.begin()));
    };
    for (size_t i = 0; i < blocks.size(); ++i) expect_content(blocks[i], (i + 1) * kBlockTokens);
    if (match.partial != kNoBlock) {
      expect_content(match.partial,
                     blocks.size() * kBlockTokens + static_cast<size_t>(match.partial_tokens));
    }
    BlockTable table;
    pool.Share(table, blocks);
    const int need = BlocksFor(static_cast<int>(tokens.size())) - table.size();
    Result<KvReservation> reservation = pool.Reserve(table, need, 1);
    ASSERT_TRUE(reservation.ok());
    reservation->Commit();
    for (int i = match.full_blocks; i < table.size(); ++i) {
      const size_t end = std::min(tokens.size(), static_cast<size_t>(i + 1) * kBlockTokens);
      content[static_cast<size_t>(table[i])] = {
          root, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end)}};
      const size_t from = static_cast<size_t>(i) * kBlockTokens;
      pool.Index(table, i, root, std::span(tokens).subspan(from, end - from));
    }
    pool.Release(table);
    std::string why;
    if (request % 97 == 0) {
      ASSERT_TRUE(pool.index().Check(&why)) << why;
    }
  }
  EXPECT_GT(reused, 5'000);
  EXPECT_GT(pool.evicted(), 100u);
  EXPECT_EQ(pool.active(), 0);
}

TEST(PrefixIndex, RootsAreForgottenWithTheirLastNodeAndHolder) {
  KvBlockPool pool(4);
  PrefixIndex& index = pool.index();
  const RootId a = index.AcquireRoot("a", "");
  Remember(pool, a, Tokens(0, 128));
  index.ReleaseRoot(a);
  const RootId b = index.AcquireRoot("b", "");
  EXPECT_NE(b, a);  // the nodes of `a` are still there
  BlockTable table;
  Result<KvReservation> r = pool.Reserve(table, 4, 1);  // evicts them all
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(index.AcquireRoot("c", ""), a);
  std::string why;
  EXPECT_TRUE(index.Check(&why)) << why;
}

TEST(PrefixIndex, ExplainsADifference) {
  KvBlockPool pool(16);
  const PrefixIndex& index = pool.index();
  const RootId root = pool.index().AcquireRoot("t", "");
  EXPECT_EQ(index.Explain(root, Tokens(0, 80)).known, 0);
  EXPECT_FALSE(index.Explain(root, Tokens(0, 80)).differs);
  Remember(pool, root, Tokens(0, 80));
  std::vector<TokenId> prompt = Tokens(0, 100);
  const PrefixIndex::Explanation longer = index.Explain(root, prompt);
  EXPECT_EQ(longer.known, 80);
  EXPECT_FALSE(longer.differs) << "what is known ends there";
  prompt[70] = 999;
  EXPECT_EQ(index.Explain(root, prompt).known, 70);
  EXPECT_TRUE(index.Explain(root, prompt).differs);
  prompt[10] = 999;
  EXPECT_EQ(index.Explain(root, prompt).known, 10);
  EXPECT_TRUE(index.Explain(root, prompt).differs);
  prompt[0] = 999;
  EXPECT_EQ(index.Explain(root, prompt).known, 0);
  EXPECT_TRUE(index.Explain(root, prompt).differs);
  EXPECT_FALSE(index.Explain(root, prompt).evicted);
}

TEST(PrefixIndex, RemembersWhatItEvicted) {
  KvBlockPool pool(4);
  const RootId root = pool.index().AcquireRoot("t", "");
  Remember(pool, root, Tokens(0, 110));
  EXPECT_FALSE(pool.index().Explain(root, Tokens(0, 110)).evicted);
  Remember(pool, root, Tokens(500, 96));
  const PrefixIndex::Explanation why = pool.index().Explain(root, Tokens(0, 110));
  EXPECT_EQ(why.known, 32);
  EXPECT_TRUE(why.evicted);
  EXPECT_TRUE(pool.index().Explain(root, Tokens(0, 64)).evicted);
  std::vector<TokenId> other = Tokens(0, 110);
  other[40] = 999;
  EXPECT_FALSE(pool.index().Explain(root, other).evicted) << "these tokens were never there";
}

TEST(PrefixIndex, SaysNothingOfOtherTenants) {
  KvBlockPool pool(8);
  PrefixIndex& index = pool.index();
  const RootId a = index.AcquireRoot("a", "salt"), plain = index.AcquireRoot("a", "");
  const RootId b = index.AcquireRoot("b", "salt"), longer = index.AcquireRoot("as", "alt");
  Remember(pool, a, Tokens(0, 64));
  EXPECT_TRUE(index.Explain(plain, Tokens(0, 64)).other_salt);
  for (const RootId root : {b, longer}) {
    EXPECT_EQ(index.Explain(root, Tokens(0, 64)).known, 0);
    EXPECT_FALSE(index.Explain(root, Tokens(0, 64)).other_salt);
  }
  // The place of a root that is gone may become another tenant's.
  index.ReleaseRoot(a);
  Remember(pool, b, Tokens(1000, 256));
  EXPECT_TRUE(index.Explain(index.AcquireRoot("a", "salt"), Tokens(0, 64)).evicted);
  for (const char* tenant : {"c", "d", "e", "f"}) {
    EXPECT_FALSE(index.Explain(index.AcquireRoot(tenant, ""), Tokens(0, 64)).evicted) << tenant;
  }
}

}  // namespace
}  // namespace tutti::kv
