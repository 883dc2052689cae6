#include <initializer_list>

#include "tokenizer/jinja/engine.h"
#include "tokenizer/jinja/expression_parser.h"
#include "tokenizer/jinja/lexer.h"

namespace tutti::tokenizer::jinja {
namespace {

class StatementParser {
 public:
  explicit StatementParser(ParserState& state) : state_(state), expressions_(state) {}

  // Statements up to a tag named in `ends` (left as the current token) or, with no ends, up to the
  // end of the source.
  Body Statements(std::initializer_list<std::string_view> ends) {
    const Nested nested(state_);
    Body body;
    while (state_.ok()) {
      if (state_.At(TokenType::kEnd)) {
        if (ends.size() > 0) state_.Fail("block without '" + std::string(*(ends.end() - 1)) + "'");
        break;
      }
      if (state_.At(TokenType::kData)) {
        const Token data = state_.Next();
        body.push_back(std::make_unique<TextStmt>(data.line, std::string(data.text)));
      } else if (state_.At(TokenType::kVariableBegin)) {
        const int line = state_.Next().line;
        ExprPtr value = expressions_.Tuple(/*with_if=*/true);
        state_.Expect(TokenType::kVariableEnd, "'}}'");
        if (state_.ok()) body.push_back(std::make_unique<OutputStmt>(line, std::move(value)));
      } else {
        state_.Expect(TokenType::kBlockBegin, "a tag");
        for (const std::string_view end : ends) {
          if (state_.AtName(end)) return body;
        }
        if (StmtPtr statement = Statement()) body.push_back(std::move(statement));
        state_.Expect(TokenType::kBlockEnd, "'%}'");
      }
    }
    return body;
  }

 private:
  StmtPtr Statement() {
    const int line = state_.line();
    const std::string_view tag = state_.ExpectName();
    if (!state_.ok()) return nullptr;
    if (tag == "if") return If(line);
    if (tag == "for") return For(line);
    if (tag == "set") return Set(line);
    if (tag == "macro") return Macro(line);
    if (tag == "call") return CallBlock(line);
    if (tag == "filter") return FilterBlock(line);
    if (tag == "with") return With(line);
    if (tag == "generation") return Generation(line);
    if (tag == "break" || tag == "continue") return LoopControl(line, tag == "break");
    for (const std::string_view refused : {"include", "import", "from", "extends", "block", "do",
                                           "autoescape", "print", "trans", "debug"}) {
      if (tag == refused)
        return state_.FailUnsupported("'" + std::string(tag) + "' is not part of this subset"),
               nullptr;
    }
    return state_.Fail("unknown tag"), nullptr;
  }

  // The end of an opening tag, then the body up to (not over) one of `ends`.
  Body After(std::initializer_list<std::string_view> ends) {
    state_.SkipOp(":");
    state_.Expect(TokenType::kBlockEnd, "'%}'");
    return Statements(ends);
  }

  StmtPtr If(int line) {
    auto statement = std::make_unique<IfStmt>(line);
    ++state_.conditional;
    do {
      ExprPtr test = expressions_.Tuple(/*with_if=*/false);
      Body body = After({"elif", "else", "endif"});
      statement->branches.emplace_back(std::move(test), std::move(body));
    } while (state_.SkipName("elif"));
    if (state_.SkipName("else")) statement->otherwise = After({"endif"});
    state_.SkipName("endif");
    --state_.conditional;
    return state_.ok() ? std::move(statement) : nullptr;
  }

  StmtPtr For(int line) {
    auto statement = std::make_unique<ForStmt>(line);
    statement->target = AssignTarget(/*with_namespace=*/false);
    if (!state_.SkipName("in")) state_.Fail("expected 'in'");
    statement->iterable = expressions_.Tuple(/*with_if=*/false);
    const Symbol loop = state_.Intern("loop");
    ForEachName(statement->target, [this](Symbol s) { state_.Bind(s); });
    if (state_.SkipName("if")) statement->filter = expressions_.Expression();
    if (state_.AtName("recursive"))
      state_.FailUnsupported("recursive loops are not part of this subset");
    state_.Bind(loop);
    ++loops_;
    statement->body = After({"endfor", "else"});
    --loops_;
    state_.Unbind(loop);
    ForEachName(statement->target, [this](Symbol s) { state_.Unbind(s); });
    if (state_.SkipName("else")) statement->otherwise = After({"endfor"});
    state_.SkipName("endfor");
    return state_.ok() ? std::move(statement) : nullptr;
  }

  StmtPtr Set(int line) {
    Target target = AssignTarget(/*with_namespace=*/true);
    if (state_.SkipOp("=")) {
      auto statement = std::make_unique<SetStmt>(line);
      statement->value = expressions_.Tuple(/*with_if=*/true);
      Store(target);
      statement->target = std::move(target);
      return state_.ok() ? std::move(statement) : nullptr;
    }
    auto statement = std::make_unique<SetBlockStmt>(line);
    if (state_.SkipOp("|")) statement->filter = expressions_.FilterChain();
    statement->body = After({"endset"});
    state_.SkipName("endset");
    Store(target);
    statement->target = std::move(target);
    return state_.ok() ? std::move(statement) : nullptr;
  }

  StmtPtr Macro(int line) {
    auto statement = std::make_unique<MacroStmt>(StmtKind::kMacro, line);
    statement->name = state_.Intern(state_.ExpectName());
    if (!state_.ok()) return nullptr;
    state_.OnStore(statement->name);
    Signature(statement.get());
    MacroBody(statement.get(), "endmacro");
    return state_.ok() ? std::move(statement) : nullptr;
  }

  StmtPtr CallBlock(int line) {
    auto statement = std::make_unique<MacroStmt>(StmtKind::kCallBlock, line);
    statement->name = state_.Intern("caller");
    if (state_.AtOp("(")) Signature(statement.get());
    statement->call = expressions_.Expression();
    if (statement->call != nullptr && statement->call->kind != ExprKind::kCall &&
        statement->call->kind != ExprKind::kMethodCall) {
      state_.Fail("expected a call");
    }
    MacroBody(statement.get(), "endcall");
    return state_.ok() ? std::move(statement) : nullptr;
  }

  void Signature(MacroStmt* macro) {
    state_.ExpectOp("(");
    while (state_.ok() && !state_.AtOp(")")) {
      Parameter parameter;
      parameter.symbol = state_.Intern(state_.ExpectName());
      if (state_.SkipOp("=")) {
        parameter.fallback = expressions_.Expression();
      } else if (!macro->parameters.empty() && macro->parameters.back().fallback != nullptr) {
        state_.Fail("parameter without a default after one that has it");
      }
      macro->parameters.push_back(std::move(parameter));
      if (!state_.AtOp(")")) state_.ExpectOp(",");
    }
    state_.ExpectOp(")");
  }

  void MacroBody(MacroStmt* macro, std::string_view end) {
    // A macro may be called where no loop runs, so break and continue inside it belong to its own
    // loops only.
    const int loops = loops_;
    loops_ = 0;
    const Symbol caller = state_.Intern("caller");
    const Symbol varargs = state_.Intern("varargs");
    const Symbol kwargs = state_.Intern("kwargs");
    for (const Parameter& p : macro->parameters) state_.Bind(p.symbol);
    // Finds out whether the body uses these names. A name that is used counts as free in the body,
    // independently of the outer template.
    struct Special {
      Symbol symbol;
      bool* used;
      bool was_free;
    };
    Special specials[] = {{caller, &macro->uses_caller, state_.program.free[caller]},
                          {varargs, &macro->uses_varargs, state_.program.free[varargs]},
                          {kwargs, &macro->uses_kwargs, state_.program.free[kwargs]}};
    for (const Special& special : specials) state_.program.free[special.symbol] = false;
    macro->body = After({end});
    state_.SkipName(end);
    for (const Special& special : specials) {
      *special.used = state_.program.free[special.symbol];
      state_.program.free[special.symbol] = special.was_free;
    }
    for (const Parameter& p : macro->parameters) state_.Unbind(p.symbol);
    loops_ = loops;
  }

  StmtPtr FilterBlock(int line) {
    auto statement = std::make_unique<FilterBlockStmt>(line);
    statement->filter = expressions_.FilterChain();
    statement->body = After({"endfilter"});
    state_.SkipName("endfilter");
    return state_.ok() ? std::move(statement) : nullptr;
  }

  StmtPtr With(int line) {
    auto statement = std::make_unique<WithStmt>(line);
    while (state_.ok() && !state_.At(TokenType::kBlockEnd)) {
      Target target = AssignTarget(/*with_namespace=*/false);
      state_.ExpectOp("=");
      ExprPtr value = expressions_.Expression();
      statement->bindings.emplace_back(std::move(target), std::move(value));
      if (!state_.At(TokenType::kBlockEnd)) state_.ExpectOp(",");
    }
    const auto each = [&](auto&& visit) {
      for (const auto& binding : statement->bindings) ForEachName(binding.first, visit);
    };
    each([this](Symbol s) { state_.Bind(s); });
    statement->body = After({"endwith"});
    each([this](Symbol s) { state_.Unbind(s); });
    state_.SkipName("endwith");
    return state_.ok() ? std::move(statement) : nullptr;
  }

  StmtPtr Generation(int line) {
    auto statement = std::make_unique<ScopeStmt>(line);
    statement->body = After({"endgeneration"});
    state_.SkipName("endgeneration");
    return state_.ok() ? std::move(statement) : nullptr;
  }

  StmtPtr LoopControl(int line, bool is_break) {
    if (loops_ == 0) return state_.Fail("break or continue outside of a loop"), nullptr;
    class Control final : public Stmt {
     public:
      using Stmt::Stmt;
    };
    return std::make_unique<Control>(is_break ? StmtKind::kBreak : StmtKind::kContinue, line);
  }

  // name | name.attribute | (a, b) | a, b
  Target AssignTarget(bool with_namespace) {
    const Nested nested(state_);
    Target first = SingleTarget(with_namespace);
    if (!state_.AtOp(",")) return first;
    Target tuple;
    tuple.kind = Target::Kind::kTuple;
    tuple.line = first.line;
    tuple.members.push_back(std::move(first));
    while (state_.SkipOp(",")) {
      if (state_.AtOp("=") || state_.AtOp(")") || state_.AtName("in")) break;
      tuple.members.push_back(SingleTarget(with_namespace));
    }
    return tuple;
  }

  Target SingleTarget(bool with_namespace) {
    if (state_.SkipOp("(")) {
      Target inner = AssignTarget(with_namespace);
      state_.ExpectOp(")");
      return inner;
    }
    Target target;
    target.line = state_.line();
    const std::string_view name = state_.ExpectName();
    for (const std::string_view constant :
         {"true", "false", "none", "True", "False", "None", "in", "if", "not"}) {
      if (name == constant) state_.Fail("cannot assign to this name");
    }
    target.symbol = state_.Intern(name);
    if (with_namespace && state_.SkipOp(".")) {
      target.kind = Target::Kind::kNamespace;
      target.attribute = state_.Intern(state_.ExpectName());
      state_.OnLoad(target.symbol);
    }
    return target;
  }

  template <typename Visit>
  static void ForEachName(const Target& target, const Visit& visit) {
    if (target.kind == Target::Kind::kName) visit(target.symbol);
    for (const Target& member : target.members) ForEachName(member, visit);
  }

  void Store(const Target& target) {
    if (state_.ok()) ForEachName(target, [this](Symbol s) { state_.OnStore(s); });
  }

  ParserState& state_;
  ExpressionParser expressions_;
  int loops_ = 0;  // for loops around the current token, within the current macro
};

}  // namespace

Result<Program> Parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return InvalidArgument("tokenizer_limit", "chat template of " + std::to_string(source.size()) +
                                                  " bytes; the limit is " +
                                                  std::to_string(kMaxSourceBytes));
  }
  const std::string text = NormaliseNewlines(source);
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(text));
  ParserState state(std::move(tokens));
  Body body = StatementParser(state).Statements({});
  if (!state.ok()) return state.status();
  state.program.body = std::move(body);
  return std::move(state.program);
}

}  // namespace tutti::tokenizer::jinja
