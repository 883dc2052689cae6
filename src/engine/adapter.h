// Adapter: a change of a model's weights that single requests use, such as a LoRA. The engine only
// passes it to the runner, keeps it alive and partitions the prefix index by it.
//
// Immutable and shared; any thread. Each request holds a reference until it ends, so that an
// adapter can be unloaded while requests use it. Implemented by the runner that multiplies it.
#pragma once

#include <atomic>
#include <string>
#include <utility>

namespace tutti::engine {

class Adapter {
 public:
  virtual ~Adapter() = default;
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  // Names its contents: adapters of equal digests give equal answers. Never empty.
  const std::string& digest() const { return digest_; }

  // Sequences with this adapter. The schedulers that have them write; any thread reads.
  struct Use {
    std::atomic<int> running{0}, waiting{0};
  };
  Use& use() const { return use_; }

 protected:
  explicit Adapter(std::string digest) : digest_(std::move(digest)) {}

 private:
  const std::string digest_;
  mutable Use use_;
};

}  // namespace tutti::engine
