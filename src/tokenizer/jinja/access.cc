// Attributes, items and slices (declared in operations.h). There is no way from a value to anything
// but the members of dicts, items of lists, characters of strings, attributes of namespaces and
// loops, and the methods of methods.cc.
#include <algorithm>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/operations.h"
#include "tokenizer/jinja/unicode.h"

namespace tutti::tokenizer::jinja {
namespace {

Value LoopAttribute(const LoopObject& loop, const std::string& name) {
  const auto& items = loop.items.items();
  const auto index = static_cast<int64_t>(loop.index0);
  const auto length = static_cast<int64_t>(items.size());
  if (name == "index") return Value::Int(index + 1);
  if (name == "index0") return Value::Int(index);
  if (name == "revindex") return Value::Int(length - index);
  if (name == "revindex0") return Value::Int(length - index - 1);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 == length);
  if (name == "length") return Value::Int(length);
  if (name == "depth") return Value::Int(1);  // recursion is not supported
  if (name == "depth0") return Value::Int(0);
  if (name == "previtem") return index > 0 ? items[loop.index0 - 1] : Value();
  if (name == "nextitem") return index + 1 < length ? items[loop.index0 + 1] : Value();
  return Value();
}

// Python's clamping of slice bounds for a sequence of `length` items.
struct SliceBounds {
  int64_t start, stop, step;
};

bool ResolveSlice(Runtime& rt, const Value& start, const Value& stop, const Value& step,
                  int64_t length, SliceBounds* out) {
  const auto whole = [&](const Value& v, bool* given) {
    *given = v.defined() && !v.is_none();
    if (!*given || v.is_int() || v.is_bool()) return true;
    rt.FailType("slice with", v);
    return false;
  };
  bool has_start = false;
  bool has_stop = false;
  bool has_step = false;
  if (!whole(start, &has_start) || !whole(stop, &has_stop) || !whole(step, &has_step)) return false;
  out->step = has_step ? ToInteger(step) : 1;
  if (out->step == 0) return rt.Fail("slice step is zero"), false;
  // A step as long as the sequence reaches at most one item, so longer steps are treated the same.
  out->step = std::clamp(out->step, -length - 1, length + 1);
  const bool forward = out->step > 0;
  const int64_t low = forward ? 0 : -1;
  const int64_t high = forward ? length : length - 1;
  const auto clamp = [&](int64_t v) {
    if (v < 0) v = v < -length ? low : v + length;
    return std::clamp(v, low, high);
  };
  out->start = has_start ? clamp(ToInteger(start)) : (forward ? 0 : length - 1);
  out->stop = has_stop ? clamp(ToInteger(stop)) : (forward ? length : -1);
  return true;
}

Value SliceText(Runtime& rt, const Value& value, const SliceBounds& bounds) {
  const Text& text = value.text();
  if (!rt.SpendBytes(text.size())) return Value();
  if (bounds.step == 1) {
    if (bounds.stop <= bounds.start) return rt.NewString(Text());
    const auto from = static_cast<size_t>(bounds.start);
    const auto count = static_cast<size_t>(bounds.stop - bounds.start);
    if (text.ascii()) return rt.NewString(text.Slice(from, from + count));
    const size_t begin = OffsetOf(text.bytes(), from);
    const size_t end = begin + OffsetOf(std::string_view(text.bytes()).substr(begin), count);
    return rt.NewString(text.Slice(begin, end));
  }
  const Value characters = Iterate(rt, value);
  if (rt.failed()) return Value();
  Text out;
  for (int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop;
       i += bounds.step) {
    out.Append(characters.items()[static_cast<size_t>(i)].text());
  }
  return rt.NewString(std::move(out));
}

Value ItemAt(Runtime& rt, const Value& sequence, int64_t index) {
  const auto length = static_cast<int64_t>(Length(rt, sequence));
  if (rt.failed() || index < -length || index >= length) return Value();
  const auto at = static_cast<size_t>(index < 0 ? index + length : index);
  if (sequence.is_list()) return sequence.items()[at];
  const Text& text = sequence.text();
  if (!text.ascii() && !rt.SpendBytes(text.size())) return Value();
  const size_t begin = text.ascii() ? at : OffsetOf(text.bytes(), at);
  return rt.NewString(text.Slice(begin, begin + DecodeAt(text.bytes(), begin).length));
}

}  // namespace

Value GetAttribute(Runtime& rt, const Value& object, const std::string& name) {
  if (!rt.Spend(1)) return Value();
  if (!object.defined())
    return rt.FailType("read attribute '" + name.substr(0, 64) + "' of", object);
  if (object.is_object()) {
    Object* const self = object.object();
    if (self->kind() == ObjectKind::kNamespace) {
      const auto& attributes = static_cast<NamespaceObject*>(self)->attributes;
      const auto found = attributes.find(name);
      return found == attributes.end() ? Value::UndefinedNamed(&name) : found->second;
    }
    if (self->kind() == ObjectKind::kLoop) {
      if (HasMethod(object, name)) return rt.NewObject<MethodObject>(object, name);
      return LoopAttribute(*static_cast<LoopObject*>(self), name);
    }
    return Value::UndefinedNamed(&name);
  }
  if (HasMethod(object, name)) return rt.NewObject<MethodObject>(object, name);
  const Value* const member = object.Find(name);
  return member != nullptr ? *member : Value::UndefinedNamed(&name);
}

Value GetItem(Runtime& rt, const Value& object, const Value& key) {
  if (!rt.Spend(1)) return Value();
  if (!object.defined()) return rt.FailType("read an item of", object);
  if (object.is_dict()) {
    if (const Value* const member = object.dict().Find(key)) return *member;
  }
  if ((object.is_list() || object.is_string()) && (key.is_int() || key.is_bool())) {
    return ItemAt(rt, object, ToInteger(key));
  }
  if (!key.is_string()) return Value();
  const std::string& name = key.text().bytes();
  if (object.is_object()) {
    // The result must not name the key: the key may be gone before the result is.
    const Value value = GetAttribute(rt, object, name);
    return value.defined() ? value : Value();
  }
  return HasMethod(object, name) ? rt.NewObject<MethodObject>(object, name) : Value();
}

Value GetSlice(Runtime& rt, const Value& object, const Value& start, const Value& stop,
               const Value& step) {
  if (!rt.Spend(1)) return Value();
  if (!object.is_list() && !object.is_string()) return rt.FailType("slice", object);
  SliceBounds bounds{};
  if (!ResolveSlice(rt, start, stop, step, static_cast<int64_t>(Length(rt, object)), &bounds) ||
      rt.failed()) {
    return Value();
  }
  if (object.is_string()) return SliceText(rt, object, bounds);
  std::vector<Value> items;
  for (int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop;
       i += bounds.step) {
    items.push_back(object.items()[static_cast<size_t>(i)]);
  }
  if (!rt.Spend(items.size() / 4)) return Value();
  return rt.NewList(std::move(items), object.is_tuple());
}

}  // namespace tutti::tokenizer::jinja
