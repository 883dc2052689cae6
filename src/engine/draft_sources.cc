#include "engine/draft_sources.h"

#include <algorithm>
#include <bit>

namespace tutti::engine {
namespace {

// Initial trust in guesses: like a copy after this many agreeing tokens.
constexpr int kFirstAgreed = 10;
// As above, after a wrong guess.
constexpr int kLeastTrusted = 6;

// Initial trust in a predicted text: like one after this many correct tokens.
constexpr int kTrustedAtFirst = 6;
// After a difference the place in the text is searched by two tokens this far ahead, and by three
// tokens anywhere.
constexpr int kNear = 64;
constexpr size_t kNearby = 2, kAnywhere = 3;

constexpr int kShortest = 2, kLongest = 3;  // tokens that are looked up
// Maximum number of tokens compared before a match: more do not make it more certain.
constexpr int kMaxAgreed = 12;
// Places: two for each token, up to what 16,384 tokens need (128 KiB); in longer texts the newest
// take the places of older ones.
constexpr uint32_t kMaxPlaces = 1U << 15;

// The place of `tokens` in `places`, whose size is a power of two.
uint32_t& PlaceOf(std::vector<uint32_t>& places, std::span<const TokenId> tokens) {
  uint64_t hash = tokens.size();
  for (const TokenId token : tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32;
  }
  return places[hash & (places.size() - 1)];
}

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
      agreed_ = hit ? std::min(agreed_ + 1, kMaxAgreed) : kLeastTrusted;
      followed = hit;
    }
    if (!trie.IsEnd(token)) text_.Read(trie.text(token));
  }
  text_.Guess(matcher.masker(), matcher.state(), kMaxDrafts, next_);
}

void PredictedText::Begin(std::span<const TokenId> text, int read) {
  text_ = text;
  read_ = read;
  if (text.empty()) return;
  next_ = 0;
  agreed_ = kTrustedAtFirst;
  const size_t wanted = std::min<size_t>(2 * text.size(), kMaxPlaces);
  places_.assign(std::bit_ceil(wanted), 0);
  for (size_t end = text.size(); end >= kAnywhere; --end)  // of equal ones the first counts
    PlaceOf(places_, text.subspan(end - kAnywhere, kAnywhere)) = static_cast<uint32_t>(end);
}

void PredictedText::Advance(std::span<const TokenId> tokens, AcceptanceStats& everybody) {
  if (text_.empty()) return;
  const auto size = static_cast<int>(text_.size());
  while (read_ < static_cast<int>(tokens.size())) {
    const TokenId token = tokens[static_cast<size_t>(read_++)];
    if (next_ >= 0) {
      const bool hit = text_[static_cast<size_t>(next_)] == token;
      hits_.Note(agreed_, hit);
      everybody.Note(agreed_, hit);
      if (hit) {
        Count(next_, next_ + 1);
        agreed_ = std::min(agreed_ + 1, kMaxAgreed);
        left_at_ = ++next_;
        if (next_ == size) next_ = -1;
        continue;
      }
      left_at_ = next_;
      next_ = -1;
    }
    FindAgain(tokens.first(static_cast<size_t>(read_)));
  }
}

void PredictedText::Count(int begin, int end) {
  accepted_ += std::max(0, end - std::max(begin, counted_));
  counted_ = std::max(counted_, end);
}

void PredictedText::FindAgain(std::span<const TokenId> tokens) {
  const auto ends_like = [&](size_t end, size_t count) {
    return tokens.size() >= count && end >= count &&
           std::equal(tokens.end() - static_cast<std::ptrdiff_t>(count), tokens.end(),
                      text_.begin() + static_cast<std::ptrdiff_t>(end - count));
  };
  const auto follow = [&](size_t place, size_t agreed) {
    next_ = static_cast<int>(place);
    agreed_ = static_cast<int>(agreed);
    Count(next_ - agreed_, next_);
  };
  const auto from = static_cast<size_t>(left_at_);
  for (size_t end = from; end < std::min(from + kNear, text_.size()); ++end) {
    if (ends_like(end, kNearby)) return follow(end, kNearby);
  }
  if (tokens.size() < kAnywhere) return;
  const size_t place = PlaceOf(places_, tokens.last(kAnywhere));
  // Another triple may have the same hash.
  if (place < text_.size() && ends_like(place, kAnywhere)) follow(place, kAnywhere);
}

void PromptLookup::Begin(int target_tokens, std::span<const TokenId> prompt) {
  const auto wanted = static_cast<uint32_t>(std::max(target_tokens, 8)) * 2;
  places_.assign(std::bit_ceil(std::min(wanted, kMaxPlaces)), 0);
  for (read_ = 0; read_ < static_cast<int>(prompt.size());) {
    const auto so_far = prompt.first(static_cast<size_t>(++read_));
    if (read_ == static_cast<int>(prompt.size())) Find(so_far);
    Enter(so_far);
  }
}

void PromptLookup::Advance(std::span<const TokenId> tokens, AcceptanceStats& everybody) {
  if (places_.empty()) return;
  while (read_ < static_cast<int>(tokens.size())) {
    const TokenId token = tokens[static_cast<size_t>(read_++)];
    const auto so_far = tokens.first(static_cast<size_t>(read_));
    if (source_ >= 0) {
      const bool hit = tokens[static_cast<size_t>(source_)] == token;
      hits_.Note(agreed_, hit);
      everybody.Note(agreed_, hit);
      source_ = hit ? source_ + 1 : -1;
      agreed_ = std::min(agreed_ + 1, kMaxAgreed);
    }
    if (source_ < 0) Find(so_far);
    Enter(so_far);
  }
}

void PromptLookup::Find(std::span<const TokenId> tokens) {
  const auto size = static_cast<int>(tokens.size());
  for (int count = std::min(kLongest, size - 1); count >= kShortest; --count) {
    const auto place = static_cast<int>(PlaceOf(places_, tokens.last(static_cast<size_t>(count))));
    // Another pair or triple may have the same hash.
    int agreed = 0;
    while (agreed < std::min(place, kMaxAgreed) &&
           tokens[static_cast<size_t>(place - 1 - agreed)] ==
               tokens[static_cast<size_t>(size - 1 - agreed)])
      ++agreed;
    if (agreed < count) continue;
    source_ = place;
    agreed_ = agreed;
    return;
  }
  source_ = -1;
}

void PromptLookup::Enter(std::span<const TokenId> tokens) {
  const auto size = static_cast<int>(tokens.size());
  for (int count = kShortest; count <= std::min(kLongest, size); ++count)
    PlaceOf(places_, tokens.last(static_cast<size_t>(count))) = static_cast<uint32_t>(size);
}

}  // namespace tutti::engine
