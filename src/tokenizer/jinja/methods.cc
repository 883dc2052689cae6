#include <algorithm>
#include <array>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/operations.h"
#include "tokenizer/jinja/string_ops.h"
#include "tokenizer/jinja/unicode.h"

namespace tutti::tokenizer::jinja {
namespace {

// Each list is sorted, for binary search.
constexpr std::array<std::string_view, 41> kStringMethods{
    "capitalize",   "casefold",     "center",  "count",     "endswith",   "expandtabs",
    "find",         "format",       "index",   "isalnum",   "isalpha",    "isascii",
    "isdecimal",    "isdigit",      "islower", "isnumeric", "isspace",    "istitle",
    "isupper",      "join",         "ljust",   "lower",     "lstrip",     "partition",
    "removeprefix", "removesuffix", "replace", "rfind",     "rindex",     "rjust",
    "rpartition",   "rsplit",       "rstrip",  "split",     "splitlines", "startswith",
    "strip",        "swapcase",     "title",   "upper",     "zfill",
};
constexpr std::array<std::string_view, 11> kListMethods{"append", "clear",   "copy",   "count",
                                                        "extend", "index",   "insert", "pop",
                                                        "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 11> kDictMethods{
    "clear", "copy",    "fromkeys",   "get",    "items", "keys",
    "pop",   "popitem", "setdefault", "update", "values"};

static_assert(std::is_sorted(kStringMethods.begin(), kStringMethods.end()) &&
              std::is_sorted(kListMethods.begin(), kListMethods.end()) &&
              std::is_sorted(kDictMethods.begin(), kDictMethods.end()));

template <size_t kCount>
bool Has(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::binary_search(names.begin(), names.end(), name);
}

bool IsTest(std::string_view name, bool (**predicate)(char32_t)) {
  struct Entry {
    std::string_view name;
    bool (*predicate)(char32_t);
  };
  static constexpr std::array<Entry, 7> kTests{{
      {"isalpha", IsAlpha},
      {"isdecimal", IsDecimal},
      {"isdigit", IsDigit},
      {"isnumeric", IsNumeric},
      {"isspace", IsSpace},
      {"isalnum", [](char32_t c) { return IsAlpha(c) || IsNumeric(c); }},
      {"isascii", [](char32_t c) { return c < 0x80; }},
  }};
  for (const Entry& entry : kTests) {
    if (entry.name == name) return *predicate = entry.predicate, true;
  }
  return false;
}

template <typename Visit>  // visit returns false to stop
void ForEachChar(std::string_view text, const Visit& visit) {
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeAt(text, pos);
    if (!visit(c.code_point)) return;
    pos += c.length;
  }
}

Value TestCharacters(Runtime& rt, const Text& text, std::string_view name) {
  if (!rt.Spend(1 + text.size() / 16)) return Value();
  bool (*predicate)(char32_t) = nullptr;
  if (IsTest(name, &predicate)) {
    bool all = !text.empty() || name == "isascii";
    ForEachChar(text.bytes(), [&](char32_t c) { return all = all && predicate(c); });
    return Value::Bool(all);
  }
  // islower, isupper, istitle: cased characters decide, and there must be one.
  bool any = false;
  bool right = true;
  bool previous_cased = false;
  ForEachChar(text.bytes(), [&](char32_t c) {
    const bool cased = IsCased(c);
    any = any || cased;
    if (name == "islower") right = !cased || IsLower(c);
    if (name == "isupper") right = !cased || IsUpper(c);
    if (name == "istitle" && cased) right = previous_cased ? IsLower(c) : !IsLower(c);
    previous_cased = cased;
    return right;
  });
  return Value::Bool(any && right);
}

// startswith and endswith: one string or a tuple of them.
Value StartsOrEnds(Runtime& rt, const Text& text, const Arguments& args, bool starts) {
  const ArgReader reader(rt, args, starts ? "startswith" : "endswith", {"prefix", "start", "end"});
  const Value affix = reader.Require(0);
  if (!reader.ok()) return Value();
  Text part = text;
  if (reader.Has(1) || reader.Has(2)) {
    const Value sliced = GetSlice(rt, rt.NewString(text), reader.Get(1), reader.Get(2), Value());
    if (rt.failed()) return Value();
    part = sliced.text();
  }
  const std::string_view bytes = part.bytes();
  const auto matches = [&](const Value& candidate) {
    if (!candidate.is_string())
      return rt.FailType("compare the start or end of a string with", candidate), false;
    const std::string& wanted = candidate.text().bytes();
    if (!rt.Spend(1 + wanted.size() / Runtime::kBytesPerStep) || wanted.size() > bytes.size())
      return false;
    return bytes.substr(starts ? 0 : bytes.size() - wanted.size(), wanted.size()) == wanted;
  };
  if (!affix.is_tuple()) return Value::Bool(matches(affix));
  bool any = false;
  for (const Value& candidate : affix.items()) any = any || matches(candidate);
  return Value::Bool(any);
}

// find, rfind, index, rindex: the character index of a substring.
Value Search(Runtime& rt, const Text& text, const Arguments& args, std::string_view name) {
  const ArgReader reader(rt, args, name, {"sub", "start", "end"});
  const std::optional<Text> sub = reader.String(0);
  if (!sub) return rt.failed() ? Value() : reader.Require(0);
  const auto length = static_cast<int64_t>(CountCodePoints(text.bytes()));
  if (!rt.Spend(1 + text.size() / 16) ||
      !rt.Spend(sub->size() * (name[0] == 'r' ? text.size() / 1024 : 0)))
    return Value();
  const auto clamp = [length](int64_t v) {
    return std::clamp<int64_t>(v < 0 ? v + length : v, 0, length);
  };
  const int64_t start = clamp(std::max(reader.Int(1, 0), -length));
  const int64_t end = clamp(std::max(reader.Int(2, length), -length));
  if (rt.failed()) return Value();
  int64_t found = -1;
  if (start <= end) {
    const size_t begin = OffsetOf(text.bytes(), static_cast<size_t>(start));
    const size_t stop = OffsetOf(text.bytes(), static_cast<size_t>(end));
    const std::string_view part = std::string_view(text.bytes()).substr(begin, stop - begin);
    const size_t at = name[0] == 'r' ? part.rfind(sub->bytes()) : Find(part, sub->bytes());
    if (at != std::string_view::npos)
      found = start + static_cast<int64_t>(CountCodePoints(part.substr(0, at)));
  }
  if (found < 0 && (name == "index" || name == "rindex")) return rt.Fail("substring not found");
  return Value::Int(found);
}

Value CountText(Runtime& rt, const Text& text, const Arguments& args) {
  const ArgReader reader(rt, args, "count", {"sub"});
  const std::optional<Text> sub = reader.String(0);
  if (!sub) return rt.failed() ? Value() : reader.Require(0);
  if (sub->empty()) return Value::Int(static_cast<int64_t>(CountCodePoints(text.bytes())) + 1);
  int64_t count = 0;
  for (size_t at = 0; rt.Spend(1); ++count) {
    const size_t found = Find(text.bytes(), sub->bytes(), at);
    if (found == std::string_view::npos) break;
    at = found + sub->size();
  }
  if (!rt.SpendBytes(text.size())) return Value();
  return Value::Int(count);
}

// ljust, rjust, center, zfill
Value Pad(Runtime& rt, const Text& text, const Arguments& args, std::string_view name) {
  const ArgReader reader(rt, args, name, {"width", "fillchar"});
  const int64_t width = std::max<int64_t>(reader.Int(0, 0), 0);
  const Text fill = reader.String(1).value_or(Text(name == "zfill" ? "0" : " ", Origin::kTemplate));
  if (rt.failed()) return Value();
  if (CountCodePoints(fill.bytes()) != 1)
    return rt.Fail("the fill character must be one character");
  const auto length = static_cast<int64_t>(CountCodePoints(text.bytes()));
  const auto missing = static_cast<size_t>(std::max<int64_t>(width - length, 0));
  Text out;
  if (!rt.Spend(missing) || !rt.Grow(text, missing * fill.size())) return Value();
  const size_t left =
      name == "ljust"
          ? 0
          : (name == "center" ? missing / 2 + (missing & static_cast<size_t>(width) & 1) : missing);
  size_t kept_sign = 0;
  if (name == "zfill" && !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+'))
    kept_sign = 1;
  out.AppendRange(text, 0, kept_sign);
  for (size_t i = 0; i < left; ++i) out.Append(fill);
  out.AppendRange(text, kept_sign, text.size());
  for (size_t i = left; i < missing; ++i) out.Append(fill);
  return rt.NewString(std::move(out));
}

Value ExpandTabs(Runtime& rt, const Text& text, const Arguments& args) {
  const ArgReader reader(rt, args, "expandtabs", {"tabsize"});
  const auto size = static_cast<size_t>(std::clamp<int64_t>(reader.Int(0, 8), 0, 256));
  Text out;
  size_t column = 0;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeAt(text.bytes(), pos);
    if (!rt.Spend(1) || !rt.Grow(out, size + 4)) return Value();
    if (c.code_point == '\t') {
      const size_t spaces = size == 0 ? 0 : size - column % size;
      out.Append(std::string(spaces, ' '), text.OriginAt(pos));
      column += spaces;
    } else {
      out.AppendRange(text, pos, pos + c.length);
      column = c.code_point == '\n' || c.code_point == '\r' ? 0 : column + 1;
    }
    pos += c.length;
  }
  return rt.NewString(std::move(out));
}

Value RemoveAffix(Runtime& rt, const Text& text, const Arguments& args, bool prefix) {
  const ArgReader reader(rt, args, prefix ? "removeprefix" : "removesuffix", {"affix"});
  const std::optional<Text> affix = reader.String(0);
  if (!affix) return rt.failed() ? Value() : reader.Require(0);
  const std::string_view bytes = text.bytes();
  if (affix->size() <= bytes.size()) {
    const size_t kept = bytes.size() - affix->size();
    if (prefix && bytes.substr(0, affix->size()) == affix->bytes()) {
      return rt.NewString(text.Slice(affix->size(), bytes.size()));
    }
    if (!prefix && bytes.substr(kept) == affix->bytes()) return rt.NewString(text.Slice(0, kept));
  }
  return rt.NewString(text);
}

Value CallString(Runtime& rt, const Text& text, std::string_view name, const Arguments& args) {
  if (!rt.SpendBytes(text.size())) return Value();
  const auto no_arguments = [&] { return ArgReader(rt, args, name, {}).ok(); };
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const ArgReader reader(rt, args, name, {"chars"});
    const std::optional<Text> chars = reader.String(0);
    if (!reader.ok()) return Value();
    return StripText(rt, text, name != "rstrip", name != "lstrip", chars ? &*chars : nullptr);
  }
  if (name == "split" || name == "rsplit") {
    const ArgReader reader(rt, args, name, {"sep", "maxsplit"});
    const std::optional<Text> separator = reader.String(0);
    const int64_t limit = reader.Int(1, -1);
    if (!reader.ok()) return Value();
    return SplitText(rt, text, separator ? &*separator : nullptr, limit, name == "rsplit");
  }
  if (name == "replace") {
    const ArgReader reader(rt, args, name, {"old", "new", "count"});
    const std::optional<Text> from = reader.String(0);
    const std::optional<Text> to = reader.String(1);
    const int64_t count = reader.Int(2, -1);
    if (!from || !to) return rt.failed() ? Value() : rt.Fail("replace: two strings are needed");
    return reader.ok() ? ReplaceText(rt, text, *from, *to, count) : Value();
  }
  if (name == "startswith" || name == "endswith")
    return StartsOrEnds(rt, text, args, name == "startswith");
  if (name == "upper") return no_arguments() ? ChangeCase(rt, text, CaseChange::kUpper) : Value();
  if (name == "lower" || name == "casefold")
    return no_arguments() ? ChangeCase(rt, text, CaseChange::kLower) : Value();
  if (name == "title") return no_arguments() ? ChangeCase(rt, text, CaseChange::kTitle) : Value();
  if (name == "capitalize")
    return no_arguments() ? ChangeCase(rt, text, CaseChange::kCapitalize) : Value();
  if (name == "swapcase") return no_arguments() ? ChangeCase(rt, text, CaseChange::kSwap) : Value();
  if (name == "join") {
    const ArgReader reader(rt, args, name, {"iterable"});
    const Value items = Iterate(rt, reader.Require(0));
    return rt.failed() ? Value() : JoinTexts(rt, text, items.items(), /*convert=*/false);
  }
  if (name == "format") return BraceFormat(rt, text, args);
  if (name == "splitlines") {
    const ArgReader reader(rt, args, name, {"keepends"});
    return reader.ok() ? SplitLines(rt, text, reader.Bool(0, false)) : Value();
  }
  if (name == "partition" || name == "rpartition") {
    const ArgReader reader(rt, args, name, {"sep"});
    const std::optional<Text> separator = reader.String(0);
    if (!separator) return rt.failed() ? Value() : reader.Require(0);
    return PartitionText(rt, text, *separator, name == "rpartition");
  }
  if (name == "removeprefix" || name == "removesuffix")
    return RemoveAffix(rt, text, args, name == "removeprefix");
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex")
    return Search(rt, text, args, name);
  if (name == "count") return CountText(rt, text, args);
  if (name == "expandtabs") return ExpandTabs(rt, text, args);
  if (name.substr(0, 2) == "is") return no_arguments() ? TestCharacters(rt, text, name) : Value();
  return Pad(rt, text, args, name);
}

Value CallList(Runtime& rt, const Value& list, std::string_view name, const Arguments& args) {
  if (name == "copy") return list;
  if (name == "count" || name == "index") {
    const ArgReader reader(rt, args, name, {"value"});
    const Value wanted = reader.Require(0);
    int64_t count = 0;
    for (size_t i = 0; i < list.items().size() && reader.ok(); ++i) {
      if (!Equal(rt, list.items()[i], wanted)) continue;
      if (name == "index") return Value::Int(static_cast<int64_t>(i));
      ++count;
    }
    if (name == "index") return rt.Fail("index: the value is not in the list");
    return Value::Int(count);
  }
  return rt.Fail("a template may not change a list (" + std::string(name) + ")");
}

Value CallDict(Runtime& rt, const Value& dict, std::string_view name, const Arguments& args) {
  if (name == "get") {
    const ArgReader reader(rt, args, name, {"key", "default"});
    const Value key = reader.Require(0);
    if (!reader.ok()) return Value();
    if (key.defined() && !Hashable(key)) return rt.FailType("use as a key", key);
    const Value* const member = dict.dict().Find(key);
    if (member != nullptr) return *member;
    return reader.Has(1) ? reader.Get(1) : Value::None();
  }
  if (name == "copy") return dict;
  if (name == "items" || name == "keys" || name == "values") {
    if (!ArgReader(rt, args, name, {}).ok()) return Value();
    std::vector<Value> list;
    list.reserve(dict.members().size());
    for (const auto& [key, value] : dict.members()) {
      if (name == "items") {
        list.push_back(rt.NewList({key, value}, /*tuple=*/true));
      } else {
        list.push_back(name == "keys" ? key : value);
      }
      if (!rt.Spend(1)) return Value();
    }
    return rt.NewList(std::move(list));
  }
  return rt.Fail("a template may not change a mapping (" + std::string(name) + ")");
}

Value CallLoop(Runtime& rt, LoopObject* loop, std::string_view name, const Arguments& args) {
  if (name == "cycle") {
    if (args.positional.empty()) return rt.Fail("loop.cycle needs arguments");
    return args.positional[loop->index0 % args.positional.size()];
  }
  const Value now = rt.NewList(args.positional, /*tuple=*/true);  // changed
  if (rt.failed()) return Value();
  const bool changed = !loop->last_changed.defined() || !Equal(rt, loop->last_changed, now);
  loop->last_changed = now;
  return Value::Bool(changed);
}

}  // namespace

bool HasMethod(const Value& receiver, std::string_view name) {
  switch (receiver.kind()) {
    case Kind::kString:
      return Has(kStringMethods, name);
    case Kind::kList:
      return Has(kListMethods, name);
    case Kind::kDict:
      return Has(kDictMethods, name);
    case Kind::kObject:
      return receiver.object()->kind() == ObjectKind::kLoop &&
             (name == "cycle" || name == "changed");
    default:
      return false;
  }
}

Value CallMethod(Runtime& rt, const Value& receiver, std::string_view name, const Arguments& args) {
  switch (receiver.kind()) {
    case Kind::kString:
      return CallString(rt, receiver.text(), name, args);
    case Kind::kList:
      return CallList(rt, receiver, name, args);
    case Kind::kDict:
      return CallDict(rt, receiver, name, args);
    default:
      return CallLoop(rt, static_cast<LoopObject*>(receiver.object()), name, args);
  }
}

}  // namespace tutti::tokenizer::jinja
