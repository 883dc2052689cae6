// Automaton: a compiled expression as two tables, and the search with them.
//
// A text is read twice. The backward pass computes a state for each place: the set of the program's
// steps from which a match can still be completed. This state answers every look-ahead and shows
// where a match can begin. In the forward pass, an attempt takes at each place the first step, in
// the order of preference, that the state of the place allows. It never fails and never goes back,
// so that time is linear for any expression. (The idea is that of two-pass greedy parsing: Frisch
// and Cardelli, "Greedy regular expression matching", ICALP 2004.)
//
// Immutable after Create; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/regex/program.h"
#include "tokenizer/regex/regex.h"
#include "tokenizer/regex/symbols.h"

namespace tutti::tokenizer::regex {

inline constexpr size_t kMaxStates = 4'096;
inline constexpr size_t kMaxChoices = 1 << 20;  // entries of the forward table
inline constexpr size_t kMaxWork = 25'000'000;  // visits of steps while the tables are made

class Automaton {
 public:
  // Errors: tokenizer_limit.
  static Result<std::unique_ptr<const Automaton>> Create(const Program& program, Symbols symbols);

  void FindAll(std::string_view text, MatchSink& sink) const;

 private:
  friend class AutomatonBuilder;
  // A state of the backward pass together with the kind of the preceding character, as far as the
  // expression tests it.
  using Row = uint16_t;
  // A place of an attempt in the program: 0 before its first character.
  using Place = uint16_t;
  static constexpr Row kInside = 0xFFFF;  // the second or a later byte of a character
  static constexpr Place kEnd = 0xFFFF;   // the match ends here
  static constexpr Place kNone = 0xFFFE;  // no match begins here

  struct Cell {
    Row row;         // of this place
    uint16_t state;  // of the place before
  };

  explicit Automaton(Symbols symbols) : symbols_(std::move(symbols)) {}
  void ReadBackwards(std::string_view text, Row* rows) const;

  const Symbols symbols_;
  uint32_t shift_ = 0;       // cells_ has 1 << shift_ symbols for each state
  std::vector<Cell> cells_;  // [state][symbol before, or edge()]
  // Places with a choice come first; behind a single character there is none.
  uint32_t columns_ = 0;
  std::vector<Place> choices_;  // [row][place], place < columns_
  std::vector<Place> only_;     // [place - columns_]
};

}  // namespace tutti::tokenizer::regex
