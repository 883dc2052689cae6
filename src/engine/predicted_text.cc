#include "engine/predicted_text.h"

#include <algorithm>
#include <bit>

namespace tutti::engine {
namespace {

// Initial trust in a predicted text: like one after this many correct tokens.
constexpr int kTrustedAtFirst = 6;
constexpr int kAgreedAtMost = 12;
// After a difference the place in the text is searched by two tokens this far ahead, and by three
// tokens anywhere.
constexpr int kNear = 64;
constexpr size_t kNearby = 2, kAnywhere = 3;
constexpr uint32_t kMaxTriples = 1U << 15;

}  // namespace

void PredictedText::Begin(std::span<const TokenId> text, int read) {
  text_ = text;
  read_ = read;
  if (text.empty()) return;
  next_ = 0;
  agreed_ = kTrustedAtFirst;
  const size_t wanted = std::min<size_t>(2 * text.size(), kMaxTriples);
  places_.assign(std::bit_ceil(wanted), 0);
  for (size_t end = text.size(); end >= kAnywhere; --end)  // of equal ones the first counts
    PlaceOf(text.subspan(end - kAnywhere, kAnywhere)) = static_cast<uint32_t>(end);
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
        agreed_ = std::min(agreed_ + 1, kAgreedAtMost);
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

uint32_t& PredictedText::PlaceOf(std::span<const TokenId> triple) {
  uint64_t hash = kAnywhere;
  for (const TokenId token : triple) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32;
  }
  return places_[hash & (places_.size() - 1)];
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
  const size_t place = PlaceOf(tokens.last(kAnywhere));
  // Another triple may have the same hash.
  if (place < text_.size() && ends_like(place, kAnywhere)) follow(place, kAnywhere);
}

}  // namespace tutti::engine
