// Status and Result<T>: the error type of all fallible functions. Tutti throws no exceptions of its
// own.
//
// The canonical code is the kind of failure (gRPC's closed list); `reason` is the machine-readable
// code that a client gets ("context_length_exceeded", "gguf_truncated", ...; docs/http.md); `param`
// is the request field at fault. Values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

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

class [[nodiscard]] Status {
 public:
  // Numbers of an exceeded limit: the requested amount, and the limit.
  struct Excess {
    int64_t asked = 0, most = 0;
    friend bool operator==(const Excess&, const Excess&) = default;
  };

  Status() = default;  // OK
  // `reason` is lower_snake and from the closed list of error codes; `message` is a sentence an
  // operator can act on, with the numbers that decided, and never more than 64 bytes of client
  // input.
  Status(StatusCode code, std::string_view reason, std::string message)
      : code_(code), reason_(reason), message_(std::move(message)) {
    CHECK(code != StatusCode::kOk);
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& reason() const { return reason_; }
  const std::string& message() const { return message_; }
  const std::string& param() const { return param_; }  // "messages[2].content", or empty
  std::optional<std::chrono::milliseconds> retry_after() const { return retry_after_; }
  // For protocols whose errors carry these numbers in addition to the message.
  std::optional<Excess> excess() const { return excess_; }

  Status&& WithParam(std::string param) && {
    param_ = std::move(param);
    return std::move(*this);
  }
  Status&& WithRetryAfter(std::chrono::milliseconds wait) && {
    retry_after_ = wait;
    return std::move(*this);
  }
  Status&& WithExcess(int64_t asked, int64_t most) && {
    excess_ = {asked, most};
    return std::move(*this);
  }
  // Puts context before the message ("model.gguf: ..."); code, reason and param stay.
  Status&& WithContext(std::string_view context) && {
    message_ = std::string(context) + ": " + message_;
    return std::move(*this);
  }

  std::string ToString() const;  // "INVALID_ARGUMENT [invalid_value] n: must be ..."
  friend bool operator==(const Status&, const Status&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Status& s) {
    return out << s.ToString();
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string reason_;
  std::string message_;
  std::string param_;
  std::optional<std::chrono::milliseconds> retry_after_;
  std::optional<Excess> excess_;
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

// A value or the Status that explains its absence. std::expected needs -std=c++2b on GCC 12 and is
// empty for clang 14, so this is our own, with just what we use.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<1>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {  // NOLINT
    CHECK(!std::get<0>(state_).ok());
  }

  bool ok() const { return state_.index() == 1; }
  explicit operator bool() const { return ok(); }
  Status status() const& { return ok() ? Status() : std::get<0>(state_); }
  Status status() && { return ok() ? Status() : std::move(std::get<0>(state_)); }

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
  T& Held() {
    CHECK(ok()) << std::get<0>(state_).ToString();
    return std::get<1>(state_);
  }
  std::variant<Status, T> state_;
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
