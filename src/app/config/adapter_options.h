// The adapters that a process serves from its start on, from the options. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/config/settings.h"
#include "base/status.h"

namespace tutti::app {

struct AdapterRef {
  std::string name = {};  // what clients call it
  std::string base = {};  // served name of its model; empty: the first model that generates
  std::string path = {};  // of a GGUF or of peft's folder
  double scale = 1;       // multiplies the file's own
};

// Longest name of an adapter, in bytes.
inline constexpr size_t kMaxAdapterName = 128;
// Greatest magnitude of a scale.
inline constexpr double kMaxAdapterScale = 100;

// NAME=PATH[:SCALE], separated by commas; a NAME may begin with that of a model and "/", which is
// still part of `name`. Errors: invalid_value.
Result<std::vector<AdapterRef>> ReadAdapters(std::string_view text);

// Errors: invalid_value for a name that cannot be served.
Status CheckAdapterName(std::string_view name);

// The adapters of --lora, for models of these served names. Errors: invalid_value if a name is
// taken.
Result<std::vector<AdapterRef>> AdaptersFromSettings(const Settings& settings,
                                                     const std::vector<std::string>& models);

}  // namespace tutti::app
