// How many tokens a step proposes beyond those it is sure to draw: as many as make it give more
// tokens for its time. What a row more costs is measured on this machine, how often a proposal
// comes true is counted, per sequence and over all. Plain values; engine thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/clock.h"

namespace tutti::engine {

// Tokens proposed for one sequence in a step, at most.
inline constexpr int kMostDrafts = 7;
// Rows of a step that has proposals: sequences x (1 + proposals of each), at most. Beyond, a row
// more costs what a row costs, whatever the machine.
inline constexpr int kMostDraftRows = 16;
// Sequences in such a step.
inline constexpr int kMostDraftSequences = kMostDraftRows / 2;

// How often a token came as proposed, by the number of tokens before it that agreed with what the
// proposal was copied from.
class DraftHits {
 public:
  void Note(int agreed, bool hit);
  // Chance of the next, in (0, 1); `others` is what all sequences together have seen.
  double Chance(int agreed, const DraftHits& others) const;

 private:
  static constexpr int kBuckets = 5;  // agreed 1-2, 3, 4-5, 6-9, 10 and more
  static int BucketOf(int agreed);
  struct Count {
    uint16_t hits = 0, trials = 0;  // halved together, so that old ones fade
  };
  std::array<Count, kBuckets> counts_{};
};

// Measured times of steps without prompts, by sequences and rows.
class DraftCost {
 public:
  // `sequences` in [1, kMostDraftSequences], `rows` in [sequences, kMostDraftRows]; others are
  // ignored.
  void Observe(int sequences, int rows, Duration took);
  // Time of such a step as a multiple of that without proposals, >= 1. Of more rows than were ever
  // measured, that of the most that were: they are tried. Infinite before one without was measured.
  double Ratio(int sequences, int rows) const;
  // Neither too long without a step with proposals to believe that they do not pay, nor without one
  // without to know what they are worth.
  bool DueWithout() const { return since_without_ >= kLookAgain; }
  bool DueWith() const { return since_with_ >= 4 * kLookAgain; }

 private:
  static constexpr int kLookAgain = 64;  // steps
  std::array<std::array<double, kMostDraftRows + 1>, kMostDraftSequences + 1> ns_{};
  int since_with_ = 0, since_without_ = 0;
};

// One sequence of the step: what could be proposed for it, and how much of it is.
struct DraftWish {
  int available = 0;                            // tokens, in [0, kMostDrafts]
  std::array<double, kMostDrafts> chance = {};  // that all of the first i + 1 come true
  int take = 0;                                 // set by ChooseDrafts
};

// Sets `take` of each sequence. `wishes`: all of the step, at most kMostDraftSequences; with more
// nothing is proposed. At most `room` rows are added.
void ChooseDrafts(const DraftCost& cost, int room, std::span<DraftWish> wishes);

}  // namespace tutti::engine
