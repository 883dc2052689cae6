#include "tokenizer/encoder_input.h"

#include <algorithm>

namespace tutti::tokenizer {
namespace {

std::span<const TokenId> Keep(std::span<const TokenId> ids, size_t count, CutSide cut) {
  return cut == CutSide::kRight ? ids.first(count) : ids.last(count);
}

}  // namespace

std::pair<size_t, size_t> CutLongestFirst(size_t first, size_t second, size_t room) {
  if (first + second <= room) return {first, second};
  size_t shorter = std::min(first, second);
  size_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return first > second ? std::pair{longer, shorter} : std::pair{shorter, longer};
}

EncoderInput FillFrame(std::span<const FramePlace> frame, std::span<const TokenId> first,
                       std::span<const TokenId> second, const InputOptions& options) {
  EncoderInput input;
  size_t special = 0;
  bool typed = false, has_first = false, has_second = false;
  for (const FramePlace& place : frame) {
    has_first |= place.token == FramePlace::kFirstText;
    has_second |= place.token == FramePlace::kSecondText;
    special += place.token >= 0;
    typed |= place.type != 0;
  }
  if (!has_first) first = {};
  if (!has_second) second = {};
  input.whole = special + first.size() + second.size();
  const auto limit = static_cast<size_t>(std::max(options.max_tokens, 0));
  const auto [keep_first, keep_second] =
      CutLongestFirst(first.size(), second.size(), limit > special ? limit - special : 0);
  first = Keep(first, keep_first, options.cut);
  second = Keep(second, keep_second, options.cut);
  input.ids.reserve(special + first.size() + second.size());
  for (const FramePlace& place : frame) {
    if (place.token >= 0) {
      input.ids.push_back(static_cast<TokenId>(place.token));
    } else {
      const auto text = place.token == FramePlace::kFirstText ? first : second;
      input.ids.insert(input.ids.end(), text.begin(), text.end());
    }
    if (typed) input.types.resize(input.ids.size(), place.type);
  }
  return input;
}

}  // namespace tutti::tokenizer
