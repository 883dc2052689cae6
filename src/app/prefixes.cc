#include "app/prefixes.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "app/store.h"

namespace tutti::app {

Result<std::shared_ptr<kv::PrefixDisk>> OpenPrefixes(const Settings& settings, Logger* log) {
  const std::optional<int64_t> bytes = settings.OptionalInt("prefix-disk-bytes");
  std::string folder = settings.Text("prefix-folder");
  if (!bytes) {
    if (folder.empty()) return std::shared_ptr<kv::PrefixDisk>();
    return BadValue("prefix-folder",
                    "--prefix-folder keeps nothing without --prefix-disk-bytes; set that too");
  }
  if (!settings.On("prefix-cache")) {
    return BadValue("prefix-disk-bytes",
                    "--prefix-disk-bytes keeps what --prefix-cache finds; turn that on too");
  }
  if (folder.empty()) {
    ASSIGN_OR_RETURN(const std::string store, StoreFolder(settings));
    if (store.empty()) {
      return BadValue("prefix-folder",
                      "a store in memory has no folder for prefixes; set --prefix-folder DIR");
    }
    folder = (std::filesystem::path(store) / "prefixes").string();
  }
  return kv::PrefixDisk::Open(
      {.folder = std::move(folder), .max_bytes = static_cast<uint64_t>(*bytes), .log = log});
}

Collectors CollectPrefixes(telemetry::MetricsRegistry& metrics,
                           std::shared_ptr<const kv::PrefixDisk> prefixes) {
  if (prefixes == nullptr) return {};
  using Stats = kv::PrefixDiskStats;
  telemetry::SampledMetrics<Stats> all(metrics);
  all.AddGauge("tutti_prefix_disk_bytes", "Size of the files with prefixes, in bytes", {},
               &Stats::bytes);
  all.AddGauge("tutti_prefix_disk_files", "Files with prefixes", {}, &Stats::files);
  all.AddGauge("tutti_prefix_disk_blocks", "KV blocks in files", {}, &Stats::blocks);
  const char* const blocks = "tutti_prefix_disk_blocks_total";
  const char* const blocks_help = "KV blocks written to files and read from them";
  all.AddCounters(blocks, blocks_help, "operation",
                  {{"write", &Stats::written_blocks}, {"read", &Stats::read_blocks}});
  all.AddCounters("tutti_prefix_disk_failures_total", "Failed writes and reads of KV blocks",
                  "operation", {{"write", &Stats::failed_writes}, {"read", &Stats::failed_reads}});
  all.AddCounters(
      "tutti_prefix_disk_removed_files_total",
      "Files with prefixes removed, by reason (least recently used; damaged or foreign)", "reason",
      {{"evicted", &Stats::evicted_files}, {"rejected", &Stats::rejected_files}});
  return {all.Collect([prefixes = std::move(prefixes)] { return prefixes->stats(); })};
}

}  // namespace tutti::app
