// What a stored report (bench::ReportJson) is shown as: markdown, plots, and one HTML page that
// needs nothing else. Made from the JSON alone, so that an old report can be shown too. Pure; any
// thread.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/plot.h"

namespace tutti::bench {

// One plot for each metric: a line for each series, a mark at the median of each figure with the
// spread of its samples, and a dashed line at the machine's limits. Figures of `baseline` (may be
// null) are drawn too. A report of kernels begins with its rooflines. Errors: invalid_value if the
// figures cannot be read.
Result<std::vector<Plot>> PlotsOf(const boost::json::object& report,
                                  const boost::json::object* baseline = nullptr);

// Title, machine, verdict, figures, comparison and the bench's own rows as tables.
Result<std::string> MarkdownOf(const boost::json::object& report);

// The same with the plots, and the JSON itself at the end. Styles and plots are in the page; it has
// no scripts and refers to no other file or address.
Result<std::string> HtmlOf(const boost::json::object& report,
                           const boost::json::object* baseline = nullptr);

}  // namespace tutti::bench
