// Reports of commands: tables for a terminal, and the file that --json FILE names.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::cli {

// A table for a terminal: columns as wide as their widest cell, two blanks between. Each row has as
// many cells as the first, which names the columns; cells are printable ASCII. Pure.
std::string TextTable(const std::vector<std::vector<std::string>>& rows);

// --- the file that --json FILE names: a command's report. "-" is standard output, "" is none ---

// Checks before the work whether `file` can be written, and is none of `others`, the files that the
// command reads or makes (names of models in `others` are ignored). Neither changes nor creates a
// file. Errors: invalid_value, naming `option`.
Status CheckReportFile(const std::string& file, const std::vector<std::string>& others,
                       const char* option = "--json");

// One line of JSON; what was there is replaced. Errors: invalid_value.
Status WriteReportFile(const std::string& file, const boost::json::object& report);
// The same for a report in another form.
Status WriteReportText(const std::string& file, const std::string& text, const char* option);

}  // namespace tutti::cli
