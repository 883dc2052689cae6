// HyperParameters: typed, range-checked reads of a model's settings under the names of GGUF's keys.
// Errors name the key as the file spells it, the value and the range.
//
// Views, valid while the parsed file lives; any thread. GgufParameters reads the keys of a GGUF,
// ConfigParameters (config_parameters.h) those of transformers' config.json.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gguf/header.h"

namespace tutti::model {

// How a setting that cannot be served is refused: model_hparam, with a message that names its key.
inline Status RefuseParameter(std::string message) {
  return InvalidArgument("model_hparam", std::move(message));
}
template <typename First, typename... Rest>
Status RefuseParameter(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  return RefuseParameter(
      fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
}

class HyperParameters {
 public:
  virtual ~HyperParameters() = default;

  virtual bool Has(std::string_view name) const = 0;
  // As the file spells it: for messages.
  virtual std::string Spelled(std::string_view name) const = 0;
  // An integer, low <= value <= high. model_hparam when out of range, of another type, or absent.
  virtual Result<int64_t> Int(std::string_view name, int64_t low, int64_t high) const = 0;
  // A finite number, low <= value <= high. Errors of this and the two below: as for Int.
  virtual Result<double> Float(std::string_view name, double low, double high) const = 0;
  virtual Result<std::string> Text(std::string_view name) const = 0;
  virtual Result<bool> Bool(std::string_view name) const = 0;
  // For each of `layers` layers, whether it has a sliding window. Folders name the kind of each
  // layer; a GGUF has a flag for each, or a number N: all but every Nth.
  virtual Result<std::vector<bool>> Windowed(std::string_view name, int layers) const = 0;
  // A flag for each of `layers` layers: true or false, in config.json also 1 or 0.
  virtual Result<std::vector<bool>> Flags(std::string_view name, int layers) const = 0;
  // For each of `layers` layers, whether it has a recurrence. Folders name the kind of each layer,
  // which is `kind` for these; a GGUF lists the kv heads, 0 for these.
  virtual Result<std::vector<bool>> Recurrent(std::string_view kind, int layers) const = 0;
  // As Int, of a list with zeros too, which count for nothing.
  virtual Result<int64_t> IntOfSome(std::string_view name, int64_t low, int64_t high) const {
    return Int(name, low, high);
  }
  // As Int, for each of `layers` layers: a list, or one number for all.
  virtual Result<std::vector<int>> IntsOfLayers(std::string_view name, int layers, int64_t low,
                                                int64_t high) const;
  // A number for each of `layers` layers, in a list; low <= number <= high, where both may be
  // infinite.
  virtual Result<std::vector<double>> NumbersOfLayers(std::string_view name, int layers, double low,
                                                      double high) const = 0;
  // For each of `layers` layers, whether a list of indices names it; of config.json alone.
  virtual Result<std::vector<bool>> Listed(std::string_view name, int layers) const = 0;
  // The kind of each of `layers` layers; of config.json alone.
  virtual Result<std::vector<std::string>> Kinds(std::string_view name, int layers) const;
  // For each of `layers` layers, whether its number in a list is above 0; of a GGUF alone.
  virtual Result<std::vector<bool>> Positive(std::string_view name, int layers) const;
  // A finite number for each of `layers` layers; of a GGUF alone, where `name` is the whole key,
  // without the architecture, and holds a list or one number for all.
  virtual Result<std::vector<float>> FloatsOfLayers(std::string_view name, int layers) const;
  // Numbers above 0; of config.json alone.
  virtual Result<std::vector<float>> Floats(std::string_view name) const = 0;

  Result<int64_t> IntOr(std::string_view name, int64_t fallback, int64_t low, int64_t high) const {
    return Has(name) ? Int(name, low, high) : Result<int64_t>(fallback);
  }
  Result<double> FloatOr(std::string_view name, double fallback, double low, double high) const {
    return Has(name) ? Float(name, low, high) : Result<double>(fallback);
  }
  Result<std::string> StringOr(std::string_view name, std::string fallback) const {
    return Has(name) ? Text(name) : Result<std::string>(std::move(fallback));
  }
  Result<bool> BoolOr(std::string_view name, bool fallback) const {
    return Has(name) ? Bool(name) : Result<bool>(fallback);
  }
};

// Assigns a ranged integer; INT_MAX bounds every `high`.
Status ReadInt(const HyperParameters& parameters, std::string_view name, int64_t low, int64_t high,
               int* out);

class GgufParameters final : public HyperParameters {
 public:
  // `prefix` ("llama.") is put before the names.
  GgufParameters(const gguf::Header& header, std::string prefix)
      : header_(header), prefix_(std::move(prefix)) {}

  bool Has(std::string_view name) const override { return Find(name).has_value(); }
  std::string Spelled(std::string_view name) const override { return prefix_ + std::string(name); }
  // Any integer type. Arrays are accepted where all elements are equal (some converters write one
  // value per layer).
  Result<int64_t> Int(std::string_view name, int64_t low, int64_t high) const override;
  Result<double> Float(std::string_view name, double low, double high) const override;
  Result<std::string> Text(std::string_view name) const override;
  Result<bool> Bool(std::string_view name) const override;
  Result<std::vector<bool>> Windowed(std::string_view name, int layers) const override;
  Result<std::vector<bool>> Flags(std::string_view name, int layers) const override;
  Result<std::vector<bool>> Listed(std::string_view name, int layers) const override;
  Result<std::vector<float>> Floats(std::string_view name) const override;
  Result<std::vector<float>> FloatsOfLayers(std::string_view name, int layers) const override;
  Result<std::vector<bool>> Positive(std::string_view name, int layers) const override;
  Result<std::vector<bool>> Recurrent(std::string_view kind, int layers) const override;
  Result<int64_t> IntOfSome(std::string_view name, int64_t low, int64_t high) const override;
  Result<std::vector<int>> IntsOfLayers(std::string_view name, int layers, int64_t low,
                                        int64_t high) const override;
  Result<std::vector<double>> NumbersOfLayers(std::string_view name, int layers, double low,
                                              double high) const override;

 private:
  std::optional<gguf::Value> Find(std::string_view name) const {
    return header_.Find(prefix_ + std::string(name));
  }
  Status Missing(std::string_view name) const;
  Status WrongType(std::string_view name, const gguf::Value& value, std::string_view wanted) const;

  const gguf::Header& header_;
  std::string prefix_;
};

// An integer of any width as int64, or nothing (not an integer, or above INT64_MAX).
std::optional<int64_t> IntegerAt(const gguf::Value& value, uint64_t index);

}  // namespace tutti::model
