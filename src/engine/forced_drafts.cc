#include "engine/forced_drafts.h"

#include <algorithm>

namespace tutti::engine {
namespace {

// Initial trust in guesses: like a copy after this many agreeing tokens.
constexpr int kFirstAgreed = 10;
constexpr int kMaxForcedAgreed = 12;
// As above, after a wrong guess.
constexpr int kLeastTrusted = 6;

}  // namespace

void ForcedDrafts::Begin(int read) {
  read_ = read;
  agreed_ = kFirstAgreed;
  next_.reserve(kMaxDrafts);
}

void ForcedDrafts::Advance(std::span<const TokenId> tokens, grammar::Matcher& matcher,
                           AcceptanceStats& everybody) {
  if (read_ < 0) return;
  const grammar::TokenTrie& trie = matcher.masker().trie();
  bool followed = true;  // every token so far was guessed right
  size_t guess = 0;
  for (; read_ < static_cast<int>(tokens.size()); ++read_) {
    const TokenId token = tokens[static_cast<size_t>(read_)];
    if (followed && guess < next_.size()) {
      const bool hit = next_[guess++] == token;
      hits_.Note(agreed_, hit);
      everybody.Note(agreed_, hit);
      agreed_ = hit ? std::min(agreed_ + 1, kMaxForcedAgreed) : kLeastTrusted;
      followed = hit;
    }
    if (!trie.IsEnd(token)) text_.Read(trie.text(token));
  }
  text_.Guess(matcher.masker(), matcher.state(), kMaxDrafts, next_);
}

}  // namespace tutti::engine
