// Prefetch: a list of memory to prefetch during a matrix product.
//
// A product of many rows leaves the memory bus idle, and the attention after it waits for memory:
// the keys and values of a decoding sequence lie in runs of some kilobytes, too short for a core's
// own prefetchers to get up to speed. So the worker passes to the product the memory that it will
// read next, and the register tiles prefetch a few lines of it per block (a decode step of 8 to 10
// sequences becomes 1.01-1.06 x as fast on Zen 4).
//
// Owner: a worker of the pass; plain data, used by no other thread. Units: bytes, and cache lines
// of
// 64. It is a hint: it changes no result, and addresses are not checked, since a prefetch cannot
// fault.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::kernels {

struct Prefetch {
  struct Run {
    size_t offset;  // bytes from base
    int32_t lines;  // >= 1
  };
  const uint8_t* base = nullptr;
  const Run* runs = nullptr;
  int32_t count = 0;
  int32_t run = 0;   // the first that is not yet asked for,
  int32_t line = 0;  // from this line on
};

}  // namespace tutti::kernels
