// Parts of a text. Views of it; any thread.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace tutti {

// "a|b" at '|' -> {"a", "b"}; "" has no part, and a separator at the end begins none.
inline std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace tutti
