// The file that --json FILE names: a command's report. "-" is standard output, "" is none.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::cli {

// Checks before the work whether `file` can be written, and is none of `others`, the files that the
// command reads or makes (names of models in `others` are ignored). Neither changes nor creates a
// file. Errors: invalid_value.
Status CheckReportFile(const std::string& file, const std::vector<std::string>& others);

// One line of JSON; what was there is replaced. Errors: invalid_value.
Status WriteReportFile(const std::string& file, const boost::json::object& report);

}  // namespace tutti::cli
