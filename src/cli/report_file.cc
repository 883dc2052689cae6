#include "cli/report_file.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/quote.h"
#include "protocol/json/json.h"

namespace tutti::cli {
namespace {

constexpr size_t kNameBytes = 255;  // of a path in a message

Status Unwritable(const std::string& file) {
  return InvalidArgument("invalid_value", "--json: cannot write " + Quote(file, kNameBytes));
}

// The same file, by another name too; one that is not there yet by its name.
bool Same(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const std::filesystem::path one = std::filesystem::weakly_canonical(a, error);
  return !error && one == std::filesystem::weakly_canonical(b, error) && !error;
}

}  // namespace

Status CheckReportFile(const std::string& file, const std::vector<std::string>& others) {
  if (file.empty() || file == "-") return OkStatus();
  for (const std::string& other : others) {
    if (other.empty() || !Same(file, other)) continue;
    return InvalidArgument(
        "invalid_value", "--json: the report would take the place of " + Quote(other, kNameBytes));
  }
  std::error_code ignored;
  const bool there = std::filesystem::exists(file, ignored);
  const bool can = std::ofstream(file, std::ios::app).good();
  if (can && !there) std::filesystem::remove(file, ignored);
  return can ? OkStatus() : Unwritable(file);
}

Status WriteReportFile(const std::string& file, const boost::json::object& report) {
  if (file.empty()) return OkStatus();
  const std::string text = protocol::PrintJson(report) + "\n";
  if (file == "-") {
    std::fputs(text.c_str(), stdout);
    return OkStatus();
  }
  std::ofstream out(file);
  return (out << text).flush() ? OkStatus() : Unwritable(file);
}

}  // namespace tutti::cli
