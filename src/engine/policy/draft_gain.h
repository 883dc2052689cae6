// How many tokens a step proposes beyond those it is sure to draw: as many as make it give more
// tokens for its time. What a row more costs is measured on this machine, how often a proposal
// comes true is counted, per sequence and over all. Plain values; engine thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "engine/draft_limits.h"

namespace tutti::engine {

// Where the tokens come from that a step proposes for a sequence.
enum class DraftSource : uint8_t {
  kCopied,  // from the text itself, at no cost
  kModel,   // drawn by a second, smaller model, a pass for each
};

// How often a token came as proposed, by the number of tokens before it that agreed with what the
// proposal was copied from; of a model's, by how many before it the model had right.
class DraftHits {
 public:
  explicit DraftHits(DraftSource source = DraftSource::kCopied) : source_(source) {}
  void Note(int agreed, bool hit);
  // Chance of the next, in (0, 1); `others` is what all sequences together have seen.
  double Chance(int agreed, const DraftHits& others) const;
  void Fade();  // what was counted weighs half

 private:
  static constexpr int kBuckets = 5;  // agreed 1-2, 3, 4-5, 6-9, 10 and more
  static int BucketOf(int agreed);
  struct Count {
    uint16_t hits = 0, trials = 0;  // halved together, so that old ones fade
  };
  DraftSource source_;
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
  // Nanoseconds of a step without proposals; 0 before one was measured.
  double Without(int sequences) const;
  // Neither too long without a step with proposals to believe that they do not pay, nor without one
  // without to know what they are worth.
  bool DueWithout() const { return since_without_ >= kLookAgain; }
  bool DueWith() const { return since_with_ >= 4 * kLookAgain; }

 private:
  static constexpr int kLookAgain = 64;  // steps
  std::array<std::array<double, kMostDraftRows + 1>, kMostDraftSequences + 1> ns_{};
  int since_with_ = 0, since_without_ = 0;
};

// Times of the second model: of a pass that draws a token for each of some sequences, and of
// reading tokens that it has not seen. Before the first of a kind was measured, what its size lets
// expect: one that is as large as the model is not read a prompt only to be found out.
class PassCost {
 public:
  // `expected`: a pass as a multiple of the model's own step, such as the ratio of their weights;
  // 0: nobody knows, and it is tried.
  explicit PassCost(double expected = 0) : expected_(expected) {}
  // `sequences` in [1, kMostDraftSequences]; others are ignored.
  void ObservePasses(int sequences, int passes, Duration took);
  void ObserveCatchUp(int rows, Duration took);
  // Nanoseconds of one pass; where none of so many sequences was measured, of the nearest number
  // that was. `step`: of a step of the model itself without proposals.
  double Pass(int sequences, double step) const;
  // Nanoseconds of one token of a prompt.
  double Row(double step) const;

 private:
  double expected_;
  std::array<double, kMostDraftSequences + 1> ns_{};
  double row_ns_ = 0;
};

// One sequence of the step: what could be proposed for it, and how much of it is.
struct DraftWish {
  DraftSource source = DraftSource::kCopied;
  int available = 0;                            // tokens, in [0, kMostDrafts]
  std::array<double, kMostDrafts> chance = {};  // that all of the first i + 1 come true
  int take = 0;                                 // set by ChooseDrafts
};

// Sets `take` of each sequence. `wishes`: all of the step, at most kMostDraftSequences; with more
// nothing is proposed. At most `room` rows are added. What is the model's costs its passes, as many
// as the longest of its proposals has tokens.
void ChooseDrafts(const DraftCost& cost, const PassCost& passes, int room,
                  std::span<DraftWish> wishes);

// Tokens for the time, as a multiple of what steps without proposals give, if the model proposed
// for each of so many sequences, with these chances that all of the first i + 1 come true; >= 1.
double ModelGain(const DraftCost& cost, const PassCost& passes, int sequences,
                 const std::array<double, kMostDrafts>& chance);

}  // namespace tutti::engine
