#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tokenizer/jinja/arguments.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/format.h"

namespace tutti::tokenizer::jinja {
namespace {

Value Range(Runtime& rt, const Arguments& args) {
  const ArgReader reader(rt, args, "range", {"start", "stop", "step"});
  if (!reader.ok() || !reader.Require(0).defined()) return rt.FailType("count to", reader.Get(0));
  const int64_t start = reader.Has(1) ? reader.Int(0, 0) : 0;
  const int64_t stop = reader.Has(1) ? reader.Int(1, 0) : reader.Int(0, 0);
  const int64_t step = reader.Int(2, 1);
  if (rt.failed()) return Value();
  if (step == 0) return rt.Fail("range: the step is zero");
  const bool empty = step > 0 ? start >= stop : start <= stop;
  const auto distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                 : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride =
      step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = empty ? 0 : (distance - 1) / stride + 1;
  if (count > static_cast<uint64_t>(rt.limits().range_items)) return rt.FailRange();
  if (!rt.Spend(count / 2)) return Value();
  std::vector<Value> items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    items.push_back(Value::Int(
        static_cast<int64_t>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step))));
  }
  return rt.NewList(std::move(items));
}

// The members of namespace(...) and dict(...): of a mapping, then by name.
bool Members(Runtime& rt, const Arguments& args, std::vector<DictRep::Item>* members) {
  if (args.positional.size() > 1) return rt.Fail("at most one mapping is expected"), false;
  if (!args.positional.empty()) {
    if (!args.positional[0].is_dict())
      return rt.FailType("copy the members of", args.positional[0]), false;
    *members = args.positional[0].members();
  }
  for (const auto& [name, value] : args.named) members->emplace_back(rt.NewString(name), value);
  return rt.Spend(members->size());
}

Value NewDict(Runtime& rt, const Arguments& args) {
  std::vector<DictRep::Item> members;
  return Members(rt, args, &members) ? rt.NewDict(std::move(members)) : Value();
}

Value NewNamespace(Runtime& rt, const Arguments& args) {
  std::vector<DictRep::Item> members;
  const Value space = rt.NewObject<NamespaceObject>();
  if (rt.failed() || !Members(rt, args, &members)) return Value();
  for (const auto& [key, value] : members) {
    if (!key.is_string()) return rt.FailType("use as the name of an attribute", key);
    SetAttribute(rt, static_cast<NamespaceObject*>(space.object()), key.text().bytes(), value);
  }
  return space;
}

}  // namespace

void SetAttribute(Runtime& rt, NamespaceObject* space, const std::string& name,
                  const Value& value) {
  if (!name.empty() && name[0] == '_') {
    rt.Fail("names of a namespace may not begin with an underscore");
    return;
  }
  if (rt.Spend(1)) space->attributes[name] = value;
}

Value CallFunction(Runtime& rt, Builtin function, const Arguments& args) {
  switch (function) {
    case Builtin::kRange:
      return Range(rt, args);
    case Builtin::kNamespace:
      return NewNamespace(rt, args);
    case Builtin::kDict:
      return NewDict(rt, args);
    case Builtin::kRaiseException: {
      const ArgReader reader(rt, args, "raise_exception", {"message"});
      const Value message = ToStringValue(rt, reader.Require(0));
      return rt.failed() ? Value() : rt.FailRaised(message.text());
    }
    case Builtin::kStrftimeNow: {
      const ArgReader reader(rt, args, "strftime_now", {"format"});
      const std::optional<Text> format = reader.String(0);
      if (!format) return rt.failed() ? Value() : reader.Require(0);
      if (format->size() > 256) return rt.Fail("strftime_now: the format is too long");
      if (!rt.Spend(16)) return Value();
      const Origin origin = format->empty() ? Origin::kTemplate : format->OriginAt(0);
      return rt.NewString(FormatTime(format->bytes(), rt.limits().now_unix_s),
                          format->uniform() ? origin : Origin::kClient);
    }
  }
  return Value();
}

}  // namespace tutti::tokenizer::jinja
