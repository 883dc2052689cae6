#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "tokenizer/regex/automaton.h"

namespace tutti::tokenizer::regex {

// Makes the tables, state by state, from that of the end of a text on.
class AutomatonBuilder {
 public:
  AutomatonBuilder(const Program& program, Symbols symbols)
      : program_(program), made_(std::move(symbols)), symbols_(made_.symbols_) {}

  Result<std::unique_ptr<const Automaton>> Run() {
    NumberConsumers();
    RETURN_IF_ERROR(NumberKinds());
    NumberPlaces();
    made_.shift_ = static_cast<uint32_t>(std::bit_width(symbols_.count()));
    Add(StateAtEnd());
    for (size_t state = 0; state < states_.size(); ++state) {
      const Bits consumable = states_[state];
      made_.cells_.resize((state + 1) << made_.shift_);
      for (size_t kind = 0; kind < kinds_.size(); ++kind) {
        RETURN_IF_ERROR(FindSuccessful(consumable, kinds_[kind]));
        RETURN_IF_ERROR(AddChoices());
        const auto row = static_cast<Automaton::Row>(state * kinds_.size() + kind);
        for (size_t symbol = 0; symbol <= symbols_.count(); ++symbol) {
          if (kind_of_[symbol] != kind) continue;
          auto& cell = made_.cells_[state << made_.shift_ | symbol];
          cell.row = row;
          if (symbol == symbols_.edge()) continue;
          work_ += takers_[symbol].size();
          cell.state = static_cast<uint16_t>(Add(StateBefore(symbol)));
          if (states_.size() > kMaxStates || states_.size() * kinds_.size() > kMaxStates * 4 ||
              states_.size() * kinds_.size() * made_.columns_ > kMaxChoices) {
            return TooLarge();
          }
        }
      }
    }
    return std::make_unique<const Automaton>(std::move(made_));
  }

 private:
  using Bits = std::vector<uint64_t>;
  struct HashBits {
    size_t operator()(const Bits& bits) const {
      uint64_t hash = 0;
      for (const uint64_t word : bits) hash = (hash ^ word) * 0x9E3779B97F4A7C15u ^ hash >> 29;
      return hash;
    }
  };

  static Status TooLarge() {
    return InvalidArgument("tokenizer_limit",
                           "split expression needs too large tables; shorten its counts");
  }
  static bool Has(const Bits& bits, size_t i) { return (bits[i / 64] >> (i % 64) & 1) != 0; }
  static void Put(Bits& bits, size_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }

  Bits NoConsumers() const { return Bits((consumers_.size() + 63) / 64); }

  void NumberConsumers() {
    consumer_of_.resize(program_.steps.size());
    for (StepId id = 0; id < program_.steps.size(); ++id) {
      if (program_.steps[id].kind != Step::Kind::kConsume) continue;
      consumer_of_[id] = static_cast<uint32_t>(consumers_.size());
      consumers_.push_back(id);
    }
    takers_.resize(symbols_.count());
    for (size_t symbol = 0; symbol < symbols_.count(); ++symbol) {
      for (const StepId id : consumers_) {
        if (symbols_.Holds(program_.steps[id].set, symbol)) takers_[symbol].push_back(id);
      }
    }
  }

  // Gives symbols the same kind if no test of the preceding character distinguishes them.
  Status NumberKinds() {
    std::vector<uint32_t> sets;
    for (const Step& step : program_.steps) {
      if (step.kind == Step::Kind::kBehind && std::ranges::find(sets, step.set) == sets.end())
        sets.push_back(step.set);
    }
    std::vector<std::vector<bool>> known;
    for (size_t symbol = 0; symbol <= symbols_.count(); ++symbol) {
      std::vector<bool> answers;
      for (const uint32_t set : sets) answers.push_back(symbols_.Holds(set, symbol));
      const auto it = std::ranges::find(known, answers);
      kind_of_.push_back(static_cast<size_t>(it - known.begin()));
      if (it != known.end()) continue;
      known.push_back(std::move(answers));
      kinds_.push_back(symbol);
    }
    return OkStatus();
  }

  // Only steps outside of look-aheads are places of an attempt. An attempt that is at a place will
  // succeed, so that a place before a single character needs no column.
  void NumberPlaces() {
    place_of_.assign(program_.steps.size(), 0);
    choosing_starts_ = {program_.start};
    std::vector<StepId> single_starts;
    std::vector<bool> seen(program_.steps.size());
    for (const StepId id : program_.strata.back()) {
      if (program_.steps[id].kind != Step::Kind::kConsume) continue;
      const StepId start = program_.steps[id].next;
      if (seen[start]) continue;
      seen[start] = true;
      if (program_.steps[start].kind == Step::Kind::kConsume) {
        single_starts.push_back(start);
      } else {
        place_of_[start] = static_cast<Automaton::Place>(choosing_starts_.size());
        choosing_starts_.push_back(start);
      }
    }
    made_.columns_ = static_cast<uint32_t>(choosing_starts_.size());
    for (size_t i = 0; i < single_starts.size(); ++i)
      place_of_[single_starts[i]] = static_cast<Automaton::Place>(made_.columns_ + i);
    for (const StepId start : single_starts)
      made_.only_.push_back(place_of_[program_.steps[start].next]);
    visited_.resize(program_.steps.size());
  }

  size_t Add(Bits consumable) {
    const auto [it, added] = known_.emplace(consumable, states_.size());
    if (added) states_.push_back(std::move(consumable));
    return it->second;
  }

  Bits StateAtEnd() const {
    Bits consumable = NoConsumers();
    for (size_t i = 0; i < consumers_.size(); ++i) {
      if (symbols_.Holds(program_.steps[consumers_[i]].set, symbols_.edge())) Put(consumable, i);
    }
    return consumable;
  }

  // The state of the preceding place, if `symbol` is between the two. Needs FindSuccessful.
  Bits StateBefore(size_t symbol) const {
    Bits consumable = NoConsumers();
    for (const StepId id : takers_[symbol]) {
      if (successful_[program_.steps[id].next]) Put(consumable, consumer_of_[id]);
    }
    return consumable;
  }

  // Whether a step leads to the end of a match, or of the look-ahead it belongs to, where the steps
  // `consumable` can be taken and `before` is the symbol before. The least solution, stratum by
  // stratum.
  Status FindSuccessful(const Bits& consumable, size_t before) {
    successful_.assign(program_.steps.size(), false);
    for (const std::vector<StepId>& stratum : program_.strata) {
      for (bool changed = true; changed;) {
        changed = false;
        work_ += stratum.size();
        if (work_ > kMaxWork) return TooLarge();
        for (const StepId id : stratum) {
          if (successful_[id] || !Succeeds(id, consumable, before)) continue;
          successful_[id] = changed = true;
        }
      }
    }
    return OkStatus();
  }

  bool Succeeds(StepId id, const Bits& consumable, size_t before) const {
    const Step& step = program_.steps[id];
    switch (step.kind) {
      case Step::Kind::kAccept:
        return true;
      case Step::Kind::kConsume:
        return Has(consumable, consumer_of_[id]);
      case Step::Kind::kSplit:
        return successful_[step.next] || successful_[step.other];
      case Step::Kind::kLook:
        return successful_[step.other] != step.negative && successful_[step.next];
      case Step::Kind::kBehind:
        return symbols_.Holds(step.set, before) != step.negative && successful_[step.next];
      case Step::Kind::kLoopBegin:
        return successful_[step.next];
      case Step::Kind::kLoopEnd:
        return successful_[step.next] || successful_[step.other];
    }
    return false;
  }

  // One row of the forward table. Needs FindSuccessful.
  Status AddChoices() {
    for (const StepId start : choosing_starts_) made_.choices_.push_back(Choose(start));
    return work_ > kMaxWork ? TooLarge() : OkStatus();
  }

  // The first step to take from `start` that leads to an end. Depth first in the order of
  // preference, as backtracking goes, with the loops that were begun without a character since: to
  // go round again would be to repeat oneself, so that a loop is left instead.
  Automaton::Place Choose(StepId start) {
    if (!successful_[start]) return Automaton::kNone;
    if (!program_.has_empty_loops) return ChooseAtOnce(start);
    for (const StepId id : touched_) visited_[id].clear();
    touched_.clear();
    pending_.assign(1, {start, 0});
    while (!pending_.empty()) {
      const auto [id, loops] = pending_.back();
      pending_.pop_back();
      ++work_;
      const Step& step = program_.steps[id];
      if (!successful_[id] || std::ranges::find(visited_[id], loops) != visited_[id].end())
        continue;
      if (visited_[id].empty()) touched_.push_back(id);
      visited_[id].push_back(loops);
      if (work_ > kMaxWork) break;
      switch (step.kind) {
        case Step::Kind::kAccept:
          return Automaton::kEnd;
        case Step::Kind::kConsume:
          return place_of_[step.next];
        case Step::Kind::kSplit:
          pending_.push_back({step.other, loops});
          pending_.push_back({step.next, loops});
          break;
        case Step::Kind::kLook:
        case Step::Kind::kBehind:
          pending_.push_back({step.next, loops});  // the test is part of successful_
          break;
        case Step::Kind::kLoopBegin:
          pending_.push_back({step.next, loops | uint64_t{1} << step.set});
          break;
        case Step::Kind::kLoopEnd: {
          const uint64_t mark = uint64_t{1} << step.set;
          if ((loops & mark) != 0) {
            pending_.push_back({step.other, loops & ~mark});
          } else {
            pending_.push_back({step.next, loops});
          }
          break;
        }
      }
    }
    return Automaton::kNone;
  }

  // For expressions in which no loop can repeat itself: the first successful branch is the one to
  // take.
  Automaton::Place ChooseAtOnce(StepId id) {
    while (true) {
      ++work_;
      const Step& step = program_.steps[id];
      if (step.kind == Step::Kind::kAccept) return Automaton::kEnd;
      if (step.kind == Step::Kind::kConsume) return place_of_[step.next];
      id = step.kind == Step::Kind::kSplit && !successful_[step.next] ? step.other : step.next;
    }
  }

  struct Pending {
    StepId step;
    uint64_t loops;  // begun since the last character
  };

  const Program& program_;
  Automaton made_;
  const Symbols& symbols_;
  std::vector<StepId> consumers_;
  std::vector<uint32_t> consumer_of_;        // [step]
  std::vector<std::vector<StepId>> takers_;  // [symbol]
  std::vector<size_t> kind_of_;              // [symbol]
  std::vector<size_t> kinds_;                // a symbol of each kind
  std::vector<Automaton::Place> place_of_;   // [step]
  std::vector<StepId> choosing_starts_;      // [place], of those with a column
  std::vector<Bits> states_;                 // the steps that can be taken in each state
  std::unordered_map<Bits, size_t, HashBits> known_;
  std::vector<uint8_t> successful_;             // [step], of the state at hand
  std::vector<std::vector<uint64_t>> visited_;  // [step], of the choice at hand
  std::vector<StepId> touched_;
  std::vector<Pending> pending_;
  size_t work_ = 0;
};

Result<std::unique_ptr<const Automaton>> Automaton::Create(const Program& program,
                                                           Symbols symbols) {
  return AutomatonBuilder(program, std::move(symbols)).Run();
}

}  // namespace tutti::tokenizer::regex
