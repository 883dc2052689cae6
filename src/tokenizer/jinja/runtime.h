// Runtime: what one render may use up, how it fails, and the making of every value in it.
//
// Failure is sticky: the first one is kept, every later operation returns undefined at once, and
// the interpreter unwinds. Operations must Spend() before they work, in proportion to the work. One
// render, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja/object.h"
#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer::jinja {

struct Limits {
  uint64_t steps;
  size_t output_bytes;
  size_t live_bytes;
  int64_t now_unix_s;
  // As in the sandbox of the reference implementation.
  int64_t range_items = 100'000;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Runtime {
 public:
  // A step also pays for this many bytes copied or compared.
  static constexpr size_t kBytesPerStep = 64;

  explicit Runtime(const Limits& limits)
      : limits_(limits), meter_(limits.live_bytes), steps_left_(limits.steps) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Limits& limits() const { return limits_; }
  bool failed() const { return failed_; }
  const Status& status() const { return status_; }
  void set_line(int line) { line_ = line; }
  int line() const { return line_; }

  // False when the fuel is gone (or the render has failed already).
  bool Spend(uint64_t steps) {
    if (steps <= steps_left_) {
      steps_left_ -= steps;
      return !failed_;
    }
    return OutOfFuel();
  }
  bool SpendBytes(size_t bytes) { return Spend(bytes / kBytesPerStep); }

  // All return undefined, so that a caller can `return rt.Fail(...)`. Messages hold no client text.
  Value Fail(std::string_view message);  // the template and this chat do not fit
  Value FailType(std::string_view what, const Value& value);  // "cannot WHAT a list"
  Value FailDepth();
  Value FailRange();
  Value FailOutput(std::string_view what);
  Value FailRaised(
      const Text& message);  // raise_exception; at most 64 bytes of client text are kept

  // Every value a render makes. Undefined after a failure.
  Value NewString(Text text);
  Value NewString(std::string_view text, Origin origin = Origin::kTemplate) {
    return NewString(Text(std::string(text), origin));
  }
  Value NewList(std::vector<Value> items, bool tuple = false);
  Value NewDict(std::vector<DictRep::Item> items);  // fails on keys that are not hashable
  // An object that lives to the end of the render even without other references: a chain of
  // objects, each holding the one before, must not be destroyed by recursion.
  template <typename T, typename... Args>
  Value NewObject(Args&&... args) {
    Value value = NewTransient<T>(std::forward<Args>(args)...);
    if (value.is_object()) kept_.push_back(value);
    return value;
  }
  // An object whose creator passes it to Keep() after its last use.
  template <typename T, typename... Args>
  Value NewTransient(Args&&... args) {
    constexpr size_t kBytes = sizeof(T) + 64;  // and the control block, the node in kept_
    if (!Spend(1)) return Value();
    if (!meter_.Reserve(kBytes)) return FailOutput("values");
    auto object = std::make_shared<T>(std::forward<Args>(args)...);
    object->Charge(&meter_, kBytes);
    return Value::Of(std::shared_ptr<Object>(std::move(object)));
  }
  // Keeps the object until the end of the render if it has another owner by now.
  void Keep(Value object) {
    if (object.is_object() && object.shared()) kept_.push_back(std::move(object));
  }

  // Pays for `bytes` more of a text under construction and sees that they fit, before they are
  // copied.
  bool Grow(const Text& text, size_t bytes) {
    if (!SpendBytes(bytes)) return false;
    if (bytes <= room() && text.size() <= room() - bytes) return true;
    FailOutput("values");
    return false;
  }

 private:
  size_t room() const { return limits_.live_bytes - meter_.live(); }
  bool OutOfFuel();
  void SetStatus(std::string_view reason, std::string message);

  Limits limits_;
  MemoryMeter meter_;
  uint64_t steps_left_;
  bool failed_ = false;
  int line_ = 0;
  Status status_;
  std::vector<Value> kept_;  // objects, cleared one by one at the end
};

}  // namespace tutti::tokenizer::jinja
