// Parameter: a number with a flag for "set by the request". A number that is not set may be
// replaced by the default of the model (api/sampling_defaults.h). Converts to the number;
// assignment sets it. A plain value.
#pragma once

namespace tutti::api {

template <typename T>
class Parameter {
 public:
  // A parameter that is not set; `value` is used if the model has no default.
  static constexpr Parameter Default(T value) {
    Parameter parameter(value);
    parameter.given_ = false;
    return parameter;
  }
  constexpr Parameter(T value) : value_(value) {}  // NOLINT: assigned like a number
  constexpr operator T() const { return value_; }  // NOLINT: read like a number

  constexpr T value() const { return value_; }
  constexpr bool given() const { return given_; }

 private:
  T value_;
  bool given_ = true;
};

}  // namespace tutti::api
