// ShardIndex: model.safetensors.index.json, which says in which of several files a tensor lies.
//
// Checked before it is believed: strict JSON, unique names, and paths that by their text alone stay
// inside the model's folder (links that lie there are the operator's). Members other than
// "weight_map" are passed over. A value; any thread.
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

  // st_json for what is no JSON object with a weight_map of that kind, st_duplicate for a name that
  // appears twice, st_index_path for a path that is none or a count beyond its cap.
  static Result<ShardIndex> Parse(const files::Source& source, size_t chunk = kJsonChunk);
};

}  // namespace tutti::safetensors
