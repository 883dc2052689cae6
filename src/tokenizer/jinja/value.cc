#include "tokenizer/jinja/value.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "tokenizer/jinja/object.h"

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

// The member whose key `compare` places neither before (< 0) nor after (> 0) the one sought.
template <typename Compare>
const Value* FindIn(const DictRep& dict, const Compare& compare) {
  if (dict.order.empty()) {
    for (const DictRep::Item& item : dict.items) {
      if (compare(item.first) == 0) return &item.second;
    }
    return nullptr;
  }
  const auto found = std::partition_point(dict.order.begin(), dict.order.end(), [&](uint32_t at) {
    return compare(dict.items[at].first) < 0;
  });
  if (found == dict.order.end() || compare(dict.items[*found].first) != 0) return nullptr;
  return &dict.items[*found].second;
}

Value FromJson(const boost::json::value& json) {
  switch (json.kind()) {
    case boost::json::kind::null:
      return Value::None();
    case boost::json::kind::bool_:
      return Value::Bool(json.get_bool());
    case boost::json::kind::int64:
      return Value::Int(json.get_int64());
    case boost::json::kind::uint64:
      return Value::Float(static_cast<double>(json.get_uint64()));
    case boost::json::kind::double_:
      return Value::Float(json.get_double());
    case boost::json::kind::string:
      return Value::String(std::string(json.get_string()));
    case boost::json::kind::array: {
      std::vector<Value> items;
      items.reserve(json.get_array().size());
      for (const boost::json::value& item : json.get_array()) items.push_back(FromJson(item));
      return Value::List(std::move(items));
    }
    case boost::json::kind::object: {
      std::vector<Value::Member> members;
      members.reserve(json.get_object().size());
      for (const auto& member : json.get_object())
        members.emplace_back(member.key(), FromJson(member.value()));
      return Value::Dict(std::move(members));
    }
  }
  return Value();
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
  return FindIn(*this, [&](const Value& item) { return CompareKeys(item, key); });
}

const Value* DictRep::Find(std::string_view key) const {
  return FindIn(*this, [key](const Value& item) {
    return item.is_string() ? item.text().bytes().compare(key) : -1;
  });
}

Value Value::None() { return {Kind::kNone, {.name = nullptr}}; }
Value Value::Bool(bool value) { return {Kind::kBool, {.boolean = value}}; }
Value Value::Int(int64_t value) { return {Kind::kInt, {.integer = value}}; }
Value Value::Float(double value) { return {Kind::kFloat, {.real = value}}; }

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

Value Value::UndefinedNamed(const std::string* name) { return {Kind::kUndefined, {.name = name}}; }

Value Value::Of(std::shared_ptr<const StringRep> rep) {
  return {Kind::kString, {.name = nullptr}, std::move(rep)};
}
Value Value::Of(std::shared_ptr<const ListRep> rep) {
  return {Kind::kList, {.name = nullptr}, std::move(rep)};
}
Value Value::Of(std::shared_ptr<const DictRep> rep) {
  return {Kind::kDict, {.name = nullptr}, std::move(rep)};
}
Value Value::Of(std::shared_ptr<Object> object) {
  return {Kind::kObject, {.name = nullptr}, std::move(object)};
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

Result<Value> ParseJson(std::string_view text) {
  boost::json::error_code error;
  boost::json::parse_options options;
  options.max_depth = Value::kMaxDepth;
  boost::json::value json;
  try {  // the allocator may throw; syntax errors come in `error`
    json = boost::json::parse({text.data(), text.size()}, error, {}, options);
  } catch (const std::exception&) {
    return ResourceExhausted("invalid_json", "JSON text too large");
  }
  if (error) return InvalidArgument("invalid_json", "malformed JSON");
  return FromJson(json);
}

}  // namespace tutti::tokenizer::jinja
