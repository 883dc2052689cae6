// FakePrefixStore: a PrefixStore in memory, whose reads take scripted time and may fail. For tests
// and simulation; one thread. Outlives the engines that use it, one after the other, as a disk
// does.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/testing/fake_model_runner.h"
#include "kv/prefix_store.h"

namespace tutti::engine::testing {

class FakePrefixStore final : public kv::PrefixStore {
 public:
  explicit FakePrefixStore(const kv::PrefixShape& shape) : shape_(shape) {}
  explicit FakePrefixStore(const FakeModelOptions& model)
      : shape_(FakeModelRunner(model).memory_shape()) {}

  kv::PrefixShape shape() const override { return shape_; }
  std::vector<kv::StoredBlock> Find(std::string_view root, std::span<const TokenId> tokens,
                                    int first_block) override;
  kv::MissingBlocks Missing(std::string_view root, std::span<const TokenId> tokens,
                            std::span<const kv::BlockParts> parts) override;
  bool Write(kv::PrefixWrite&& write) override;
  void Read(kv::PrefixRead read) override;
  void Take(std::vector<kv::PrefixReadResult>& results) override;
  void KeepPin(kv::PinRecord record) override {
    pins_.insert_or_assign(std::string(record.id), std::move(record));
  }
  void DropPin(const std::string& id) override { pins_.erase(id); }
  std::vector<kv::PinRecord> Pins() override {
    std::vector<kv::PinRecord> records;
    for (const auto& [id, record] : pins_) records.push_back(record);
    return records;
  }
  bool Idle() const override { return true; }
  void OnProgress(std::function<void()>) override {}

  int read_delay = 0;             // calls of Take() before a read ends
  std::function<bool()> fails;    // whether a read fails; empty: none does
  std::function<bool()> refuses;  // whether there is no room for a write; empty: there is
  size_t blocks() const { return blocks_.size(); }
  void Clear() { blocks_.clear(); }
  int reads() const { return reads_; }

 private:
  struct Block {
    uint64_t file = 0;
    int place = 0;
    kv::BlockParts parts;
    std::vector<std::byte> memory;
  };
  using Key = std::pair<std::string, std::vector<TokenId>>;  // root, tokens to the block's end
  const Block* At(std::string_view root, std::span<const TokenId> tokens) const;

  const kv::PrefixShape shape_;
  std::map<Key, Block> blocks_;
  std::map<std::string, kv::PinRecord> pins_;
  uint64_t files_ = 0;
  int reads_ = 0;
  struct Reading {
    kv::PrefixRead read;
    int takes = 0;  // left
  };
  std::deque<Reading> reading_;
};

}  // namespace tutti::engine::testing
