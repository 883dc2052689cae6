#include "tokenizer/jinja/expression_parser.h"

#include <algorithm>
#include <optional>

#include "base/ascii.h"
#include "base/utf8.h"
#include "tokenizer/jinja/builtins.h"

namespace tutti::tokenizer::jinja {
namespace {

std::string WithoutUnderscores(std::string_view text) {
  std::string digits(text);
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  return digits;
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  std::string digits = WithoutUnderscores(text);
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char kind = static_cast<char>(digits[1] | 0x20);
    base = kind == 'x' ? 16 : (kind == 'o' ? 8 : (kind == 'b' ? 2 : 10));
    if (base != 10) digits.erase(0, 2);
  }
  return ParseNumber<int64_t>(digits, base);
}

// Python's escapes in a quoted string; nothing if one is malformed.
std::optional<std::string> Unescape(std::string_view quoted) {
  const std::string_view text = quoted.substr(1, quoted.size() - 2);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out.push_back(text[i]);
      continue;
    }
    const char c = text[++i];
    if (c == '\n') continue;
    constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
      out.push_back(kMeanings[known]);
      continue;
    }
    if (c == 'N') return std::nullopt;  // \N{name}: no table of names here
    const size_t hex_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    if (hex_digits > 0) {
      if (i + hex_digits >= text.size()) return std::nullopt;
      const auto number = ParseNumber<uint32_t>(text.substr(i + 1, hex_digits), 16);
      if (!number.has_value() || *number > 0x10FFFF) return std::nullopt;
      code = *number;
      i += hex_digits;
    } else if (c >= '0' && c <= '7') {
      size_t digits = 0;
      for (; digits < 3 && i + digits < text.size() && text[i + digits] >= '0' &&
             text[i + digits] <= '7';
           ++digits) {
        code = code * 8 + static_cast<uint32_t>(text[i + digits] - '0');
      }
      i += digits - 1;
    } else {
      out.push_back('\\');
      out.push_back(c);
      continue;
    }
    AppendUtf8(code >= 0xD800 && code <= 0xDFFF ? 0xFFFD : static_cast<char32_t>(code), out);
  }
  return out;
}

bool Reserved(std::string_view name) {
  return name == "and" || name == "or" || name == "not" || name == "if" || name == "else" ||
         name == "in" || name == "is";
}

}  // namespace

void ExpressionParser::Raise(Expr& node, const ExprPtr& child) {
  if (child != nullptr) node.height = std::max(node.height, child->height + 1);
}

void ExpressionParser::Raise(Expr& node, const ArgumentExprs& args) {
  for (const ExprPtr& arg : args.positional) Raise(node, arg);
  for (const auto& arg : args.named) Raise(node, arg.second);
  Raise(node, args.spread);
  Raise(node, args.spread_named);
}

ExprPtr ExpressionParser::Finish(ExprPtr node) {
  if (node->height > kMaxNesting) state_.FailDepth();
  return state_.ok() ? std::move(node) : nullptr;
}

ExprPtr ExpressionParser::Literal(int line, Value value) {
  return std::make_unique<LiteralExpr>(line, std::move(value));
}

ExprPtr ExpressionParser::Expression() {
  const Nested nested(state_);
  ExprPtr value = Binary(kOr);
  while (state_.ok() && state_.AtName("if")) {
    auto conditional = std::make_unique<ConditionalExpr>(state_.Next().line);
    conditional->then = std::move(value);
    ++state_.conditional;
    conditional->test = Binary(kOr);
    if (state_.SkipName("else")) conditional->otherwise = Expression();
    --state_.conditional;
    if (!state_.ok()) return nullptr;
    Raise(*conditional, conditional->test);
    Raise(*conditional, conditional->then);
    Raise(*conditional, conditional->otherwise);
    value = Finish(std::move(conditional));
  }
  return state_.ok() ? std::move(value) : nullptr;
}

ExprPtr ExpressionParser::ExpressionWithoutIf() {
  const Nested nested(state_);
  return Binary(kOr);
}

ExprPtr ExpressionParser::Binary(int level) {
  ExprPtr left;
  int tightest = kPower;
  if (level <= kNot && state_.AtName("not")) {
    const Nested nested(state_);
    const int line = state_.Next().line;
    ExprPtr operand = Binary(kNot);
    if (operand == nullptr) return nullptr;
    left = std::make_unique<UnaryExpr>(ExprKind::kNot, line, std::move(operand));
    Raise(*left, static_cast<UnaryExpr&>(*left).operand);
    left = Finish(std::move(left));
    tightest = kAnd;
  } else {
    left = Unary(/*with_filters=*/true);
  }
  for (int at = tightest; at >= level && left != nullptr; --at) {
    if (at != kNot) left = Chained(at, std::move(left));
  }
  return state_.ok() ? std::move(left) : nullptr;
}

bool ExpressionParser::ComparisonAhead(Operator* op) {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual},
  };
  if (state_.At(TokenType::kOperator)) {
    for (const auto& [text, kind] : kOperators) {
      if (state_.current().text == text) return *op = kind, true;
    }
    return false;
  }
  if (state_.AtName("in")) return *op = Operator::kIn, true;
  if (state_.AtName("not") && state_.ahead().type == TokenType::kName &&
      state_.ahead().text == "in") {
    state_.Next();
    return *op = Operator::kNotIn, true;
  }
  return false;
}

// The operators of one level, from left to right, after `first`.
ExprPtr ExpressionParser::Chained(int level, ExprPtr first) {
  const int line = state_.line();
  const auto arithmetic = [&](Operator* op) {
    static constexpr std::pair<std::string_view, std::pair<Level, Operator>> kOperators[] = {
        {"+", {kSum, Operator::kAdd}},
        {"-", {kSum, Operator::kSubtract}},
        {"*", {kProduct, Operator::kMultiply}},
        {"/", {kProduct, Operator::kDivide}},
        {"//", {kProduct, Operator::kFloorDivide}},
        {"%", {kProduct, Operator::kModulo}},
        {"**", {kPower, Operator::kPower}},
    };
    if (!state_.At(TokenType::kOperator)) return false;
    for (const auto& [text, kind] : kOperators) {
      if (kind.first == level && state_.current().text == text) return *op = kind.second, true;
    }
    return false;
  };
  if (level == kOr || level == kAnd || level == kTilde) {
    const auto here = [&] {
      return level == kTilde ? state_.AtOp("~") : state_.AtName(level == kOr ? "or" : "and");
    };
    if (!here()) return first;
    auto parts =
        std::make_unique<PartsExpr>(level == kTilde ? ExprKind::kConcat : ExprKind::kLogical, line);
    parts->is_or = level == kOr;
    Raise(*parts, first);
    parts->parts.push_back(std::move(first));
    while (here()) {
      state_.Next();
      ExprPtr part = Binary(level + 1);
      if (part == nullptr) return nullptr;
      Raise(*parts, part);
      parts->parts.push_back(std::move(part));
    }
    return Finish(std::move(parts));
  }
  Operator op{};
  const auto here = [&] { return level == kCompare ? ComparisonAhead(&op) : arithmetic(&op); };
  if (!here()) return first;
  auto chain = std::make_unique<ChainExpr>(
      level == kCompare ? ExprKind::kCompare : ExprKind::kArithmetic, line, std::move(first));
  Raise(*chain, chain->first);
  do {
    state_.Next();
    const Operator this_op = op;
    ExprPtr operand = Binary(level + 1);
    if (operand == nullptr) return nullptr;
    Raise(*chain, operand);
    chain->rest.emplace_back(this_op, std::move(operand));
  } while (here());
  return Finish(std::move(chain));
}

ExprPtr ExpressionParser::Unary(bool with_filters) {
  ExprPtr value;
  if (state_.AtOp("-") || state_.AtOp("+")) {
    const Nested nested(state_);
    const Token sign = state_.Next();
    ExprPtr operand = Unary(/*with_filters=*/false);
    if (operand == nullptr) return nullptr;
    auto unary = std::make_unique<UnaryExpr>(sign.text == "-" ? ExprKind::kNegate : ExprKind::kPlus,
                                             sign.line, std::move(operand));
    Raise(*unary, unary->operand);
    value = Finish(std::move(unary));
  } else {
    value = Primary();
  }
  if (value != nullptr) value = Postfix(std::move(value));
  if (value != nullptr && with_filters) value = Filters(std::move(value));
  return value;
}

ExprPtr ExpressionParser::Primary() {
  const Token token = state_.current();
  switch (token.type) {
    case TokenType::kName:
      return Name();
    case TokenType::kString: {
      std::string text;
      while (state_.At(TokenType::kString)) {
        const std::optional<std::string> part = Unescape(state_.current().text);
        if (!part) return state_.Fail("malformed escape in a string"), nullptr;
        text += *part;
        state_.Next();
      }
      return Literal(token.line, Value::String(std::move(text), Origin::kTemplate));
    }
    case TokenType::kInteger: {
      const std::optional<int64_t> value = ParseInteger(state_.Next().text);
      if (!value) return state_.Fail("integer outside 64 bits"), nullptr;
      return Literal(token.line, Value::Int(*value));
    }
    case TokenType::kFloat: {
      const auto value = ParseNumber<double>(WithoutUnderscores(state_.Next().text));
      if (!value.has_value()) return state_.Fail("number out of range"), nullptr;
      return Literal(token.line, Value::Float(*value));
    }
    case TokenType::kOperator:
      if (token.text == "(") return Parenthesised();
      if (token.text == "[") return ListLiteral();
      if (token.text == "{") return DictLiteral();
      break;
    default:
      break;
  }
  return state_.Fail("expected an expression"), nullptr;
}

ExprPtr ExpressionParser::Name() {
  const Token token = state_.Next();
  if (token.text == "true" || token.text == "True") return Literal(token.line, Value::Bool(true));
  if (token.text == "false" || token.text == "False")
    return Literal(token.line, Value::Bool(false));
  if (token.text == "none" || token.text == "None") return Literal(token.line, Value::None());
  if (Reserved(token.text)) return state_.Fail("expected an expression"), nullptr;
  const Symbol symbol = state_.Intern(token.text);
  state_.OnLoad(symbol);
  return std::make_unique<NameExpr>(token.line, symbol);
}

ExprPtr ExpressionParser::Parenthesised() {
  const int line = state_.Next().line;
  if (state_.SkipOp(")")) return std::make_unique<ListExpr>(line, /*is_tuple=*/true);
  ExprPtr value = Tuple(/*with_if=*/true);
  state_.ExpectOp(")");
  return state_.ok() ? std::move(value) : nullptr;
}

ExprPtr ExpressionParser::Tuple(bool with_if) {
  const int line = state_.line();
  std::unique_ptr<ListExpr> tuple;
  ExprPtr first = with_if ? Expression() : ExpressionWithoutIf();
  if (first == nullptr || !state_.AtOp(",")) return first;
  tuple = std::make_unique<ListExpr>(line, /*is_tuple=*/true);
  Raise(*tuple, first);
  tuple->items.push_back(std::move(first));
  while (state_.SkipOp(",")) {
    const bool ends = state_.AtOp(")") || state_.At(TokenType::kVariableEnd) ||
                      state_.At(TokenType::kBlockEnd) || state_.AtName("recursive");
    if (ends) break;
    ExprPtr item = with_if ? Expression() : ExpressionWithoutIf();
    if (item == nullptr) return nullptr;
    Raise(*tuple, item);
    tuple->items.push_back(std::move(item));
  }
  return Finish(std::move(tuple));
}

ExprPtr ExpressionParser::ListLiteral() {
  auto list = std::make_unique<ListExpr>(state_.Next().line, /*is_tuple=*/false);
  while (state_.ok() && !state_.AtOp("]")) {
    ExprPtr item = Expression();
    if (item == nullptr) return nullptr;
    Raise(*list, item);
    list->items.push_back(std::move(item));
    if (!state_.AtOp("]")) state_.ExpectOp(",");
  }
  state_.ExpectOp("]");
  return Finish(std::move(list));
}

ExprPtr ExpressionParser::DictLiteral() {
  auto dict = std::make_unique<DictExpr>(state_.Next().line);
  while (state_.ok() && !state_.AtOp("}")) {
    ExprPtr key = Expression();
    state_.ExpectOp(":");
    ExprPtr value = Expression();
    if (key == nullptr || value == nullptr) return nullptr;
    Raise(*dict, key);
    Raise(*dict, value);
    dict->members.emplace_back(std::move(key), std::move(value));
    if (!state_.AtOp("}")) state_.ExpectOp(",");
  }
  state_.ExpectOp("}");
  return Finish(std::move(dict));
}

ExprPtr ExpressionParser::Postfix(ExprPtr value) {
  while (value != nullptr) {
    if (state_.AtOp(".")) {
      value = Attribute(std::move(value));
    } else if (state_.AtOp("[")) {
      value = Subscript(std::move(value));
    } else if (state_.AtOp("(")) {
      value = Call(std::move(value));
    } else {
      break;
    }
  }
  return value;
}

ExprPtr ExpressionParser::Filters(ExprPtr value) {
  while (value != nullptr) {
    if (state_.SkipOp("|")) {
      value = Filter(std::move(value));
    } else if (state_.AtName("is")) {
      value = Test(std::move(value));
    } else if (state_.AtOp("(")) {
      value = Call(std::move(value));
    } else {
      break;
    }
  }
  return value;
}

ExprPtr ExpressionParser::FilterChain() {
  ExprPtr value = Filter(nullptr);
  while (value != nullptr && state_.SkipOp("|")) value = Filter(std::move(value));
  return value;
}

ExprPtr ExpressionParser::Filter(ExprPtr input) {
  const int line = state_.line();
  std::string name(state_.ExpectName());
  while (state_.SkipOp(".")) name += "." + std::string(state_.ExpectName());
  auto filter = std::make_unique<FilterExpr>(line, name);
  if (state_.AtOp("(")) filter->args = Arguments();
  if (!state_.ok()) return nullptr;
  if (!IsFilter(name)) {
    if (state_.conditional == 0)
      return state_.FailUnsupported("unknown filter '" + name.substr(0, 64) + "'"), nullptr;
    state_.Warn(line, "unknown filter '" + name.substr(0, 64) + "' fails when reached");
  }
  filter->input = std::move(input);
  Raise(*filter, filter->input);
  Raise(*filter, filter->args);
  return Finish(std::move(filter));
}

bool ExpressionParser::StartsOperand() const {
  switch (state_.current().type) {
    case TokenType::kName:
      return !state_.AtName("else") && !state_.AtName("or") && !state_.AtName("and") &&
             !state_.AtName("if") && !state_.AtName("in") && !state_.AtName("not") &&
             !state_.AtName("is");
    case TokenType::kString:
    case TokenType::kInteger:
    case TokenType::kFloat:
      return true;
    case TokenType::kOperator:
      return state_.AtOp("[") || state_.AtOp("{");
    default:
      return false;
  }
}

ExprPtr ExpressionParser::Test(ExprPtr input) {
  const int line = state_.Next().line;
  const bool negated = state_.SkipName("not");
  std::string name(state_.ExpectName());
  while (state_.SkipOp(".")) name += "." + std::string(state_.ExpectName());
  auto test = std::make_unique<TestExpr>(line, name);
  if (state_.AtOp("(")) {
    test->args = Arguments();
  } else if (state_.AtName("is")) {
    state_.Fail("tests cannot be chained with 'is'");
  } else if (StartsOperand()) {
    ExprPtr operand = Primary();
    if (operand != nullptr) operand = Postfix(std::move(operand));
    if (operand == nullptr) return nullptr;
    test->args.positional.push_back(std::move(operand));
  }
  if (!state_.ok()) return nullptr;
  if (!IsPredicate(name)) {
    if (state_.conditional == 0)
      return state_.FailUnsupported("unknown test '" + name.substr(0, 64) + "'"), nullptr;
    state_.Warn(line, "unknown test '" + name.substr(0, 64) + "' fails when reached");
  }
  test->input = std::move(input);
  Raise(*test, test->input);
  Raise(*test, test->args);
  ExprPtr result = Finish(std::move(test));
  if (!negated || result == nullptr) return result;
  auto negation = std::make_unique<UnaryExpr>(ExprKind::kNot, line, std::move(result));
  Raise(*negation, negation->operand);
  return Finish(std::move(negation));
}

ExprPtr ExpressionParser::Attribute(ExprPtr object) {
  const int line = state_.Next().line;
  if (state_.At(TokenType::kInteger)) {
    const std::optional<int64_t> index = ParseInteger(state_.Next().text);
    if (!index) return state_.Fail("integer outside 64 bits"), nullptr;
    auto item =
        std::make_unique<ItemExpr>(line, std::move(object), Literal(line, Value::Int(*index)));
    Raise(*item, item->object);
    Raise(*item, item->index);
    return Finish(std::move(item));
  }
  const Symbol name = state_.Intern(state_.ExpectName());
  if (!state_.ok()) return nullptr;
  if (state_.AtOp("(")) {
    auto call = std::make_unique<MethodCallExpr>(line, std::move(object), name);
    call->args = Arguments();
    if (!state_.ok()) return nullptr;
    Raise(*call, call->object);
    Raise(*call, call->args);
    return Finish(std::move(call));
  }
  auto attribute = std::make_unique<AttributeExpr>(line, std::move(object), name);
  Raise(*attribute, attribute->object);
  return Finish(std::move(attribute));
}

ExprPtr ExpressionParser::Subscript(ExprPtr object) {
  const int line = state_.Next().line;
  ExprPtr start;
  if (!state_.AtOp(":")) {
    start = Expression();
    if (start == nullptr) return nullptr;
    if (state_.SkipOp("]")) {
      auto item = std::make_unique<ItemExpr>(line, std::move(object), std::move(start));
      Raise(*item, item->object);
      Raise(*item, item->index);
      return Finish(std::move(item));
    }
  }
  state_.ExpectOp(":");
  auto slice = std::make_unique<SliceExpr>(line, std::move(object));
  slice->start = std::move(start);
  const auto at_end = [this] { return state_.AtOp("]") || state_.AtOp(":"); };
  if (state_.ok() && !at_end()) slice->stop = Expression();
  if (state_.SkipOp(":") && !state_.AtOp("]")) slice->step = Expression();
  state_.ExpectOp("]");
  if (!state_.ok()) return nullptr;
  for (const ExprPtr* child : {&slice->object, &slice->start, &slice->stop, &slice->step})
    Raise(*slice, *child);
  return Finish(std::move(slice));
}

ExprPtr ExpressionParser::Call(ExprPtr callee) {
  auto call = std::make_unique<CallExpr>(state_.line(), std::move(callee));
  call->args = Arguments();
  if (!state_.ok()) return nullptr;
  Raise(*call, call->callee);
  Raise(*call, call->args);
  return Finish(std::move(call));
}

ArgumentExprs ExpressionParser::Arguments() {
  ArgumentExprs args;
  state_.ExpectOp("(");
  while (state_.ok() && !state_.AtOp(")")) {
    if (state_.SkipOp("*")) {
      if (args.spread != nullptr || args.spread_named != nullptr)
        state_.Fail("misplaced * in a call");
      args.spread = Expression();
    } else if (state_.SkipOp("**")) {
      if (args.spread_named != nullptr) state_.Fail("misplaced ** in a call");
      args.spread_named = Expression();
    } else if (state_.At(TokenType::kName) && state_.ahead().type == TokenType::kOperator &&
               state_.ahead().text == "=") {
      if (args.spread_named != nullptr) state_.Fail("misplaced argument in a call");
      std::string name(state_.Next().text);
      state_.Next();
      args.named.emplace_back(std::move(name), Expression());
    } else {
      if (!args.named.empty() || args.spread != nullptr || args.spread_named != nullptr) {
        state_.Fail("positional argument after a named one");
      }
      args.positional.push_back(Expression());
    }
    if (!state_.AtOp(")")) state_.ExpectOp(",");
  }
  state_.ExpectOp(")");
  return args;
}

}  // namespace tutti::tokenizer::jinja
