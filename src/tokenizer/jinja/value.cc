#include "tokenizer/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "tokenizer/jinja/object.h"
#include "tokenizer/jinja/rep.h"

namespace tutti::tokenizer::jinja {
namespace {

constexpr size_t kLinearSearch = 8;  // below this many keys an index costs more than it saves

int DepthOver(int deepest_child) {
  return deepest_child >= std::numeric_limits<int>::max() - 1 ? deepest_child : deepest_child + 1;
}

int Rank(const Value& v) {
  switch (v.kind()) {
    case Kind::kNone:
      return 0;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return 1;
    default:
      return 2;
  }
}

template <typename T>
int Order(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

int64_t AsInteger(const Value& v) { return v.is_bool() ? (v.bool_value() ? 1 : 0) : v.int_value(); }
double AsReal(const Value& v) {
  return v.is_float() ? v.float_value() : static_cast<double>(AsInteger(v));
}

}  // namespace

bool Hashable(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kString:
      return true;
    case Kind::kFloat:
      return !std::isnan(value.float_value());
    default:
      return false;
  }
}

int CompareKeys(const Value& a, const Value& b) {
  if (const int ranks = Order(Rank(a), Rank(b)); ranks != 0) return ranks;
  switch (Rank(a)) {
    case 0:
      return 0;
    case 1:
      if (a.is_float() || b.is_float()) return Order(AsReal(a), AsReal(b));
      return Order(AsInteger(a), AsInteger(b));
    default:
      return Order(a.text().bytes(), b.text().bytes());
  }
}

void DictRep::Index() {
  // Stable, so that of equal keys the first is first in order and the last holds the value that
  // wins.
  order.resize(items.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
    return CompareKeys(items[a].first, items[b].first) < 0;
  });
  bool duplicates = false;
  for (size_t i = 0; i < order.size();) {
    size_t next = i + 1;
    while (next < order.size() && CompareKeys(items[order[i]].first, items[order[next]].first) == 0)
      ++next;
    if (next - i > 1) {
      duplicates = true;
      items[order[i]].second = items[order[next - 1]].second;
      for (size_t k = i + 1; k < next; ++k)
        items[order[k]].first = Value();  // undefined is never a key
    }
    i = next;
  }
  if (duplicates) {
    items.erase(std::remove_if(items.begin(), items.end(),
                               [](const Item& item) { return !item.first.defined(); }),
                items.end());
    Index();
    return;
  }
  if (items.size() <= kLinearSearch) order.clear();
  depth = 0;
  for (const Item& item : items) depth = std::max(depth, item.second.depth());
  depth = DepthOver(depth);
}

const Value* DictRep::Find(const Value& key) const {
  if (!Hashable(key)) return nullptr;
  if (order.empty()) {
    for (const Item& item : items) {
      if (CompareKeys(item.first, key) == 0) return &item.second;
    }
    return nullptr;
  }
  const auto found = std::lower_bound(
      order.begin(), order.end(), key,
      [this](uint32_t at, const Value& k) { return CompareKeys(items[at].first, k) < 0; });
  if (found == order.end() || CompareKeys(items[*found].first, key) != 0) return nullptr;
  return &items[*found].second;
}

const Value* DictRep::Find(std::string_view key) const {
  const auto compare = [key](const Value& item) {
    return item.is_string() ? item.text().bytes().compare(key) : -1;
  };
  if (order.empty()) {
    for (const Item& item : items) {
      if (compare(item.first) == 0) return &item.second;
    }
    return nullptr;
  }
  const auto found = std::partition_point(
      order.begin(), order.end(), [&](uint32_t at) { return compare(items[at].first) < 0; });
  if (found == order.end() || compare(items[*found].first) != 0) return nullptr;
  return &items[*found].second;
}

Value Value::None() {
  Value v;
  v.kind_ = Kind::kNone;
  return v;
}

Value Value::Bool(bool value) {
  Value v;
  v.kind_ = Kind::kBool;
  v.scalar_.boolean = value;
  return v;
}

Value Value::Int(int64_t value) {
  Value v;
  v.kind_ = Kind::kInt;
  v.scalar_.integer = value;
  return v;
}

Value Value::Float(double value) {
  Value v;
  v.kind_ = Kind::kFloat;
  v.scalar_.real = value;
  return v;
}

Value Value::String(std::string value, Origin origin) {
  return String(Text(std::move(value), origin));
}

Value Value::String(Text text) {
  auto rep = std::make_shared<StringRep>();
  rep->text = std::move(text);
  return Of(std::shared_ptr<const StringRep>(std::move(rep)));
}

Value Value::List(std::vector<Value> items) {
  auto rep = std::make_shared<ListRep>();
  rep->depth = 0;
  for (const Value& item : items) rep->depth = std::max(rep->depth, item.depth());
  rep->depth = DepthOver(rep->depth);
  rep->items = std::move(items);
  return Of(std::shared_ptr<const ListRep>(std::move(rep)));
}

Value Value::Dict(std::vector<Member> members) {
  auto rep = std::make_shared<DictRep>();
  rep->items.reserve(members.size());
  for (Member& member : members) {
    rep->items.emplace_back(String(std::move(member.first)), std::move(member.second));
  }
  rep->Index();
  return Of(std::shared_ptr<const DictRep>(std::move(rep)));
}

Value Value::UndefinedNamed(const std::string* name) {
  Value v;
  v.scalar_.name = name;
  return v;
}

Value Value::Of(std::shared_ptr<const StringRep> rep) {
  Value v;
  v.kind_ = Kind::kString;
  v.rep_ = std::move(rep);
  return v;
}

Value Value::Of(std::shared_ptr<const ListRep> rep) {
  Value v;
  v.kind_ = Kind::kList;
  v.rep_ = std::move(rep);
  return v;
}

Value Value::Of(std::shared_ptr<const DictRep> rep) {
  Value v;
  v.kind_ = Kind::kDict;
  v.rep_ = std::move(rep);
  return v;
}

Value Value::Of(std::shared_ptr<Object> object) {
  Value v;
  v.kind_ = Kind::kObject;
  v.rep_ = std::move(object);
  return v;
}

bool Value::bool_value() const {
  CHECK(is_bool());
  return scalar_.boolean;
}

int64_t Value::int_value() const {
  CHECK(is_int());
  return scalar_.integer;
}

double Value::float_value() const {
  CHECK(is_float());
  return scalar_.real;
}

const Text& Value::text() const {
  CHECK(is_string());
  return static_cast<const StringRep*>(rep_.get())->text;
}

const std::vector<Value>& Value::items() const {
  CHECK(is_list());
  return static_cast<const ListRep*>(rep_.get())->items;
}

const std::vector<std::pair<Value, Value>>& Value::members() const { return dict().items; }

bool Value::is_tuple() const { return is_list() && static_cast<const ListRep*>(rep_.get())->tuple; }

Object* Value::object() const {
  CHECK(is_object());
  // Objects are the engine's mutable ones; only the payload pointer is typed const.
  return static_cast<Object*>(const_cast<void*>(rep_.get()));
}

const DictRep& Value::dict() const {
  CHECK(is_dict());
  return *static_cast<const DictRep*>(rep_.get());
}

const Value* Value::Find(std::string_view key) const {
  return is_dict() ? dict().Find(key) : nullptr;
}

int Value::depth() const {
  switch (kind_) {
    case Kind::kList:
      return static_cast<const ListRep*>(rep_.get())->depth;
    case Kind::kDict:
      return static_cast<const DictRep*>(rep_.get())->depth;
    default:
      return 0;
  }
}

bool Value::SameAs(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return scalar_.boolean == other.scalar_.boolean;
    case Kind::kInt:
      return scalar_.integer == other.scalar_.integer;
    case Kind::kFloat:
      return scalar_.real == other.scalar_.real;
    default:
      return rep_ == other.rep_;
  }
}

}  // namespace tutti::tokenizer::jinja
