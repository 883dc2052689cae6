#include "app/config/adapter_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "base/ascii.h"
#include "base/quote.h"
#include "base/utf8.h"

namespace tutti::app {
namespace {

// The number behind the last colon, if it is one: paths may hold colons.
std::optional<double> ScaleBehind(std::string_view text, size_t colon) {
  const std::string_view number = text.substr(colon + 1);
  double scale = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), scale);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return scale;
}

}  // namespace

Status CheckAdapterName(std::string_view name) {
  const bool plain =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > 32 && c != 127; });
  if (!name.empty() && name.size() <= kMaxAdapterName && plain && IsValidUtf8(name))
    return OkStatus();
  return InvalidArgument("invalid_value",
                         fmt::format("{} is not the name of an adapter: 1 to {} bytes, no spaces",
                                     Quote(name), kMaxAdapterName));
}

Result<std::vector<AdapterRef>> ReadAdapters(std::string_view text) {
  std::vector<AdapterRef> adapters;
  if (text.empty()) return adapters;
  for (const std::string_view one : SplitAt(text, ',')) {
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos || equals + 1 == one.size()) {
      return InvalidArgument(
          "invalid_value",
          fmt::format("an adapter is written NAME=PATH[:SCALE], not {}", Quote(one)));
    }
    AdapterRef adapter;
    adapter.name = one.substr(0, equals);
    RETURN_IF_ERROR(CheckAdapterName(adapter.name));
    std::string_view path = one.substr(equals + 1);
    const size_t colon = path.rfind(':');
    if (colon != std::string_view::npos && colon > 0) {
      if (const std::optional<double> scale = ScaleBehind(path, colon)) {
        adapter.scale = *scale;
        path = path.substr(0, colon);
      }
    }
    if (!std::isfinite(adapter.scale) || std::fabs(adapter.scale) > kMaxAdapterScale) {
      return InvalidArgument("invalid_value",
                             fmt::format("adapter {} has scale {}; the limit is {}",
                                         Quote(adapter.name), adapter.scale, kMaxAdapterScale));
    }
    adapter.path = path;
    adapters.push_back(std::move(adapter));
  }
  return adapters;
}

Result<std::vector<AdapterRef>> AdaptersFromSettings(const Settings& settings,
                                                     const std::vector<std::string>& models) {
  ASSIGN_OR_RETURN(std::vector<AdapterRef> adapters, ReadAdapters(settings.Text("lora")));
  std::set<std::string> names(models.begin(), models.end());
  for (AdapterRef& adapter : adapters) {
    for (const std::string& model : models) {
      // Names of models may hold slashes: the longest that fits.
      if (adapter.name.starts_with(model + "/") && model.size() > adapter.base.size())
        adapter.base = model;
    }
    if (!adapter.base.empty()) adapter.name.erase(0, adapter.base.size() + 1);
    RETURN_IF_ERROR(CheckAdapterName(adapter.name));
    if (adapter.name.find('/') != std::string::npos) {
      return InvalidArgument("invalid_value",
                             fmt::format("--lora: no model is called as {} begins; write BASE/NAME",
                                         Quote(adapter.name)));
    }
    if (names.insert(adapter.name).second) continue;
    return InvalidArgument(
        "invalid_value",
        fmt::format("--lora: {} would be the name of two models or adapters", Quote(adapter.name)));
  }
  const auto most = static_cast<size_t>(settings.Int("max-loras"));
  if (adapters.size() > most) {
    return InvalidArgument("invalid_value", fmt::format("--lora names {} adapters, limit {}; raise "
                                                        "--max-loras",
                                                        adapters.size(), most));
  }
  return adapters;
}

}  // namespace tutti::app
