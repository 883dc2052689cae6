// Errors of the library: Error, a typed value, and Expected<T>, which holds a T or an Error.
//
// No library call throws. Callers that prefer exceptions call Expected::value(), which throws on an
// error. An exception thrown by a token handler is caught, stored in the Error (cause()), and
// rethrown by value() or Throw() on the thread that calls them. Both types are plain values; any
// thread may use them.
#pragma once

#if __cplusplus < 202002L
#error "tutti/tutti.h needs C++20 (-std=c++20); tutti/c_api.h is for C and for older C++"
#endif

#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "tutti/export.h"

namespace tutti {

// The canonical codes of gRPC. The C interface has the same values.
enum class ErrorCode {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,  // a handler failed
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,  // try again later: queue_full, overloaded, draining
  kDataLoss = 15,
  kUnauthenticated = 16,
};

class Error {
 public:
  Error() = default;  // no error
  // `reason` is a machine-readable word ("context_length_exceeded"), `message` a sentence for
  // people.
  Error(ErrorCode code, std::string reason, std::string message)
      : code_(code), reason_(std::move(reason)), message_(std::move(message)) {}

  bool ok() const { return code_ == ErrorCode::kOk; }
  ErrorCode code() const { return code_; }
  const std::string& reason() const { return reason_; }
  const std::string& message() const { return message_; }
  const std::string& param() const { return param_; }  // the field at fault, or empty
  // Time to wait before a retry; nullopt if a retry does not help.
  std::optional<std::chrono::milliseconds> retry_after() const { return retry_after_; }
  const std::exception_ptr& cause() const { return cause_; }  // what a handler threw, or null
  std::string ToString() const { return reason_ + ": " + message_; }

  Error&& WithParam(std::string param) && {
    param_ = std::move(param);
    return std::move(*this);
  }
  Error&& WithRetryAfter(std::optional<std::chrono::milliseconds> wait) && {
    retry_after_ = wait;
    return std::move(*this);
  }
  Error&& WithCause(std::exception_ptr cause) && {
    cause_ = std::move(cause);
    return std::move(*this);
  }

  // Throws the cause, or else an Exception that holds this error.
  [[noreturn]] inline void Throw() const;

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string reason_, message_, param_;
  std::optional<std::chrono::milliseconds> retry_after_;
  std::exception_ptr cause_;
};

// The exception that Expected::value() throws.
class Exception : public std::runtime_error {
 public:
  explicit Exception(Error error)
      : std::runtime_error(error.ToString()), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

void Error::Throw() const {
#if defined(__cpp_exceptions)
  if (cause_ != nullptr) std::rethrow_exception(cause_);
  throw Exception(*this);
#else
  std::abort();
#endif
}

template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value)
      : state_(std::in_place_index<1>, std::move(value)) {}  // NOLINT: implicit by design
  Expected(Error error)
      : state_(std::in_place_index<0>, std::move(error)) {}  // NOLINT; not an OK one

  bool ok() const { return state_.index() == 1; }
  explicit operator bool() const { return ok(); }
  Error error() const { return ok() ? Error() : std::get<0>(state_); }

  // Returns the value; throws (see Error::Throw) if there is none. A temporary returns its value by
  // move, so that no reference into it can dangle.
  T& value() & { return Held(); }
  const T& value() const& { return const_cast<Expected*>(this)->Held(); }
  T value() && { return std::move(Held()); }
  T& operator*() & { return Held(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(Held()); }
  T* operator->() { return &Held(); }
  const T* operator->() const { return &value(); }

 private:
  T& Held() {
    if (!ok()) std::get<0>(state_).Throw();
    return std::get<1>(state_);
  }
  std::variant<Error, T> state_;
};

}  // namespace tutti
