// Random numbers: a generator whose draws can be repeated, and the system's own for what nobody may
// guess.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

// Philox4x32-10, a counter-based generator: the k-th number of a stream is a pure function of (key,
// k), so preemption, retry and batch order cannot change a draw. Source: Salmon, Moraes, Dror,
// Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11.
//
// The block of four 32-bit numbers for one counter under one key. Pure.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A uniform double in [0, 1) with 53 random bits, for draw `draw` at `position` of stream (seed,
// sequence).
double UniformAt(uint64_t seed, uint32_t sequence, uint64_t position, uint32_t draw = 0);

// A sequential view of one stream, for tests, simulations and workload generators. Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  uint64_t Next();
  double Uniform();                            // [0, 1)
  uint64_t Below(uint64_t bound);              // [0, bound), bound > 0
  int64_t Between(int64_t low, int64_t high);  // [low, high]
  bool Chance(double p) { return Uniform() < p; }

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
};

// Unguessable, from the system's random generator. Any thread.
//
// `prefix` ("resp_") and 32 random hex digits.
std::string NewId(std::string_view prefix);
// 64 random bits.
uint64_t RandomBits();
// A seed of 0 or more, so that every server can carry it.
int64_t NewSeed();

}  // namespace tutti
