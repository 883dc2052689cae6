// StateSets: determinises an automaton lazily, while it runs.
//
// A StateSet is the set of all states, with their stacks, that the automaton can be in after the
// text so far. Equal sets are stored once; a transition that was computed before is one look-up,
// and the token mask of a set is computed once too. Sets are numbered; a number is valid until
// Reset().
//
// A stack is a list of frames that stacks share: a frame holds the states in which to continue when
// the rule above it has ended. (This is a graph-structured stack: Tomita, "An efficient
// augmented-context-free parsing algorithm", 1987. The automaton has no left recursion, so the
// graph has no cycles.)
//
// One thread at a time.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/limits.h"

namespace tutti::grammar {

using SetId = uint32_t;
using FrameId = uint32_t;

class StateSets {
 public:
  static constexpr SetId kDead = 0;              // no text goes on from here, and none ends here
  static constexpr SetId kOverflow = 1;          // too many places, or a stack is too deep
  static constexpr FrameId kBottom = 0;          // where the root rule ends: the text may end
  static constexpr uint32_t kMaxPlaces = 2'048;  // of one set
  static constexpr uint32_t kMaxDepth = 4'096;   // frames of a stack
  static constexpr uint32_t kMaxSteps = 65'536;  // places, edges and calls looked at for one set

  struct Place {
    uint32_t state = 0;
    FrameId frame = kBottom;
    uint32_t count = 0;  // items so far, of a counted rule; characters, of a limited one
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& place) const;
  };
  struct Return {
    uint32_t state = 0;
    FrameId frame = kBottom;
    friend auto operator<=>(const Return&, const Return&) = default;
  };

  explicit StateSets(std::shared_ptr<const Automaton> automaton);

  // True if kOverflow follows every text that leads to some state of the automaton, because more
  // places follow the state than a set may hold, such as those of very many optional properties.
  // Texts on which several states overflow together are not foreseen.
  static bool AlwaysOverflows(const Automaton& automaton, Budget& budget);

  SetId start() const { return start_; }
  // kDead where the byte cannot follow.
  SetId Next(SetId set, uint8_t byte) {
    const uint32_t at = set * classes_ + automaton_->ClassOf(byte);
    const SetId known = next_[at];
    return known != kUnknown ? known : MakeNext(set, byte);
  }
  SetId Next(SetId set, std::string_view bytes);
  // The cost of making Next(set, byte), which was called before: places, edges and calls that were
  // looked at. Depends on set and byte alone.
  uint32_t steps(SetId set, uint8_t byte) const {
    return uint32_t{kStepUnit} * steps_[set * classes_ + automaton_->ClassOf(byte)];
  }
  uint32_t classes() const { return classes_; }
  // The text may end here.
  bool complete(SetId set) const { return sets_[set].complete; }
  bool HasPlaces(SetId set) const { return sets_[set].end > sets_[set].begin; }
  std::span<const Place> places(SetId set) const {
    return std::span(places_).subspan(sets_[set].begin, sets_[set].end - sets_[set].begin);
  }

  // --- sets whose stacks are cut off, for work that is shared by all stacks ---
  // `set` with the frames of its places replaced by open ones, numbered from 0 in the order of
  // frames(set), and its counts by others that no token of at most `reach` bytes distinguishes from
  // them. kDead if it has too many frames.
  SetId CutOff(SetId set, uint32_t reach);
  static constexpr uint32_t kMaxOpen = 8;
  // Longest token, in bytes, for which CutOff(set), which was called before, is exact: longer ones
  // may distinguish its counts from those of the set.
  uint32_t exact_bytes(SetId set) const { return sets_[set].exact_bytes; }
  // The CutOff() of a set of one place at `state`, whose counter, if its rule has one, is far from
  // both limits.
  SetId OpenAt(uint32_t state);
  // The frames of the places of `set`, each once, in the order of CutOff().
  std::vector<FrameId> Frames(SetId set) const;
  // Bit i: at this point of a set that was made from one that is cut off, open frame i is returned
  // to.
  uint32_t returns(SetId set) const { return sets_[set].returns; }
  // The set behind the end of a rule with that frame.
  SetId Resume(FrameId frame);

  size_t memory_bytes() const;
  size_t size() const { return sets_.size(); }
  const Automaton& automaton() const { return *automaton_; }
  // The set of `other` that `set` equals, where `other` runs the same automaton.
  SetId CopyTo(StateSets& other, SetId set) const;

 private:
  static constexpr SetId kUnknown = UINT32_MAX;
  static constexpr uint16_t kStepUnit = 4;
  static constexpr FrameId kOpen = 0x40000000;     // and its number
  static constexpr FrameId kPending = 0x80000000;  // and its place in pending_

  struct Set {
    uint32_t begin = 0, end = 0;  // of places_
    uint32_t returns = 0;
    bool complete = false;
    SetId cut_off = kUnknown;
    uint32_t exact_bytes = UINT32_MAX;
    std::bitset<256> follows;  // bytes that an edge of a place has
  };
  struct Frame {
    uint32_t begin = 0, end = 0;  // of returns_
    uint32_t depth = 0;
    SetId resume = kUnknown;
  };
  // A frame that is being made. All callers of a rule at one point of the text share it.
  struct Pending {
    RuleId rule = 0;
    bool ended = false;  // the rule has matched the empty text
    FrameId final = kUnknown;
    std::vector<Return> returns = {};
    std::unordered_set<uint64_t> known = {};  // of returns, where those are many
  };

  SetId MakeNext(SetId set, uint8_t byte);
  void Count(size_t steps);
  // Closes the places of work_ and finds or makes their set.
  SetId Close();
  void Visit(uint32_t state, FrameId frame, uint32_t count);
  void End(FrameId frame);
  // False where it is there already.
  static bool AddReturn(Pending& pending, const Return& to);
  void EndItem(const Place& place);
  void Call(const Automaton::CallEdge& call, const Place& from);
  FrameId Settle(FrameId frame);
  FrameId MakeFrame(std::vector<Return> returns);
  SetId MakeSet(std::vector<Place> places, bool complete, uint32_t returns);
  FrameId CopyFrame(StateSets& other, FrameId frame,
                    std::unordered_map<FrameId, FrameId>& copied) const;
  uint32_t DepthOf(FrameId frame) const { return frame >= kOpen ? 0 : frames_[frame].depth; }

  const std::shared_ptr<const Automaton> automaton_;
  const uint32_t classes_;
  std::vector<Set> sets_;
  std::vector<Place> places_;
  std::vector<SetId> next_;      // [set][class]
  std::vector<uint16_t> steps_;  // [set][class]: of next_, in units, up to the largest
  std::vector<Frame> frames_;
  std::vector<Return> returns_;
  std::unordered_multimap<uint64_t, SetId> set_ids_;      // by hash
  std::unordered_multimap<uint64_t, FrameId> frame_ids_;  // by hash
  SetId start_ = kDead;

  // Scratch of the set that is being made.
  std::vector<Place> work_;
  std::vector<Pending> pending_;
  std::unordered_set<Place, PlaceHash> visited_;  // of work_, where that is long
  bool complete_ = false;
  uint32_t open_returns_ = 0;
  bool overflowed_ = false;
  uint32_t steps_now_ = 0;
  std::vector<uint32_t> pending_of_;  // by rule: its place in pending_, where that is of the rule
};

}  // namespace tutti::grammar
