#include "services/sessions/context_window.h"

#include <numeric>
#include <string>

#include "base/check.h"

namespace tutti::sessions {
namespace {

constexpr int kCutPart = 4;  // of the window, at once

Status TooLong(int64_t tokens, int limit) {
  return InvalidArgument("context_length_exceeded", "the prompt has " + std::to_string(tokens) +
                                                        " tokens, the window of this dialog " +
                                                        std::to_string(limit))
      .WithExcess(tokens, limit);
}

}  // namespace

Result<ContextCut> FitContext(const ContextWindow& window, std::span<const int> turn_tokens,
                              size_t first, int fixed_tokens) {
  CHECK(first <= turn_tokens.size());
  int64_t tokens = std::accumulate(turn_tokens.begin() + static_cast<ptrdiff_t>(first),
                                   turn_tokens.end(), int64_t{fixed_tokens});
  ContextCut cut{.first = first};
  if (tokens <= window.limit) return cut;
  if (!window.truncate) return TooLong(tokens, window.limit);
  if (fixed_tokens > window.limit) return TooLong(fixed_tokens, window.limit);
  const int64_t aim = window.limit - window.limit / kCutPart;
  while (cut.first < turn_tokens.size() && tokens > aim) {
    tokens -= turn_tokens[cut.first++];
    ++cut.dropped;
  }
  return cut;
}

}  // namespace tutti::sessions
