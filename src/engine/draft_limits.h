// How much may be proposed in one step: what a plan has room for, whoever proposes.
#pragma once

namespace tutti::engine {

// Tokens proposed for one sequence in a step, at most.
inline constexpr int kMostDrafts = 7;
// Rows of a step that has proposals: sequences x (1 + proposals of each), at most. Beyond, a row
// more costs what a row costs, whatever the machine.
inline constexpr int kMostDraftRows = 16;
// Sequences in such a step.
inline constexpr int kMostDraftSequences = kMostDraftRows / 2;

}  // namespace tutti::engine
