#include "engine/testing/fake_prefix_store.h"

#include <algorithm>

namespace tutti::engine::testing {

const FakePrefixStore::Block* FakePrefixStore::At(std::string_view root,
                                                  std::span<const TokenId> tokens) const {
  const auto found = blocks_.find(Key(root, std::vector<TokenId>(tokens.begin(), tokens.end())));
  return found == blocks_.end() ? nullptr : &found->second;
}

std::vector<kv::StoredBlock> FakePrefixStore::Find(std::string_view root,
                                                   std::span<const TokenId> tokens,
                                                   int first_block) {
  std::vector<kv::StoredBlock> found;
  for (auto end = static_cast<size_t>(first_block) * kBlockTokens; end < tokens.size();) {
    size_t count = std::min<size_t>(kBlockTokens, tokens.size() - end);
    const Block* block = nullptr;
    for (; count > 0; --count) {
      block = At(root, tokens.first(end + count));
      if (block != nullptr) break;
    }
    if (block == nullptr) break;
    found.push_back({.file = block->file,
                     .place = block->place,
                     .tokens = static_cast<int>(count),
                     .parts = block->parts});
    if (count < kBlockTokens) break;
    end += count;
  }
  return found;
}

kv::MissingBlocks FakePrefixStore::Missing(std::string_view root, std::span<const TokenId> tokens,
                                           std::span<const kv::BlockParts> parts) {
  kv::MissingBlocks out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Block* block = At(root, tokens.first(std::min((i + 1) * kBlockTokens, tokens.size())));
    out.names.push_back({i, 0});
    out.missing.push_back(block == nullptr ||
                          (parts[i].window_block && !block->parts.window_block) ||
                          (parts[i].state && !block->parts.state));
  }
  return out;
}

bool FakePrefixStore::Write(kv::PrefixWrite&& write) {
  if (refuses && refuses()) return false;
  ++files_;
  std::span<const std::byte> memory = write.memory;
  for (size_t i = 0; i < write.parts.size(); ++i) {
    const size_t end =
        (static_cast<size_t>(write.first_block) + i + 1) * static_cast<size_t>(kBlockTokens);
    std::vector<TokenId> tokens(
        write.tokens.begin(),
        write.tokens.begin() + static_cast<ptrdiff_t>(std::min(end, write.tokens.size())));
    const size_t bytes = kv::BytesOf(shape_, write.parts[i]);
    blocks_[Key(write.root, std::move(tokens))] = {
        .file = files_,
        .place = static_cast<int>(i),
        .parts = write.parts[i],
        .memory =
            std::vector<std::byte>(memory.begin(), memory.begin() + static_cast<ptrdiff_t>(bytes))};
    memory = memory.subspan(bytes);
  }
  return true;
}

void FakePrefixStore::Read(kv::PrefixRead read) {
  ++reads_;
  reading_.push_back({std::move(read), read_delay});
}

void FakePrefixStore::Take(std::vector<kv::PrefixReadResult>& results) {
  if (!reading_.empty() && reading_.front().takes > 0) --reading_.front().takes;
  while (!reading_.empty() && reading_.front().takes == 0) {
    const kv::PrefixRead read = std::move(reading_.front().read);
    reading_.pop_front();
    kv::PrefixReadResult& result = results.emplace_back();
    result.id = read.id;
    if (fails && fails()) continue;
    result.ok = true;
    for (size_t i = 0; i < read.blocks.size() && result.ok; ++i) {
      const size_t end = (static_cast<size_t>(read.first_block) + i) * kBlockTokens +
                         static_cast<size_t>(read.blocks[i].tokens);
      const Block* block = At(read.root, std::span(*read.tokens).first(end));
      if (block == nullptr) {
        result.ok = false;
        break;
      }
      // Only the wanted parts are returned.
      const std::span<const std::byte> memory = block->memory;
      const auto append = [&](size_t offset, size_t bytes) {
        const auto part = memory.subspan(offset, bytes);
        result.memory.insert(result.memory.end(), part.begin(), part.end());
      };
      append(0, shape_.block_bytes);
      if (read.blocks[i].parts.window_block) append(shape_.block_bytes, shape_.window_block_bytes);
      if (read.blocks[i].parts.state)
        append(memory.size() - shape_.state_bytes, shape_.state_bytes);
    }
  }
}

}  // namespace tutti::engine::testing
