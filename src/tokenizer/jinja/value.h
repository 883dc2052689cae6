// Value: the JSON-like data a chat template reads (messages, tools, options) and, while it runs,
// computes.
//
// Immutable except for the engine's own objects (namespace, macro, loop), which never leave a
// render. Copying is cheap: lists, dicts and strings are shared. A Value built by a caller may be
// read from any thread. Integers are 64 bit; containers may nest kMaxDepth deep, and a render
// refuses deeper ones (template_depth).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja/text.h"

namespace tutti::tokenizer::jinja {

class Object;
struct ListRep;
struct DictRep;
struct StringRep;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,  // also tuples
  kDict,
  kObject,  // engine only
};

class Value {
 public:
  static constexpr int kMaxDepth = 64;
  using Member = std::pair<std::string, Value>;

  Value() = default;  // undefined: the key or argument is not there
  static Value None();
  static Value Bool(bool value);
  static Value Int(int64_t value);
  static Value Float(double value);
  // Text from a request is kClient, which is the safe default.
  static Value String(std::string value, Origin origin = Origin::kClient);
  static Value String(Text text);
  static Value List(std::vector<Value> items);
  // In the given order; of two equal keys the later value wins at the earlier place. Keys are
  // kClient text.
  static Value Dict(std::vector<Member> members);

  Kind kind() const { return kind_; }
  bool defined() const { return kind_ != Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_int() const { return kind_ == Kind::kInt; }
  bool is_float() const { return kind_ == Kind::kFloat; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_object() const { return kind_ == Kind::kObject; }

  // Each CHECKs the kind.
  bool bool_value() const;
  int64_t int_value() const;
  double float_value() const;
  const Text& text() const;
  const std::vector<Value>& items() const;
  const std::vector<std::pair<Value, Value>>& members() const;
  bool is_tuple() const;  // a list written with parentheses or made by items()
  Object* object() const;

  // The member with this string key, or null. For a value that is not a dict: null.
  const Value* Find(std::string_view key) const;
  // 0 for scalars, else 1 + the deepest child.
  int depth() const;

  // --- for the engine ---
  static Value UndefinedNamed(const std::string* name);  // `name` must outlive the value
  const std::string* undefined_name() const {
    return kind_ == Kind::kUndefined ? scalar_.name : nullptr;
  }
  static Value Of(std::shared_ptr<const StringRep> rep);
  static Value Of(std::shared_ptr<const ListRep> rep);
  static Value Of(std::shared_ptr<const DictRep> rep);
  static Value Of(std::shared_ptr<Object> object);
  const DictRep& dict() const;
  // Same shared payload (or equal scalar): Python's `is`.
  bool SameAs(const Value& other) const;
  bool shared() const { return rep_.use_count() > 1; }  // another Value holds the same payload

 private:
  union Scalar {
    bool boolean;
    int64_t integer;
    double real;
    const std::string* name;
  };
  Value(Kind kind, Scalar scalar, std::shared_ptr<const void> rep = nullptr)
      : kind_(kind), scalar_(scalar), rep_(std::move(rep)) {}

  Kind kind_ = Kind::kUndefined;
  Scalar scalar_{.name = nullptr};
  std::shared_ptr<const void> rep_;
};

// JSON text to Value, for tool schemas, tool arguments and test data. Strict JSON, at most
// Value::kMaxDepth deep. All text is Origin::kClient. Whole numbers outside 64
// bits become floats. Errors: invalid_json.
Result<Value> ParseJson(std::string_view text);

}  // namespace tutti::tokenizer::jinja
