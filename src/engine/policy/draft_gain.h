// Decides how many draft tokens a step verifies: as many as maximise the expected tokens per
// second. The cost of an additional row is measured on this machine; acceptance rates are counted
// for each sequence and over all. Plain values; engine thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "engine/options.h"

namespace tutti::engine {

// Source of a sequence's draft tokens in a step.
enum class DraftSource : uint8_t {
  kCopied,  // copied from the text, a prediction or a grammar, at no cost
  kModel,   // drawn by the draft model, one pass for each token
};

// Acceptance rates of draft tokens, by the number of agreeing tokens before them: for copies, those
// that equal the place copied from; for the draft model, its last tokens that were accepted.
class AcceptanceStats {
 public:
  explicit AcceptanceStats(DraftSource source = DraftSource::kCopied) : source_(source) {}
  void Note(int agreed, bool hit);
  // Estimated acceptance rate of the next token, in (0, 1); `others` are the counts of all
  // sequences, used while this one has few.
  double Chance(int agreed, const AcceptanceStats& others) const;
  void Fade();  // halves the weight of all counts so far

 private:
  static constexpr int kBuckets = 5;  // agreed 1-2, 3, 4-5, 6-9, 10 and more
  static int BucketOf(int agreed);
  struct Count {
    uint16_t hits = 0, trials = 0;  // halved together, so that old ones fade
  };
  DraftSource source_;
  std::array<Count, kBuckets> counts_{};
};

// Measured times of steps without prefill, by numbers of sequences and rows.
class DraftCost {
 public:
  // `sequences` in [1, kMaxDraftSequences], `rows` in [sequences, kMaxDraftRows]; others are
  // ignored.
  void Observe(int sequences, int rows, Duration took);
  // Time of a step with `rows` rows as a multiple of one without draft tokens, >= 1. For more rows
  // than were measured, the ratio of the most measured ones, so that they are tried. Infinite until
  // a step without draft tokens was measured.
  double Ratio(int sequences, int rows) const;
  // Nanoseconds of a step without draft tokens; 0 before one was measured.
  double Without(int sequences) const;
  // Whether the measurement of steps without, or with, draft tokens is so old that one is due.
  bool DueWithout() const { return since_without_ >= kLookAgain; }
  bool DueWith() const { return since_with_ >= 4 * kLookAgain; }

 private:
  static constexpr int kLookAgain = 64;  // steps
  std::array<std::array<double, kMaxDraftRows + 1>, kMaxDraftSequences + 1> ns_{};
  int since_with_ = 0, since_without_ = 0;
};

// Times of the draft model: of a pass that drafts one token for each of several sequences, and of
// reading tokens that it has not seen. Until they are measured they are estimated from the draft
// model's size, so that a model too large to pay is not given a prompt only to measure it.
class PassCost {
 public:
  // `expected`: time of a pass as a multiple of the model's own step, such as the ratio of their
  // weights; 0: unknown, and it is tried.
  explicit PassCost(double expected = 0) : expected_(expected) {}
  // `sequences` in [1, kMaxDraftSequences]; others are ignored.
  void ObservePasses(int sequences, int passes, Duration took);
  void ObserveCatchUp(int rows, Duration took);
  // Nanoseconds of one pass for `sequences`, or for the nearest number that was measured. `step`:
  // nanoseconds of a step of the model itself without draft tokens.
  double Pass(int sequences, double step) const;
  // Nanoseconds of one token of a prompt.
  double Row(double step) const;

 private:
  double expected_;
  std::array<double, kMaxDraftSequences + 1> ns_{};
  double row_ns_ = 0;
};

// One sequence of a step: the draft tokens available for it, and how many are used.
struct DraftOffer {
  DraftSource source = DraftSource::kCopied;
  int available = 0;                           // tokens, in [0, kMaxDrafts]
  std::array<double, kMaxDrafts> chance = {};  // [i]: all of the first i + 1 are accepted
  int take = 0;                                // set by ChooseDrafts
};

// Sets `take` of each sequence. `offers`: all sequences of the step; with more than
// kMaxDraftSequences there are no draft tokens. At most `room` rows are added. Draft tokens of the
// draft model cost passes, as many as its longest draft has tokens.
void ChooseDrafts(const DraftCost& cost, const PassCost& passes, int room,
                  std::span<DraftOffer> offers);

// Expected tokens per second, as a multiple of steps without draft tokens, if the draft model
// drafted for all `sequences`; `chance` as in DraftOffer. >= 1.
double ModelGain(const DraftCost& cost, const PassCost& passes, int sequences,
                 const std::array<double, kMaxDrafts>& chance);

}  // namespace tutti::engine
