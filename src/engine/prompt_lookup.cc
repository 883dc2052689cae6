#include "engine/prompt_lookup.h"

#include <algorithm>
#include <bit>

namespace tutti::engine {
namespace {

constexpr int kShortest = 2, kLongest = 3;  // tokens that are looked up
// Maximum number of tokens compared before a match: more do not make it more certain.
constexpr int kMaxAgreed = 12;
// Places: two for each token, up to what 16,384 tokens need (128 KiB); in longer texts the newest
// take the places of older ones.
constexpr uint32_t kMaxPlaces = 1U << 15;

}  // namespace

void PromptLookup::Begin(int target_tokens, std::span<const TokenId> prompt) {
  const auto wanted = static_cast<uint32_t>(std::max(target_tokens, 8)) * 2;
  places_.assign(std::min(std::bit_ceil(std::min(wanted, kMaxPlaces)), kMaxPlaces), 0);
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

// `count` tokens, the last of them at end - 1.
uint32_t& PromptLookup::PlaceOf(std::span<const TokenId> tokens, int end, int count) {
  uint64_t hash = static_cast<uint64_t>(count);
  for (int i = end - count; i < end; ++i) {
    hash = (hash ^ static_cast<uint32_t>(tokens[static_cast<size_t>(i)])) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32;
  }
  return places_[hash & (places_.size() - 1)];
}

void PromptLookup::Find(std::span<const TokenId> tokens) {
  const auto size = static_cast<int>(tokens.size());
  for (int count = std::min(kLongest, size - 1); count >= kShortest; --count) {
    const auto place = static_cast<int>(PlaceOf(tokens, size, count));
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
    PlaceOf(tokens, size, count) = static_cast<uint32_t>(size);
}

}  // namespace tutti::engine
