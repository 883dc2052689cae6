#include "telemetry/recent_errors.h"

#include <algorithm>
#include <utility>

namespace tutti::telemetry {

std::string WithoutQuotes(std::string_view message, size_t max_bytes) {
  std::string out;
  char quote = '\0';  // the one that is open
  for (size_t i = 0; i < message.size() && out.size() < max_bytes; ++i) {
    const char c = message[i];
    if (quote != '\0') {
      // A quote that is not closed hides the rest.
      if (c == '\\') ++i;
      if (c != quote) continue;
      quote = '\0';
      out += "...";
      out += c;
      continue;
    }
    // An apostrophe within a word begins no quotation.
    const bool in_word = i > 0 && message[i - 1] != ' ' && message[i - 1] != '(';
    if (c == '"' || c == '`' || (c == '\'' && !in_word)) quote = c;
    out += c >= 0x20 && c < 0x7F ? c : '?';
  }
  out.resize(std::min(out.size(), max_bytes));
  return out;
}

void RecentErrors::Add(RecentError error) {
  const bool ours = error.status >= 500 || error.status == 429;
  error.message = ours ? WithoutQuotes(error.message, kMaxMessageBytes) : std::string();
  const MutexLock lock(mutex_);
  std::deque<RecentError>& kept = kept_[ours ? 0 : 1];
  if (kept.size() == kKept) kept.pop_front();
  kept.push_back(std::move(error));
}

std::vector<RecentError> RecentErrors::Read() const {
  std::vector<RecentError> all;
  {
    const MutexLock lock(mutex_);
    for (const std::deque<RecentError>& kept : kept_)
      all.insert(all.end(), kept.begin(), kept.end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.unix_ms < b.unix_ms; });
  return all;
}

}  // namespace tutti::telemetry
