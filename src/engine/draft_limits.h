// How much may be proposed in one step, and read for it: what plans have room for.
#pragma once

namespace tutti::engine {

// Tokens proposed for one sequence in a step, at most.
inline constexpr int kMostDrafts = 7;
// Rows of a step that has proposals: sequences x (1 + proposals of each), at most. Beyond, a row
// more costs what a row costs, whatever the machine.
inline constexpr int kMostDraftRows = 16;
// Sequences in such a step.
inline constexpr int kMostDraftSequences = kMostDraftRows / 2;

// Tokens of a sequence that a second model reads on its way to a proposal without being asked
// whether that pays, and of a prompt in one step at most.
inline constexpr int kDraftLittleToRead = 16;
inline constexpr int kDraftReadAtMost = 128;

}  // namespace tutti::engine
