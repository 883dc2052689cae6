#include "grammar/expression.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "grammar/dfa.h"

namespace tutti::grammar {
namespace {

// With what the heap adds to its parts.
constexpr size_t kExprBytes = sizeof(Expr) + 16;

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF, kLast = 0x10FFFF;

}  // namespace

CodePoints CodePoints::All() { return CodePoints(0, kLast); }

CodePoints CodePoints::Of(std::string_view ascii) {
  CodePoints set;
  for (const char c : ascii) {
    const auto code = static_cast<unsigned char>(c);
    set.ranges_.push_back({code, code});
  }
  set.Normalise();
  return set;
}

void CodePoints::Add(char32_t first, char32_t last) {
  last = std::min(last, kLast);
  if (first < kFirstSurrogate && last >= first)
    ranges_.push_back({first, std::min<char32_t>(last, kFirstSurrogate - 1)});
  if (last > kLastSurrogate)
    ranges_.push_back({std::max<char32_t>(first, kLastSurrogate + 1), last});
  Normalise();
}

void CodePoints::Add(const CodePoints& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  Normalise();
}

CodePoints CodePoints::Intersect(const CodePoints& other) const {
  CodePoints both;
  size_t i = 0, j = 0;
  while (i < ranges_.size() && j < other.ranges_.size()) {
    const CodeRange& a = ranges_[i];
    const CodeRange& b = other.ranges_[j];
    const char32_t first = std::max(a.first, b.first), last = std::min(a.last, b.last);
    if (first <= last) both.ranges_.push_back({first, last});
    if (a.last < b.last) {
      ++i;
    } else {
      ++j;
    }
  }
  return both;
}

CodePoints CodePoints::Complement() const {
  CodePoints rest;
  char32_t next = 0;
  for (const CodeRange& range : ranges_) {
    if (range.first > next) rest.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) rest.ranges_.push_back({next, kLast});
  CodePoints scalars;
  for (const CodeRange& range : rest.ranges_) scalars.Add(range.first, range.last);
  return scalars;
}

bool CodePoints::Contains(char32_t c) const {
  const auto behind =
      std::upper_bound(ranges_.begin(), ranges_.end(), c,
                       [](char32_t value, const CodeRange& range) { return value < range.first; });
  return behind != ranges_.begin() && std::prev(behind)->last >= c;
}

void CodePoints::Normalise() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  size_t kept = 0;
  for (const CodeRange& range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].last + 1) {
      ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
    } else {
      ranges_[kept++] = range;
    }
  }
  ranges_.resize(kept);
}

std::string SpecialTokenBytes(TokenId id) {
  const auto value = static_cast<uint32_t>(id);
  std::string bytes;
  bytes.push_back(static_cast<char>(kSpecialTokenByte));
  for (const int shift : {14, 7, 0})
    bytes.push_back(static_cast<char>(0x80U | ((value >> shift) & 0x7FU)));
  return bytes;
}

Grammar::Grammar() {
  exprs_.push_back({.kind = Expr::Kind::kNever});
  exprs_.push_back({.kind = Expr::Kind::kEmpty});
}

Grammar::~Grammar() {
  if (budget_ != nullptr) budget_->ReturnBytes(charged_bytes_);
}

bool Grammar::Charge(uint64_t work, size_t bytes) {
  if (budget_ == nullptr) return true;
  charged_bytes_ += bytes;
  return budget_->Take(work) && budget_->TakeBytes(bytes);
}

ExprId Grammar::Add(Expr expr) {
  if (!Charge(8 + expr.children.size() / 2 + expr.text.size() / 8,
              kExprBytes + expr.text.size() + expr.children.size() * sizeof(ExprId)))
    return Never();
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId Grammar::Bytes(std::string_view bytes) {
  if (bytes.empty()) return Empty();
  return Add({.kind = Expr::Kind::kBytes, .text = std::string(bytes)});
}

ExprId Grammar::ByteRange(uint8_t first, uint8_t last) {
  return Add({.kind = Expr::Kind::kByteRange, .min = first, .max = last});
}

ExprId Grammar::Chars(CodePoints set) {
  if (set.empty()) return Never();
  for (size_t i = sets_.size(); i-- > 0 && i + 16 > sets_.size();) {
    if (sets_[i] == set) return Add({.kind = Expr::Kind::kChars, .set = static_cast<uint32_t>(i)});
  }
  if (!Charge(8 + set.ranges().size() / 4, 64 + set.ranges().size() * sizeof(CodeRange)))
    return Never();
  sets_.push_back(std::move(set));
  return Add({.kind = Expr::Kind::kChars, .set = static_cast<uint32_t>(sets_.size() - 1)});
}

ExprId Grammar::Concat(std::vector<ExprId> children) {
  std::erase(children, Empty());
  for (const ExprId child : children) {
    if (child == Never()) return Never();
  }
  if (children.empty()) return Empty();
  if (children.size() == 1) return children[0];
  return Add({.kind = Expr::Kind::kConcat, .children = std::move(children)});
}

ExprId Grammar::Alternate(std::vector<ExprId> children) {
  std::erase(children, Never());
  if (children.empty()) return Never();
  if (children.size() == 1) return children[0];
  return Add({.kind = Expr::Kind::kAlternate, .children = std::move(children)});
}

ExprId Grammar::Repeat(ExprId child, uint32_t min, uint32_t max) {
  CHECK(min <= max);
  if (max == 0 || child == Empty()) return Empty();
  if (child == Never()) return min == 0 ? Empty() : Never();
  if (min == 1 && max == 1) return child;
  return Add({.kind = Expr::Kind::kRepeat, .min = min, .max = max, .children = {child}});
}

ExprId Grammar::Call(RuleId rule) { return Add({.kind = Expr::Kind::kRule, .rule = rule}); }

ExprId Grammar::SpecialToken(TokenId id) {
  return Add({.kind = Expr::Kind::kToken, .rule = static_cast<RuleId>(id)});
}

ExprId Grammar::Embed(std::shared_ptr<const Dfa> dfa) {
  if (dfa->empty()) return Never();
  dfas_.push_back(std::move(dfa));
  return Add({.kind = Expr::Kind::kDfa, .set = static_cast<uint32_t>(dfas_.size() - 1)});
}

ExprId Grammar::TextStart() { return Add({.kind = Expr::Kind::kTextStart}); }
ExprId Grammar::TextEnd() { return Add({.kind = Expr::Kind::kTextEnd}); }

RuleId Grammar::AddRule(std::string name, RuleKind kind) {
  Charge(8, sizeof(Rule) + name.size());
  rules_.push_back({.name = std::move(name), .body = Never(), .kind = kind});
  return static_cast<RuleId>(rules_.size() - 1);
}

RuleId Grammar::AddRule(std::string name, RuleKind kind, ExprId body) {
  const RuleId rule = AddRule(std::move(name), kind);
  rules_[rule].body = body;
  return rule;
}

RuleId Grammar::AddCountedRule(std::string name, ExprId body, uint32_t min, uint32_t max) {
  const RuleId rule = AddRule(std::move(name), RuleKind::kCounted, body);
  rules_[rule].min = min;
  rules_[rule].max = max;
  return rule;
}

RuleId Grammar::AddLimitedRule(std::string name, ExprId body, uint32_t max) {
  const RuleId rule = AddRule(std::move(name), RuleKind::kLimited, body);
  rules_[rule].max = max;
  return rule;
}

}  // namespace tutti::grammar
