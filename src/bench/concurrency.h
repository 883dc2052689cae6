// `tutti bench concurrency`: the same sampled requests served to 1, 4 and 8 clients at once
// (U81 of docs/checks.md).
//
// Clients are threads that call api::Inference, the API that every server uses; each sends its next
// request when the previous one has ended. Texts must be the same at every level: they depend on
// the seed, not on concurrent requests.
#pragma once

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct ConcurrencyOptions {
  std::string model;
  Flags flags;
  int requests = 100, new_tokens = 50;
  int warmup_requests = 10, warmup_tokens = 10;
  std::vector<int> levels = {1, 4, 8};  // ascending; gates compare with the first
  bool gated = true;  // tok/s at 4 >= 2 x and at 8 >= 3 x of 1, capped by what the machine allows
};

Result<Report> BenchConcurrency(const ConcurrencyOptions& options, const Progress& progress);

}  // namespace tutti::bench
