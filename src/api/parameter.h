// Parameter: a number of a request that remembers whether the request gave it. A number that was
// not given may be replaced by the default of the model that answers (api/sampling_defaults.h).
// Reads like the number itself; assigning gives it. A plain value.
#pragma once

namespace tutti::api {

template <typename T>
class Parameter {
 public:
  // Not given: `value` holds where the model has no default of its own.
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
