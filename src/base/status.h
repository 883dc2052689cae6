// Status and Result<T>: the error type of all fallible functions. Tutti throws no exceptions of its
// own.
//
// The canonical code is the kind of failure (gRPC's closed list); `reason` is the machine-readable
// code that a client gets ("context_length_exceeded", "gguf_truncated", ...; docs/http.md); `param`
// is the request field at fault. Values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace tutti {

// Numeric values are those of google.rpc.Code, so that a gRPC server needs no table.
enum class StatusCode {
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
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

std::string_view StatusCodeName(StatusCode code);

// A pointer to what an error says, null if OK: functions that return one stay small, and so does
// the time to compile them.
class [[nodiscard]] Status {
 public:
  // Numbers of an exceeded limit: the requested amount, and the limit.
  struct Excess {
    int64_t asked = 0, most = 0;
    friend bool operator==(const Excess&, const Excess&) = default;
  };

  Status() = default;  // OK; also what is left of a status that was moved away
  // `reason` is lower_snake and from the closed list of error codes; `message` is a sentence an
  // operator can act on, with the numbers that decided, and never more than 64 bytes of client
  // input.
  Status(StatusCode code, std::string_view reason, std::string message);
  Status(const Status& other);
  Status(Status&& other) noexcept : error_(std::exchange(other.error_, nullptr)) {}
  Status& operator=(Status other) noexcept {
    std::swap(error_, other.error_);
    return *this;
  }
  ~Status() {
    if (error_ != nullptr) Free(error_);
  }

  bool ok() const { return error_ == nullptr; }
  StatusCode code() const;
  const std::string& reason() const;
  const std::string& message() const;
  const std::string& param() const;  // "messages[2].content", or empty
  std::optional<std::chrono::milliseconds> retry_after() const;
  // For protocols whose errors carry these numbers in addition to the message.
  std::optional<Excess> excess() const;

  // For errors; what is added to OK is lost.
  Status&& WithParam(std::string param) &&;
  Status&& WithRetryAfter(std::chrono::milliseconds wait) &&;
  Status&& WithExcess(int64_t asked, int64_t most) &&;
  // Puts context before the message ("model.gguf: ..."); code, reason and param stay.
  Status&& WithContext(std::string_view context) &&;

  std::string ToString() const;  // "INVALID_ARGUMENT [invalid_value] n: must be ..."
  friend bool operator==(const Status& a, const Status& b) { return Equal(a, b); }
  friend std::ostream& operator<<(std::ostream& out, const Status& s) {
    return out << s.ToString();
  }
  friend Status OutOfMemory();

 private:
  struct Error;
  static void Free(Error* error) noexcept;
  static bool Equal(const Status& a, const Status& b);
  const Error& error() const;
  Error* Own();             // to change it; null if OK
  Error* error_ = nullptr;  // owned, but for the one of OutOfMemory()
};

inline Status OkStatus() { return Status(); }
Status InvalidArgument(std::string_view reason, std::string message);
// invalid_value, for the request field or the option `param`; `message` is a complete sentence.
Status BadValue(std::string param, std::string message);
Status NotFound(std::string_view reason, std::string message);
Status Unavailable(std::string_view reason, std::string message);
Status ResourceExhausted(std::string_view reason, std::string message);
Status Internal(std::string message);  // reason internal_error
Status OutOfMemory();                  // std::bad_alloc, to a caller: overloaded; takes no memory
Status Draining();                     // a request that the shutdown of the server ends
Status Cancelled();                    // a request that its caller cancelled

namespace internal {
void CheckIsError(const Status& status);
[[noreturn]] void FailWithoutValue(const Status& status);
}  // namespace internal

// A value or the Status that explains its absence. std::expected needs -std=c++2b on GCC 12 and is
// empty for clang 14, so this is our own, with just what we use; a std::variant inside would take
// longer to compile than most of what returns one.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : has_value_(true) { Make(std::move(value)); }  // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)), has_value_(false) {  // NOLINT
    internal::CheckIsError(status_);
  }
  Result(const Result& other) requires std::is_copy_constructible_v<T>
      : status_(other.status_), has_value_(other.has_value_) {
    if (has_value_) Make(other.value_);
  }
  Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>)
      : status_(std::move(other.status_)), has_value_(other.has_value_) {
    if (has_value_) Make(std::move(other.value_));
  }
  Result& operator=(const Result& other) requires std::is_copy_constructible_v<T> {
    return *this = Result(other);
  }
  Result& operator=(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) {
    if (this == &other) return *this;
    if (std::exchange(has_value_, false)) value_.~T();
    status_ = std::move(other.status_);
    if (other.has_value_) {
      Make(std::move(other.value_));
      has_value_ = true;
    }
    return *this;
  }
  ~Result() {
    if (has_value_) value_.~T();
  }

  bool ok() const { return has_value_; }
  explicit operator bool() const { return ok(); }
  Status status() const& { return status_; }
  Status status() && { return std::move(status_); }

  // CHECKs that there is a value.
  T& value() & { return Held(); }
  const T& value() const& { return const_cast<Result*>(this)->Held(); }
  T&& value() && { return std::move(Held()); }
  T& operator*() & { return Held(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(Held()); }
  T* operator->() { return &Held(); }
  const T* operator->() const { return &value(); }

 private:
  template <typename From>
  void Make(From&& from) {
    ::new (static_cast<void*>(const_cast<std::remove_const_t<T>*>(&value_)))
        T(std::forward<From>(from));
  }
  T& Held() {
    if (!has_value_) [[unlikely]]
      internal::FailWithoutValue(status_);
    return value_;
  }
  Status status_;  // OK with a value
  bool has_value_;
  union {
    T value_;  // if has_value_
  };
};

#define TUTTI_CONCAT_INNER(a, b) a##b
#define TUTTI_CONCAT(a, b) TUTTI_CONCAT_INNER(a, b)
// Returns the Status of `expr` from the enclosing function if it is not OK.
#define RETURN_IF_ERROR(expr)                                                              \
  do {                                                                                     \
    if (::tutti::Status tutti_status_ = (expr); !tutti_status_.ok()) return tutti_status_; \
  } while (false)
// ASSIGN_OR_RETURN(auto x, F()): declares x from the Result, or returns its Status.
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(TUTTI_CONCAT(tutti_result_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(result, lhs, expr)       \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  lhs = std::move(result).value()

}  // namespace tutti
