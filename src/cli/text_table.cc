#include "cli/text_table.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::cli {

std::string TextTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows.front().size());
  for (const auto& row : rows) {
    CHECK_EQ(row.size(), widths.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      line.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace tutti::cli
