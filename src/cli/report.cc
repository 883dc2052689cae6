#include "cli/report.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/check.h"
#include "base/quote.h"
#include "protocol/json/json.h"

namespace tutti::cli {
namespace {

constexpr size_t kNameBytes = 255;  // of a path in a message

Status Unwritable(const std::string& file, const std::string& option) {
  return InvalidArgument("invalid_value", option + ": cannot write " + Quote(file, kNameBytes));
}

// The same file, by another name too; one that is not there yet by its name.
bool Same(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const std::filesystem::path one = std::filesystem::weakly_canonical(a, error);
  return !error && one == std::filesystem::weakly_canonical(b, error) && !error;
}

}  // namespace

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

Status CheckReportFile(const std::string& file, const std::vector<std::string>& others,
                       const char* option) {
  if (file.empty() || file == "-") return OkStatus();
  for (const std::string& other : others) {
    if (other.empty() || !Same(file, other)) continue;
    return InvalidArgument(
        "invalid_value",
        std::string(option) + ": the report would take the place of " + Quote(other, kNameBytes));
  }
  std::error_code ignored;
  const bool there = std::filesystem::exists(file, ignored);
  const bool can = std::ofstream(file, std::ios::app).good();
  if (can && !there) std::filesystem::remove(file, ignored);
  return can ? OkStatus() : Unwritable(file, option);
}

Status WriteReportFile(const std::string& file, const boost::json::object& report) {
  if (file.empty()) return OkStatus();
  return WriteReportText(file, protocol::PrintJson(report) + "\n", "--json");
}

Status WriteReportText(const std::string& file, const std::string& text, const char* option) {
  if (file.empty()) return OkStatus();
  if (file == "-") {
    std::fputs(text.c_str(), stdout);
    return OkStatus();
  }
  std::ofstream out(file);
  return (out << text).flush() ? OkStatus() : Unwritable(file, option);
}

}  // namespace tutti::cli
