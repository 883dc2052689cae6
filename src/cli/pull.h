// Models of a hub for commands: shows a running pull, and finds a MODEL argument in the cache,
// pulling it first where --pull allows it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "app/config/settings.h"
#include "app/loading/model_registry.h"
#include "base/status.h"
#include "services/models/pull.h"

namespace tutti::cli {

// "98.2 MB", in powers of 1,000 as a hub shows sizes. Pure.
std::string BytesText(uint64_t bytes);
// "1 h 5 min", "2 min 10 s", "12 s". Pure.
std::string TimeText(std::chrono::seconds time);
// "3 of 5 files, 1.2 of 4.0 GB (30 %), 52.1 MB/s, 54 s left". `total` may be 0: not known. Pure.
std::string ProgressText(int files_done, int files, uint64_t bytes, uint64_t total,
                         double bytes_per_s);

// models::Pull or PullUrl with progress on standard error: one line that is rewritten at a
// terminal, else a line every 10 s.
Result<models::PulledModel> PullShowing(const std::string& name, const std::string& sha256,
                                        int workers);

// app::ResolveModel; with --pull on-demand, a model of a hub that is not in the cache is pulled.
Result<app::ModelRef> FindModel(const app::Settings& settings, const std::string& argument);

}  // namespace tutti::cli
