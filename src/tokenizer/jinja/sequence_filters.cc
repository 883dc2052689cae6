// Filters over lists, dicts and the characters of strings.
#include <algorithm>
#include <array>
#include <cmath>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/operations.h"
#include "tokenizer/jinja/string_ops.h"

namespace tutti::tokenizer::jinja {
namespace {

// item.a.b or item[2], written "a.b" or 2. The path may be part of no dict on the way: undefined.
Value FollowPath(Runtime& rt, const Value& item, const Value& path) {
  if (path.is_int()) return GetItem(rt, item, path);
  if (!path.is_string()) return rt.FailType("use as an attribute name", path);
  Value value = item;
  const std::string& bytes = path.text().bytes();
  for (size_t begin = 0; begin <= bytes.size() && !rt.failed();) {
    const size_t end = std::min(bytes.find('.', begin), bytes.size());
    const std::string part = bytes.substr(begin, end - begin);
    const bool number = !part.empty() && part.size() <= 9 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    value = GetItem(rt, value,
                    number ? Value::Int(std::stoll(part)) : Value::String(part, Origin::kTemplate));
    begin = end + 1;
  }
  return value;
}

const std::vector<Value> kNothing;

// The items of `value` as a list, or an empty list after a failure.
const std::vector<Value>& Items(Runtime& rt, const Value& value, Value* holder) {
  *holder = Iterate(rt, value);
  return rt.failed() ? kNothing : holder->items();
}

Value LengthOf(Runtime& rt, const Value& input, const Arguments& args) {
  if (!ArgReader(rt, args, "length", {}).ok()) return Value();
  return Value::Int(static_cast<int64_t>(Length(rt, input)));
}

Value ListOf(Runtime& rt, const Value& input, const Arguments& args) {
  if (!ArgReader(rt, args, "list", {}).ok()) return Value();
  const Value list = Iterate(rt, input);
  if (rt.failed() || !list.is_tuple()) return list;
  return rt.NewList(list.items());
}

Value First(Runtime& rt, const Value& input, const Arguments& args) {
  Value holder;
  const auto& items = Items(rt, input, &holder);
  return !ArgReader(rt, args, "first", {}).ok() || items.empty() ? Value() : items.front();
}

Value Last(Runtime& rt, const Value& input, const Arguments& args) {
  Value holder;
  const auto& items = Items(rt, input, &holder);
  return !ArgReader(rt, args, "last", {}).ok() || items.empty() ? Value() : items.back();
}

Value Join(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "join", {"d", "attribute"});
  Value holder;
  const auto& items = Items(rt, input, &holder);
  const Value separator = reader.Has(0) ? ToStringValue(rt, reader.Get(0)) : rt.NewString(Text());
  if (!reader.ok()) return Value();
  if (!reader.Has(1) || reader.Get(1).is_none())
    return JoinTexts(rt, separator.text(), items, /*convert=*/true);
  std::vector<Value> parts;
  for (const Value& item : items) {
    parts.push_back(FollowPath(rt, item, reader.Get(1)));
    if (rt.failed()) return Value();
  }
  return JoinTexts(rt, separator.text(), parts, /*convert=*/true);
}

Value Reverse(Runtime& rt, const Value& input, const Arguments& args) {
  if (!ArgReader(rt, args, "reverse", {}).ok()) return Value();
  if (input.is_string()) return GetSlice(rt, input, Value(), Value(), Value::Int(-1));
  const Value list = Iterate(rt, input);
  if (rt.failed() || !rt.Spend(list.items().size() / 4)) return Value();
  return rt.NewList({list.items().rbegin(), list.items().rend()});
}

Value ItemsOf(Runtime& rt, const Value& input, const Arguments& args) {
  if (!ArgReader(rt, args, "items", {}).ok()) return Value();
  if (!input.defined()) return rt.NewList({});
  if (!input.is_dict()) return rt.FailType("list the items of", input);
  std::vector<Value> list;
  for (const auto& [key, value] : input.members()) {
    list.push_back(rt.NewList({key, value}, /*tuple=*/true));
    if (rt.failed()) return Value();
  }
  return rt.NewList(std::move(list));
}

// Comparison key of sort, unique, min and max: strings ignore case unless requested otherwise.
Value SortKey(Runtime& rt, const Value& item, const Value& attribute, bool case_sensitive) {
  const Value value =
      attribute.defined() && !attribute.is_none() ? FollowPath(rt, item, attribute) : item;
  if (rt.failed() || case_sensitive || !value.is_string()) return value;
  return ChangeCase(rt, value.text(), CaseChange::kLower);
}

bool SortClass(const Value& v, int* kind) {
  if (v.is_string()) return *kind = 1, true;
  if (IsNumber(v) && !(v.is_float() && std::isnan(v.float_value()))) return *kind = 2, true;
  return false;
}

struct Keyed {
  Value key;
  Value item;
};

// The items sorted by key, which must be all numbers or all strings: then the order is total and
// the sort is sound.
Value SortedItems(Runtime& rt, std::vector<Keyed> keyed, bool reverse) {
  int first_class = 0;
  size_t bytes = 0;
  for (const Keyed& k : keyed) {
    int kind = 0;
    if (!SortClass(k.key, &kind) || (first_class != 0 && kind != first_class)) {
      return rt.FailType("sort among others", k.key);
    }
    first_class = kind;
    if (k.key.is_string()) bytes += k.key.text().size();
  }
  uint64_t rounds = 1;
  while ((size_t{1} << rounds) < keyed.size()) ++rounds;
  if (!rt.Spend(rounds * (keyed.size() + bytes / Runtime::kBytesPerStep))) return Value();
  std::stable_sort(keyed.begin(), keyed.end(), [reverse](const Keyed& a, const Keyed& b) {
    return reverse ? CompareKeys(b.key, a.key) < 0 : CompareKeys(a.key, b.key) < 0;
  });
  std::vector<Value> sorted;
  sorted.reserve(keyed.size());
  for (Keyed& k : keyed) sorted.push_back(std::move(k.item));
  return rt.NewList(std::move(sorted));
}

Value Sort(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "sort", {"reverse", "case_sensitive", "attribute"});
  Value holder;
  const auto& items = Items(rt, input, &holder);
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    keyed.push_back({SortKey(rt, item, reader.Get(2), reader.Bool(1, false)), item});
    if (!reader.ok()) return Value();
  }
  return reader.ok() ? SortedItems(rt, std::move(keyed), reader.Bool(0, false)) : Value();
}

Value DictSort(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "dictsort", {"case_sensitive", "by", "reverse"});
  if (!input.is_dict()) return rt.FailType("sort the members of", input);
  const std::string by = reader.String(1).value_or(Text("key", Origin::kTemplate)).bytes();
  if (by != "key" && by != "value") return rt.Fail("dictsort: by must be key or value");
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : input.members()) {
    keyed.push_back({SortKey(rt, by == "key" ? key : value, Value(), reader.Bool(0, false)),
                     rt.NewList({key, value}, /*tuple=*/true)});
    if (!reader.ok()) return Value();
  }
  return reader.ok() ? SortedItems(rt, std::move(keyed), reader.Bool(2, false)) : Value();
}

Value Unique(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "unique", {"case_sensitive", "attribute"});
  Value holder;
  const auto& items = Items(rt, input, &holder);
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (const Value& item : items) {
    const Value key = SortKey(rt, item, reader.Get(1), reader.Bool(0, false));
    if (!reader.ok()) return Value();
    const bool repeated =
        std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return Equal(rt, s, key); });
    if (rt.failed()) return Value();
    if (repeated) continue;
    seen.push_back(key);
    kept.push_back(item);
  }
  return rt.NewList(std::move(kept));
}

template <bool kWantMax>
Value Extreme(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, kWantMax ? "max" : "min", {"case_sensitive", "attribute"});
  Value holder;
  const auto& items = Items(rt, input, &holder);
  Value best;
  Value best_key;
  for (const Value& item : items) {
    const Value key = SortKey(rt, item, reader.Get(1), reader.Bool(0, false));
    if (!reader.ok()) return Value();
    const bool better =
        !best_key.defined() || (kWantMax ? Less(rt, best_key, key) : Less(rt, key, best_key));
    if (!better) continue;
    best = item;
    best_key = key;
  }
  return best;
}

Value Sum(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "sum", {"attribute", "start"});
  Value holder;
  const auto& items = Items(rt, input, &holder);
  Value total = reader.Has(1) ? reader.Get(1) : Value::Int(0);
  const bool by_attribute = reader.Has(0) && !reader.Get(0).is_none();
  for (const Value& item : items) {
    total = Arithmetic(rt, Operator::kAdd, total,
                       by_attribute ? FollowPath(rt, item, reader.Get(0)) : item);
    if (!reader.ok()) return Value();
  }
  return total;
}

// As Items, but anything false is empty: so map, select and their kin take none.
const std::vector<Value>& ItemsIfAny(Runtime& rt, const Value& value, Value* holder) {
  return Truthy(value) ? Items(rt, value, holder) : kNothing;
}

// map(attribute="a", default=x) or map("filter", args...)
Value Map(Runtime& rt, const Value& input, const Arguments& args) {
  Value holder;
  const auto& items = ItemsIfAny(rt, input, &holder);
  std::vector<Value> mapped;
  if (args.positional.empty()) {
    const ArgReader reader(rt, args, "map", {"attribute", "default"});
    const Value attribute = reader.Require(0);
    for (const Value& item : items) {
      if (!reader.ok()) return Value();
      Value value = FollowPath(rt, item, attribute);
      mapped.push_back(!value.defined() && reader.Has(1) ? reader.Get(1) : std::move(value));
    }
    return rt.failed() ? Value() : rt.NewList(std::move(mapped));
  }
  if (!args.positional[0].is_string())
    return rt.FailType("use as the name of a filter", args.positional[0]);
  const std::string& name = args.positional[0].text().bytes();
  const Arguments rest{{args.positional.begin() + 1, args.positional.end()}, args.named};
  // A filter that maps by a filter that maps ... would recurse as deep as its argument list is
  // long.
  if (name == "map" || name == "select" || name == "reject")
    return rt.Fail("map: this filter cannot be mapped");
  for (const Value& item : items) {
    mapped.push_back(ApplyFilter(rt, name, item, rest));
    if (rt.failed()) return Value();
  }
  return rt.NewList(std::move(mapped));
}

// select, reject, selectattr, rejectattr
template <bool kByAttribute, bool kKeep>
Value Pick(Runtime& rt, const Value& input, const Arguments& args) {
  Value holder;
  const auto& items = ItemsIfAny(rt, input, &holder);
  const size_t skip = kByAttribute ? 1 : 0;
  if (kByAttribute && args.positional.empty())
    return rt.Fail("selectattr: the attribute is missing");
  Arguments rest;
  std::string test;
  if (args.positional.size() > skip) {
    if (!args.positional[skip].is_string())
      return rt.FailType("use as the name of a test", args.positional[skip]);
    test = args.positional[skip].text().bytes();
    rest = {{args.positional.begin() + static_cast<ptrdiff_t>(skip) + 1, args.positional.end()},
            args.named};
  }
  std::vector<Value> picked;
  for (const Value& item : items) {
    const Value subject = kByAttribute ? FollowPath(rt, item, args.positional[0]) : item;
    if (!rt.Spend(1)) return Value();
    const bool holds = test.empty() ? Truthy(subject) : ApplyPredicate(rt, test, subject, rest);
    if (rt.failed()) return Value();
    if (holds == kKeep) picked.push_back(item);
  }
  return rt.NewList(std::move(picked));
}

constexpr auto kSelect = Pick<false, true>;
constexpr auto kReject = Pick<false, false>;
constexpr auto kSelectAttr = Pick<true, true>;
constexpr auto kRejectAttr = Pick<true, false>;

constexpr std::array<FilterEntry, 19> kSequenceFilters{{
    {"count", LengthOf},         {"dictsort", DictSort},  {"first", First},
    {"items", ItemsOf},          {"join", Join},          {"last", Last},
    {"length", LengthOf},        {"list", ListOf},        {"map", Map},
    {"max", Extreme<true>},      {"min", Extreme<false>}, {"reject", kReject},
    {"rejectattr", kRejectAttr}, {"reverse", Reverse},    {"select", kSelect},
    {"selectattr", kSelectAttr}, {"sort", Sort},          {"sum", Sum},
    {"unique", Unique},
}};

}  // namespace

const FilterEntry* FindSequenceFilter(std::string_view name) {
  for (const FilterEntry& entry : kSequenceFilters) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace tutti::tokenizer::jinja
