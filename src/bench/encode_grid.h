// `tutti bench grid FILE`: every combination of batch size, concurrency and the other dimensions in
// the file. Each cell has a target of its own (fresh counters), a warm-up and checked answers (U14,
// U45 of docs/checks.md). The results file is rewritten after each cell, so that a killed run
// continues with the first missing cell.
//
//   model = "all-minilm-l6-v2"      # or url = "http://127.0.0.1:8080"
//   batch = [1, 8, 32]              # texts of a request
//   concurrency = [1, 4, 8]         # clients
//   tokens = [16]                   # of a text
//   requests = 500                  # of a cell
//   warmup = 50
//   order = "shuffled"              # or "given", "reversed"
//   seed = 1
//   [options]                       # of the model side; a list makes a dimension of it
//   "encode.window_ms" = [0, 2, 10, 50]
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/encode_load.h"
#include "bench/report.h"

namespace tutti::bench {

struct GridCell {
  EncodeShape shape;
  std::map<std::string, std::string> options;
  std::string Name() const;  // "batch 8, concurrency 4, tokens 16, encode.window_ms 10"
};

struct GridPlan {
  std::string model, url;       // one of the two
  std::vector<GridCell> cells;  // in the order in which they run
  int requests = 500, warmup = 50;
  uint64_t seed = 1;
};

// Errors: invalid_value, naming the key; of a file that is no TOML its line.
Result<GridPlan> ReadGridPlan(const std::string& path);
Result<GridPlan> ParseGridPlan(const std::string& toml, const std::string& name);

struct GridOutputs {
  std::string json;  // path of the results, from which a later run continues
  std::string markdown, svg;
};

// Errors: of the files and the target. A cell whose answers differ is a failure of the report.
Result<Report> BenchGrid(const GridPlan& plan, const GridOutputs& outputs,
                         const std::string& api_key, const Progress& progress);

}  // namespace tutti::bench
