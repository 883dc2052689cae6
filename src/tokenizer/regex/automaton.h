// What a tree becomes: a Program of single steps, and then tables: Symbols for the characters, and
// Automaton for the steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/utf8.h"
#include "tokenizer/regex/regex.h"
#include "tokenizer/regex/syntax.h"

namespace tutti::tokenizer::regex {

using StepId = uint32_t;

inline constexpr size_t kMaxSteps = 8'192;
inline constexpr size_t kMaxEmptyLoops = 64;  // loops that can go round without a character

struct Step {
  enum class Kind : uint8_t {
    kAccept,
    kConsume,    // one character of set `set`, then `next`
    kSplit,      // `next`, else `other`
    kLook,       // the steps from `other` match, or (negative) do not; then `next`
    kBehind,     // the character before is in set `set`, or (negative) is not; then `next`
    kLoopBegin,  // of empty loop `set`; then `next`
    kLoopEnd,    // `next` goes round again; `other` leaves, if nothing was read since kLoopBegin
  };
  Kind kind = Kind::kAccept;
  bool negative = false;
  uint32_t set = 0;
  StepId next = 0;
  StepId other = 0;
};

// Program: a tree as a graph of single steps: what an attempt to match may do next, the preferred
// step first.
//
// A step is created after those that follow it, except for the start of a loop. The steps inside
// one look-ahead are a stratum, and so are the steps outside of all look-aheads; a stratum uses
// only earlier ones. A value; any thread.
struct Program {
  std::vector<Step> steps;
  std::vector<std::vector<StepId>> strata;  // the last one is outside of look-aheads
  StepId start = 0;
  bool has_empty_loops = false;  // kLoopBegin, kLoopEnd
};

// Errors: tokenizer_limit.
Result<Program> MakeProgram(const Syntax& syntax);

// Symbols: numbers for classes of code points. Two code points that are in the same sets of an
// expression have one symbol.
//
// Immutable after Create; any thread. At most kMaxSymbols symbols, numbered from 0, and one more,
// edge(), for the start and the end of a text.

using Symbol = uint8_t;

inline constexpr size_t kMaxSymbols = 254;

class Symbols {
 public:
  // Errors: tokenizer_limit.
  static Result<Symbols> Create(std::span<const CharSet> sets);

  size_t count() const { return count_; }  // without edge()
  Symbol edge() const { return static_cast<Symbol>(count_); }

  Symbol OfAscii(unsigned char byte) const { return ascii_[byte]; }
  Symbol Of(char32_t c) const {
    return blocks_[size_t{block_[c >> kBlockBits]} << kBlockBits | (c & (kBlockSize - 1))];
  }
  // The symbol of a byte that is not UTF-8: that of an unassigned code point.
  Symbol OfInvalid() const { return invalid_; }

  // Whether a set, by its place in `sets`, holds a symbol, edge() included.
  bool Holds(size_t set, size_t symbol) const { return members_[set][symbol]; }

 private:
  static constexpr int kBlockBits = 7;
  static constexpr size_t kBlockSize = size_t{1} << kBlockBits;

  size_t count_ = 0;
  std::array<Symbol, 128> ascii_{};
  Symbol invalid_ = 0;
  std::vector<uint16_t> block_;  // of a code point's upper bits: its place in blocks_
  std::vector<Symbol> blocks_;
  std::vector<std::vector<bool>> members_;
};

inline constexpr size_t kMaxStates = 4'096;
inline constexpr size_t kMaxChoices = 1 << 20;  // entries of the forward table
inline constexpr size_t kMaxWork = 25'000'000;  // visits of steps while the tables are made

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
