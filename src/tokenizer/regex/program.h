// A tree as a graph of single steps: what an attempt to match may do next, the preferred step
// first.
//
// A step is created after those that follow it, except for the start of a loop. The steps inside
// one look-ahead are a stratum, and so are the steps outside of all look-aheads; a stratum uses
// only earlier ones. A value; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "tokenizer/regex/syntax.h"

namespace tutti::tokenizer::regex {

using StepId = uint32_t;

inline constexpr size_t kMaxSteps = 8'192;
inline constexpr size_t kMaxEmptyLoops = 64;  // loops that can go round without a character

struct Step {
  enum class Kind : uint8_t {
    kAccept,
    kConsume,    // one character of set `set`, then `next`
    kSplit,      // `next`, else `other`
    kLook,       // the steps from `other` match, or (negative) do not; then `next`
    kBehind,     // the character before is in set `set`, or (negative) is not; then `next`
    kLoopBegin,  // of empty loop `set`; then `next`
    kLoopEnd,    // `next` goes round again; `other` leaves, if nothing was read since kLoopBegin
  };
  Kind kind = Kind::kAccept;
  bool negative = false;
  uint32_t set = 0;
  StepId next = 0;
  StepId other = 0;
};

struct Program {
  std::vector<Step> steps;
  std::vector<std::vector<StepId>> strata;  // the last one is outside of look-aheads
  StepId start = 0;
  bool has_empty_loops = false;  // kLoopBegin, kLoopEnd
};

// Errors: tokenizer_limit.
Result<Program> MakeProgram(const Syntax& syntax);

}  // namespace tutti::tokenizer::regex
