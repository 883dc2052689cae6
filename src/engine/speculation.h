// Speculation: chooses the draft tokens of a step, their source, and the draft model's tasks
// (drafter.h). Tokens that a grammar forces come first. Tokens copied from earlier text cost
// nothing to find; the draft model costs its passes, and before them the reading of what it has not
// seen yet. A source is used where it is expected to raise tokens per second. One that does not pay
// is tried again now and then, the draft model for 1 % of the time.
//
// Owned by a Scheduler; engine thread; no I/O, no clock.
#pragma once

#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/drafter.h"
#include "engine/policy/draft_gain.h"
#include "engine/sequence.h"

namespace tutti::engine {

class Speculation {
 public:
  // `pass`: expected time of a pass of the draft model, as a multiple of a step of the model
  // itself; 0: unknown, so it is measured by trying.
  explicit Speculation(double pass = 0);

  // --- one step: its decode rows in order, then a choice over all of them ---
  void Begin();
  // `room`: tokens that fit behind those of the sequence. `forced`: whether tokens that its grammar
  // forces may be among them.
  void Add(Sequence& sequence, int room, bool forced);
  // At most `rows_left` draft tokens in all.
  void Choose(int rows_left);
  // Puts what row `i` copies behind the tokens of its sequence; so many.
  int AppendCopied(int i);
  // The draft model's tasks in this step; Drafter::Run() writes the draft tokens into them.
  std::span<DraftRequest> requests() { return requests_; }

  // --- results ---
  void ModelRan(const DraftTimes& times);
  // Verification of the model's `proposed` draft tokens accepted the first `accepted` of them.
  void NoteModel(Sequence& sequence, int proposed, int accepted);
  // A step without prompts, of so many sequences, was measured.
  void StepTook(int sequences, int draft_rows, Duration forward);

 private:
  void ChooseReading();  // who is caught up with, where that pays
  void LookAgain(int rows_left);
  int ReadAtOnce(double step_ns) const;  // tokens
  void AskToRead(int row);

  DraftCost cost_;
  PassCost passes_;
  // Acceptance counts over all sequences, by source.
  AcceptanceStats copied_{DraftSource::kCopied}, modelled_{DraftSource::kModel}, forced_;
  double allowance_ns_ = 0;  // for looks at a model that did not pay
  int look_steps_ = 0;       // left of the one that is under way

  // State of the step in progress, by row.
  std::vector<DraftOffer> offers_;
  std::vector<Sequence*> rows_;
  std::vector<int> room_;
  enum class CopyFrom : uint8_t { kText, kPrediction, kGrammar };
  std::vector<CopyFrom> copy_from_;
  std::vector<DraftRequest> requests_;
};

}  // namespace tutti::engine
