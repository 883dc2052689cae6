// TextContent: the content of a message as one text, with the ends of its parts. A plain value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::protocol {

struct TextContent {
  std::string text;                    // parts joined with '\n'
  std::vector<size_t> part_ends = {};  // as api::ChatMessage: empty for one part
  size_t parts = 0;                    // appended

  void Append(std::string_view part) {
    if (parts == 1) part_ends.push_back(text.size());
    if (parts > 0) text += '\n';
    text += part;
    if (parts > 0) part_ends.push_back(text.size());
    ++parts;
  }
};

}  // namespace tutti::protocol
