// FairOrder: the order in which owners are served, one item each in turn. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti::background {

// `waiting`: items of each owner, in the order of their turns. Returns the owner of each item that
// is served next, as an index of `waiting`, at most `room` items.
inline std::vector<size_t> FairOrder(std::span<const int64_t> waiting, int64_t room) {
  std::vector<size_t> order;
  for (int64_t round = 0, served = -1; served != std::ssize(order); ++round) {
    served = std::ssize(order);
    for (size_t i = 0; i < waiting.size() && std::ssize(order) < room; ++i) {
      if (round < waiting[i]) order.push_back(i);
    }
  }
  return order;
}

}  // namespace tutti::background
