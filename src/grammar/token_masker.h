// The tokens that may follow a text under a grammar: the vocabulary as a trie, masks of tokens,
// and guesses of the tokens that a grammar forces.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "grammar/automaton.h"
#include "grammar/state_sets.h"
#include "grammar/token_mask.h"

namespace tutti::grammar {

// The bytes of a vocabulary's tokens as a tree in depth-first order, so that a walk that fails at a
// byte skips all tokens behind it.
//
// Immutable after Create(); any thread. Nodes are numbered from 1 in depth-first order; 0 is the
// root.
class TokenTrie {
 public:
  // `texts`: the bytes of each token by id, up to kMaxTokenBytes; empty: never allowed. Special
  // tokens stand with their SpecialTokenBytes(). `ends`: tokens that end a text; their bytes do not
  // count.
  static std::shared_ptr<const TokenTrie> Create(std::vector<std::string> texts,
                                                 std::vector<TokenId> ends);

  size_t vocabulary() const { return texts_.size(); }
  size_t nodes() const { return nodes_.size(); }
  std::string_view text(TokenId id) const { return texts_[static_cast<size_t>(id)]; }
  std::span<const TokenId> ends() const { return ends_; }
  bool IsEnd(TokenId id) const { return is_end_[static_cast<size_t>(id)]; }
  size_t longest() const { return longest_; }  // bytes of a token

  uint8_t byte(uint32_t node) const { return nodes_[node].byte; }
  uint32_t depth(uint32_t node) const { return nodes_[node].depth; }
  // The first node behind those below `node`.
  uint32_t behind(uint32_t node) const { return nodes_[node].behind; }
  // Tokens whose bytes end in `node`.
  std::span<const TokenId> tokens(uint32_t node) const {
    return std::span(ids_).subspan(nodes_[node].first_id, nodes_[node].ids);
  }
  bool has_tokens(uint32_t node) const { return nodes_[node].ids > 0; }
  size_t memory_bytes() const;

 private:
  struct Node {
    uint32_t behind = 0;
    uint32_t first_id = 0;
    uint16_t ids = 0;
    uint16_t depth = 0;
    uint8_t byte = 0;
  };
  std::vector<Node> nodes_;
  std::vector<TokenId> ids_;
  std::vector<std::string> texts_;
  std::vector<TokenId> ends_;
  std::vector<bool> is_end_;
  size_t longest_ = 0;
};

class ForcedText;
class Matcher;

// TokenMasker: computes the tokens that may follow a text under a grammar.
//
// One for each compiled grammar and vocabulary, shared by all sequences under them. The mask of a
// state is computed once and cached for all sequences that reach the state; a sequence's own state
// is a number. Created on any thread; then used by one thread at a time (the engine thread).
class TokenMasker {
 public:
  static constexpr size_t kMaxBytes = size_t{8} << 20;

  // `max_bytes` of what was learned are kept.
  TokenMasker(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const TokenTrie> trie,
              size_t max_bytes = kMaxBytes);
  TokenMasker(const TokenMasker&) = delete;
  TokenMasker& operator=(const TokenMasker&) = delete;

  SetId start() const { return sets_->start(); }
  // The state behind a token; StateSets::kDead where it is not allowed. A token that ends the text
  // is allowed where the text is complete, and leaves the state as it is.
  SetId Next(SetId set, TokenId token);
  bool complete(SetId set) const { return sets_->complete(set); }
  // Nothing can follow but the end.
  bool finished(SetId set) const { return sets_->complete(set) && !sets_->HasPlaces(set); }

  // Tokens that may follow; with `ends` those that end the text too, where it is complete. It may
  // allow none: the vocabulary may lack the bytes. Shared with later calls; null: the grammar is
  // too ambiguous, and the request must end with grammar_too_complex.
  std::shared_ptr<const TokenMask> Mask(SetId set, bool ends = true);

  // Forgets what was learned, where it is more than `max_bytes`. Matchers keep their states.
  void Trim();
  size_t memory_bytes() const;
  const TokenTrie& trie() const { return *trie_; }

 private:
  // The effect of each token if the stack below is unknown: it is allowed, or, from a node of the
  // trie on, that depends on the states behind an open frame.
  struct OpenMask {
    struct Return {
      uint32_t node = 0;
      uint32_t frames = 0;  // bits
    };
    TokenMask allowed;
    std::vector<Return> returns = {};
    uint64_t work = 0;   // of the walk
    bool whole = false;  // false: the walk was given up
  };

  // Makes the masks of free text, such as the inside of strings, which pass the whole vocabulary: a
  // step of the engine should not wait for that.
  void Prepare();
  // The mask of all sets with this cut and these frames, except for long tokens and the end. Null:
  // too ambiguous.
  std::shared_ptr<const TokenMask> MaskOfCut(SetId cut, const std::vector<FrameId>& frames);
  // Looks at the tokens that `mask` may be wrong about one by one.
  std::shared_ptr<const TokenMask> CorrectLong(SetId set, std::shared_ptr<const TokenMask> mask);
  const OpenMask* MakeOpenMask(SetId cut);
  // Allows the tokens that `set` reaches from node `first` on, in a walk that stops at `behind`.
  // Counts nodes, and what their sets take to make, in `work`. False where that is too much.
  bool Walk(SetId set, uint32_t first, uint32_t behind, TokenMask& mask,
            std::vector<OpenMask::Return>* returns, uint64_t& work);

  friend class ForcedText;
  friend class Matcher;

  const std::shared_ptr<const Automaton> automaton_;
  const std::shared_ptr<const TokenTrie> trie_;
  const size_t max_bytes_;
  // A mask follows counters only as far as tokens of this many bytes can count, so that states
  // with larger counts share it. The few longer tokens, the longest first, are checked one by one.
  uint32_t reach_ = 0;
  std::vector<TokenId> long_tokens_;
  std::unique_ptr<StateSets> sets_;
  // By twice the number of a set; plus one: with the tokens that end the text.
  std::unordered_map<uint64_t, std::shared_ptr<const TokenMask>> masks_;
  std::map<std::vector<uint32_t>, std::shared_ptr<const TokenMask>> cut_masks_;
  std::unordered_map<SetId, std::unique_ptr<const OpenMask>> open_masks_;
  size_t open_bytes_ = 0;
  // For one mask: one for each node of the vocabulary, so that free text passes, and what a few
  // milliseconds of making sets take.
  uint64_t MaxWork() const { return trie_->nodes() + kMaxSetWork; }
  static constexpr uint64_t kMaxSetWork = 400'000;
  // Whether the mask at hand has not come by here yet.
  bool FirstTime(SetId set, uint8_t byte);

  std::vector<SetId> path_;       // of a walk: the set at each depth
  std::vector<uint32_t> passed_;  // [set][class]: the last mask whose walks came by here
  uint32_t mask_ = 0;             // that is being made
  std::vector<Matcher*> live_;    // that have a state
};

// Matcher: how far one sequence has come under a grammar. Made on any thread; then the engine's
// thread alone. Movable while it has not taken a token.
class Matcher {
 public:
  Matcher() = default;
  explicit Matcher(std::shared_ptr<TokenMasker> masker) : masker_(std::move(masker)) {}
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;
  Matcher(Matcher&& other) noexcept;
  Matcher& operator=(Matcher&& other) noexcept;
  ~Matcher() { Leave(); }

  explicit operator bool() const { return masker_ != nullptr; }
  TokenMasker& masker() const { return *masker_; }
  SetId state() const { return started_ ? state_ : masker_->start(); }
  // False where the token is not allowed: then the state is as before.
  bool Take(TokenId token);
  // The grammar is satisfied, and nothing but the end can follow.
  bool finished() const { return masker_->finished(state()); }

 private:
  friend class TokenMasker;
  void Leave();

  std::shared_ptr<TokenMasker> masker_;
  SetId state_ = StateSets::kDead;
  bool started_ = false;  // it stands in the masker's list
};

// ForcedText: guesses the tokens that a grammar forces, as draft tokens for speculative decoding:
// as long as only one byte can follow, it is appended, and the bytes are cut into the longest
// tokens.
//
// A guess never decides an answer: each token is drawn under its mask, and the model may cut the
// same bytes into other tokens, or write whitespace where the grammar allows it. Whitespace that
// the text had after an earlier brace, colon or comma is guessed again. One for each sequence;
// engine thread.
class ForcedText {
 public:
  // Bytes that came, for the habits of whitespace.
  void Read(std::string_view bytes);
  // At most `max_tokens` tokens that follow `state`, written to `tokens`.
  void Guess(TokenMasker& masker, SetId state, size_t max_tokens, std::vector<TokenId>& tokens);

 private:
  static constexpr size_t kMaxSpace = 32;  // bytes of one run

  // The forced bytes behind `state`, about as many as `max_tokens` tokens have.
  void FindBytes(StateSets& sets, SetId state, size_t max_bytes);
  // Where whitespace behind `byte` is remembered; kHabits: nowhere.
  static size_t HabitOf(char byte);

  static constexpr size_t kHabits = 3;       // behind an opening bracket, a colon, a comma
  std::array<std::string, kHabits> habits_;  // the last run of whitespace there
  char last_ = '\0';                         // the last byte that is no whitespace
  std::string space_;                        // whitespace since then
  std::string bytes_;                        // of a guess
};

}  // namespace tutti::grammar
