// ShardIndex: model.safetensors.index.json, which maps each tensor to one of several files.
//
// Untrusted until parsed: strict JSON, unique names, and paths whose text stays inside the model's
// folder (symbolic links in the folder are the operator's). Members other than "weight_map" are
// ignored. A value; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "files/source.h"
#include "safetensors/json_stream.h"

namespace tutti::safetensors {

// Caps. The largest known models have about 10^5 tensors in 200 files; each file stays open while
// the model is loaded.
inline constexpr uint64_t kMaxIndexBytes = uint64_t{32} << 20;
inline constexpr size_t kMaxIndexTensors = 262144;
inline constexpr size_t kMaxShards = 512;

struct ShardIndex {
  struct Place {
    std::string tensor;
    uint32_t shard;  // index into shards
  };
  std::vector<std::string> shards;  // paths relative to the folder, each once, in order of names
  std::vector<Place> places;        // by name of the tensor; none twice

  // The shard of a tensor. O(log n).
  std::optional<uint32_t> Find(std::string_view tensor) const;

  // Errors: st_json for anything but a JSON object with a weight_map of that kind, st_duplicate for
  // a name that appears twice, st_index_path for an invalid path or a count beyond its limit.
  static Result<ShardIndex> Parse(const files::Source& source, size_t chunk = kJsonChunk);
};

}  // namespace tutti::safetensors
