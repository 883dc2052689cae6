// The folder in which a serving process keeps prefixes, from the settings (--prefix-disk-bytes,
// --prefix-folder), and its metrics.
#pragma once

#include <memory>

#include "app/config/settings.h"
#include "app/service_metrics.h"
#include "base/log.h"
#include "base/status.h"
#include "kv/disk/prefix_disk.h"
#include "telemetry/metrics.h"

namespace tutti::app {

// Null unless --prefix-disk-bytes is set. `log` outlives it. Errors: invalid_value (the settings),
// those of kv::PrefixDisk::Open.
Result<std::shared_ptr<kv::PrefixDisk>> OpenPrefixes(const Settings& settings, Logger* log);

// Nothing if `prefixes` is null.
Collectors CollectPrefixes(telemetry::MetricsRegistry& metrics,
                           std::shared_ptr<const kv::PrefixDisk> prefixes);

}  // namespace tutti::app
