// Speculation: which tokens a step proposes for the sequences that decode in it, from where, and
// what may be asked of the second model for that (drafter.h). What a grammar forces comes first.
// What is copied from the text costs nothing to find; the model costs its passes, and before them
// the reading of what it has not seen. Both are taken where tokens for the time promise to be more
// than without; what does not pay is looked at again now and then, the model for one part in a
// hundred of the time.
//
// Part of a Scheduler; engine thread, pure.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/drafter.h"
#include "engine/policy/draft_gain.h"
#include "engine/sequence.h"

namespace tutti::engine {

class Speculation {
 public:
  // `pass`: what a pass of the second model is expected to take, as a multiple of a step of the
  // model itself; 0: nobody knows, and it is tried.
  explicit Speculation(double pass = 0);

  // --- one step: its decode rows in order, then a choice over all of them ---
  void Begin();
  // `room`: tokens that could stand behind those of the sequence. `forced`: what its grammar forces
  // may be among them.
  void Add(Sequence& sequence, int room, bool forced);
  // At most `rows_left` proposals in all.
  void Choose(int rows_left);
  // Puts what row `i` copies behind the tokens of its sequence; so many.
  int AppendCopied(int i);
  // What the model is to do beside this step; whoever runs it writes the proposals in.
  std::span<DraftAsk> asks() { return asks_; }

  // --- what came of it ---
  void ModelRan(const DraftTimes& times);
  // Of `proposed` tokens of the model, the first `accepted` were drawn.
  void NoteModel(Sequence& sequence, int proposed, int accepted);
  // A step without prompts, of so many sequences, was measured.
  void StepTook(int sequences, int proposals, Duration forward);

 private:
  void ChooseReading();  // who is caught up with, where that pays
  void LookAgain(int rows_left);
  int ReadAtOnce(double step_ns) const;  // tokens
  void AskToRead(int row);

  DraftCost cost_;
  PassCost passes_;
  // Of all sequences.
  DraftHits copied_{DraftSource::kCopied}, modelled_{DraftSource::kModel}, forced_;
  double allowance_ns_ = 0;  // for looks at a model that did not pay
  int look_steps_ = 0;       // left of the one that is under way

  // Of the step.
  std::vector<DraftWish> wishes_;
  std::vector<Sequence*> rows_;
  std::vector<int> room_;
  enum class CopyFrom : uint8_t { kText, kPrediction, kGrammar };
  std::vector<CopyFrom> copy_from_;
  std::vector<DraftAsk> asks_;
};

}  // namespace tutti::engine
