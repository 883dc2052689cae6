// The shared payloads behind Value, the engine's own objects, and the meter that bounds how much of
// them a render keeps alive.
//
// Payloads are immutable once a Value holds them. One render, one meter, one thread; payloads made
// outside a render (input, literals of the program) have no meter and may be shared between
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/text.h"
#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer::jinja {

class MemoryMeter {
 public:
  explicit MemoryMeter(size_t limit) : limit_(limit) {}
  bool Reserve(size_t bytes) {
    if (bytes > limit_ - live_) return false;
    live_ += bytes;
    return true;
  }
  void Release(size_t bytes) { live_ -= bytes; }
  size_t live() const { return live_; }

 private:
  size_t limit_;
  size_t live_ = 0;
};

// Gives its bytes back to the meter at the end of its life. The meter outlives every payload it
// counts.
class Metered {
 public:
  Metered() = default;
  Metered(const Metered&) = delete;
  Metered& operator=(const Metered&) = delete;
  ~Metered() {
    if (meter_ != nullptr) meter_->Release(bytes_);
  }
  // `bytes` are already reserved.
  void Charge(MemoryMeter* meter, size_t bytes) {
    meter_ = meter;
    bytes_ = bytes;
  }

 private:
  MemoryMeter* meter_ = nullptr;
  size_t bytes_ = 0;
};

struct StringRep : Metered {
  Text text;
};

struct ListRep : Metered {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;
};

struct DictRep : Metered {
  using Item = std::pair<Value, Value>;
  std::vector<Item> items;      // in insertion order, keys unique and hashable
  std::vector<uint32_t> order;  // indexes of `items` by key; empty while a linear search is as good
  int depth = 1;

  // Sorts out equal keys and builds `order` and `depth`.
  void Index();
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
};

// True for types that may be a key: None, bool, numbers and strings.
bool Hashable(const Value& value);
// A total order of hashable values in which equal keys (1, 1.0, True) are equal. <0, 0, >0.
int CompareKeys(const Value& a, const Value& b);

enum class ObjectKind { kNamespace, kLoop, kFunction, kMethod, kMacro };

// The engine's own objects, which a template can hold but which never leave a render.
//
// These are the only mutable values (a namespace may even hold itself), so the Runtime keeps those
// that outlive their maker and empties one after the other at the end of the render: nothing leaks,
// no destructor recurses.
class Object : public Metered {
 public:
  explicit Object(ObjectKind kind) : kind_(kind) {}
  virtual ~Object() = default;
  ObjectKind kind() const { return kind_; }
  virtual void Clear() {}  // drops every Value held

 private:
  const ObjectKind kind_;
};

// namespace(...): the one thing whose attributes a template may set.
class NamespaceObject final : public Object {
 public:
  NamespaceObject() : Object(ObjectKind::kNamespace) {}
  void Clear() override { attributes.clear(); }
  std::map<std::string, Value, std::less<>> attributes;
};

// `loop` inside a for. `items` is what the loop runs over, after its filter.
class LoopObject final : public Object {
 public:
  explicit LoopObject(Value list) : Object(ObjectKind::kLoop), items(std::move(list)) {}
  void Clear() override {
    items = Value();
    last_changed = Value();
  }
  Value items;
  size_t index0 = 0;
  Value last_changed;  // arguments of the last loop.changed()
};

enum class Builtin { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow };

class FunctionObject final : public Object {
 public:
  explicit FunctionObject(Builtin which) : Object(ObjectKind::kFunction), builtin(which) {}
  const Builtin builtin;
};

// `receiver.name` before it is called. `name` is one that HasMethod() knows.
class MethodObject final : public Object {
 public:
  MethodObject(Value self, std::string method)
      : Object(ObjectKind::kMethod), receiver(std::move(self)), name(std::move(method)) {}
  void Clear() override { receiver = Value(); }
  Value receiver;
  const std::string name;
};

// A macro or the caller() of a call block; the interpreter derives from it.
class MacroObject : public Object {
 public:
  explicit MacroObject(std::string macro_name)
      : Object(ObjectKind::kMacro), name(std::move(macro_name)) {}
  const std::string name;
};

}  // namespace tutti::tokenizer::jinja
