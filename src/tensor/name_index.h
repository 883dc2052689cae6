// NameIndex: finds the tensors of a file by name, in O(log n).
//
// The tensors stay with the caller, who hands the same vector to every call; of each only its
// `name` is used. Immutable after Build; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tutti::tensor {

class NameIndex {
 public:
  // Returns a tensor whose name another one has too; null if all names differ.
  template <typename Tensor>
  const Tensor* Build(const std::vector<Tensor>& tensors) {
    by_name_.resize(tensors.size());
    for (size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = static_cast<uint32_t>(i);
    std::sort(by_name_.begin(), by_name_.end(),
              [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
    const auto twin = std::adjacent_find(
        by_name_.begin(), by_name_.end(),
        [&](uint32_t a, uint32_t b) { return tensors[a].name == tensors[b].name; });
    return twin == by_name_.end() ? nullptr : &tensors[*twin];
  }

  // Null when absent.
  template <typename Tensor>
  const Tensor* Find(const std::vector<Tensor>& tensors, std::string_view name) const {
    const auto at =
        std::lower_bound(by_name_.begin(), by_name_.end(), name,
                         [&](uint32_t i, std::string_view n) { return tensors[i].name < n; });
    if (at == by_name_.end() || tensors[*at].name != name) return nullptr;
    return &tensors[*at];
  }

 private:
  std::vector<uint32_t> by_name_;  // indices of the tensors
};

}  // namespace tutti::tensor
