// A table for a terminal: columns as wide as their widest cell, two blanks between. Pure.
#pragma once

#include <string>
#include <vector>

namespace tutti::cli {

// Each row has as many cells as the first, which names the columns; cells are printable ASCII.
std::string TextTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace tutti::cli
