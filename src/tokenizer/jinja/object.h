// The engine's own objects, which a template can hold but which never leave a render.
//
// These are the only mutable values (a namespace may even hold itself), so the Runtime keeps those
// that outlive their maker and empties one after the other at the end of the render: nothing leaks,
// no destructor recurses.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "tokenizer/jinja/rep.h"
#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer::jinja {

enum class ObjectKind { kNamespace, kLoop, kFunction, kMethod, kMacro };

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
