#include "bench/encode_levels.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <utility>

#include "base/cpus.h"
#include "bench/encode_greeting.h"
#include "bench/encode_load.h"
#include "bench/machine.h"
#include "kernels/kernels.h"

namespace tutti::bench {

Result<Report> BenchEncodeLevels(EncodeTarget& target, const EncodeLevelsOptions& options,
                                 const std::function<void(const std::string&)>& progress) {
  Report report;
  const auto say = [&](const std::string& line) {
    report.text += line + "\n";
    if (progress) progress(line);
  };
  ASSIGN_OR_RETURN(const kernels::KernelTable* const table, kernels::SelectKernels());
  const kernels::MachineLimits limits = Calibration(table->isa, UsableCores(), false).best();
  say(target.summary());
  ASSIGN_OR_RETURN(const std::string cut, Greet(target, {1, options.texts, options.tokens}));
  if (!cut.empty()) say(cut);
  say(EncodeTableHead());
  boost::json::array rows;
  for (const int clients : options.levels) {
    const EncodeRun run = RunEncodeLoad(target, {clients, options.texts, options.tokens},
                                        options.requests, options.warmup, options.seed);
    say(EncodeTableRow(run));
    rows.push_back(EncodeRunJson(run));
    for (const std::string& failure : run.failures)
      report.failures.push_back(fmt::format("at {} clients: {}", clients, failure));
  }
  report.json = {{"schema", "tutti.bench.encode.v1"},
                 {"target", target.summary()},
                 {"machine", MachineJson(limits)},
                 {"rows", std::move(rows)},
                 {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
