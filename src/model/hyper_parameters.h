// HyperParameters: typed, ranged reads of GGUF keys, with refusals that name the key, the value and
// the range.
//
// A value view over a file's header; any thread while the file lives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "gguf/header.h"

namespace tutti::model {

class HyperParameters {
 public:
  // `prefix` ("llama.") is put before the names given to the readers below.
  HyperParameters(const gguf::Header& header, std::string prefix)
      : header_(header), prefix_(std::move(prefix)) {}

  bool Has(std::string_view name) const { return Find(name).has_value(); }

  // Any integer type, low <= value <= high. Arrays are accepted where all elements are equal (some
  // converters write one value per layer). model_hparam when out of range, of another type, or
  // required and absent.
  Result<int64_t> Int(std::string_view name, int64_t low, int64_t high) const;
  Result<int64_t> IntOr(std::string_view name, int64_t fallback, int64_t low, int64_t high) const;
  // float32 or float64, finite, low <= value <= high.
  Result<double> Float(std::string_view name, double low, double high) const;
  Result<double> FloatOr(std::string_view name, double fallback, double low, double high) const;
  Result<std::string> StringOr(std::string_view name, std::string fallback) const;
  Result<bool> BoolOr(std::string_view name, bool fallback) const;

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
