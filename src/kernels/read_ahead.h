// ReadAhead: memory that is asked for while something else is multiplied.
//
// A product of many rows leaves the memory idle, and the attention after it waits for memory: the
// keys and values of a decoding sequence lie in runs of some kilobytes, too short for a core's own
// prefetchers to get up to speed. So the worker tells the product what it will read next, and the
// register tiles ask for a few lines of it per block (1.01-1.06 x of a decode step of 8 to 10
// sequences on Zen 4).
//
// Owner: a worker of the pass; plain data, no other thread looks at it. Units: bytes and lines of
// 64. A hint: it changes no result, and nothing checks the addresses, since a prefetch cannot
// fault.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::kernels {

struct ReadAhead {
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
