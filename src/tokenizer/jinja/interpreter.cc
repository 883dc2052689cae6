#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/engine.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/interpreter_state.h"
#include "tokenizer/jinja/operations.h"

namespace tutti::tokenizer::jinja {

Result<Text> Interpreter::Run(const std::vector<std::pair<std::string, Value>>& variables) {
  Bind(variables);
  Execute(program_.body);
  if (rt_.failed()) return rt_.status();
  return std::move(output_);
}

void Interpreter::Bind(const std::vector<std::pair<std::string, Value>>& variables) {
  // Variables the template never mentions need no place. Of two with one name the later is seen,
  // so a variable hides a function.
  for (Symbol s = 0; s < program_.names.size(); ++s) {
    if (!program_.read[s]) continue;
    const std::string& name = program_.names[s];
    static constexpr std::pair<std::string_view, Builtin> kBuiltins[] = {
        {"range", Builtin::kRange},
        {"namespace", Builtin::kNamespace},
        {"dict", Builtin::kDict},
        {"raise_exception", Builtin::kRaiseException},
        {"strftime_now", Builtin::kStrftimeNow},
    };
    for (const auto& [builtin, which] : kBuiltins) {
      if (builtin == name) globals_.emplace_back(s, rt_.NewObject<FunctionObject>(which));
    }
    for (const auto& [variable, value] : variables) {
      if (variable == name) globals_.emplace_back(s, value);
    }
  }
  for (auto& [symbol, value] : globals_) scope_->Set(rt_, symbol, value);
}

Flow Interpreter::Execute(const Body& body) {
  for (const StmtPtr& statement : body) {
    const Flow flow = Execute(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Flow Interpreter::Execute(const Stmt& statement) {
  const Active active(*this);
  if (!active.ok()) return Flow::kStop;
  rt_.set_line(statement.line);
  switch (statement.kind) {
    case StmtKind::kText:
      return Emit(static_cast<const TextStmt&>(statement).text);
    case StmtKind::kOutput:
      return Output(static_cast<const OutputStmt&>(statement));
    case StmtKind::kIf:
      return If(static_cast<const IfStmt&>(statement));
    case StmtKind::kFor:
      return For(static_cast<const ForStmt&>(statement));
    case StmtKind::kSet:
      return Set(static_cast<const SetStmt&>(statement));
    case StmtKind::kSetBlock:
      return SetBlock(static_cast<const SetBlockStmt&>(statement));
    case StmtKind::kMacro:
      return DefineMacro(static_cast<const MacroStmt&>(statement));
    case StmtKind::kCallBlock:
      return CallBlock(static_cast<const MacroStmt&>(statement));
    case StmtKind::kFilterBlock:
      return FilterBlock(static_cast<const FilterBlockStmt&>(statement));
    case StmtKind::kWith:
      return With(static_cast<const WithStmt&>(statement));
    case StmtKind::kScope: {
      const InnerScope inner(*this);
      return Execute(static_cast<const ScopeStmt&>(statement).body);
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kStop;
}

bool Interpreter::Fits(size_t bytes) {
  if (out_ == &output_ && bytes > rt_.limits().output_bytes - output_.size()) {
    rt_.FailOutput("output");
    return false;
  }
  return rt_.Grow(*out_, bytes);
}

Flow Interpreter::Emit(std::string_view text) {
  if (Fits(text.size())) out_->Append(text, Origin::kTemplate);
  return Next();
}

Flow Interpreter::Output(const OutputStmt& statement) {
  const Value value = Evaluate(*statement.value);
  if (rt_.failed()) return Flow::kStop;
  if (value.is_string()) {
    if (Fits(value.text().size())) out_->Append(value.text());
    return Next();
  }
  Write(value);
  return Next();
}

Flow Interpreter::If(const IfStmt& statement) {
  for (const auto& [test, body] : statement.branches) {
    const bool holds = Truthy(Evaluate(*test));
    if (rt_.failed()) return Flow::kStop;
    if (holds) return Execute(body);
  }
  return Execute(statement.otherwise);
}

Flow Interpreter::For(const ForStmt& statement) {
  Value items = Iterate(rt_, Evaluate(*statement.iterable));
  if (rt_.failed()) return Flow::kStop;
  if (statement.filter != nullptr) items = Filtered(statement, items);
  if (rt_.failed()) return Flow::kStop;
  if (items.items().empty()) {
    const InnerScope inner(*this);
    return Execute(statement.otherwise);
  }
  Value loop = rt_.NewTransient<LoopObject>(items);
  if (rt_.failed()) return Flow::kStop;
  const Flow flow = Iterations(statement, items.items(), loop);
  rt_.Keep(std::move(loop));
  return flow == Flow::kStop || rt_.failed() ? Flow::kStop : Flow::kNext;
}

Flow Interpreter::Iterations(const ForStmt& statement, const std::vector<Value>& items,
                             const Value& loop) {
  const ScopePtr parent = scope_;
  InnerScope inner(*this);
  for (size_t i = 0; i < items.size() && rt_.Spend(1); ++i) {
    static_cast<LoopObject*>(loop.object())->index0 = i;
    inner.Renew(parent);
    Assign(statement.target, items[i]);
    scope_->Set(rt_, loop_symbol_, loop);
    const Flow flow = rt_.failed() ? Flow::kStop : Execute(statement.body);
    if (flow == Flow::kBreak || flow == Flow::kStop) return flow;
  }
  return Flow::kNext;
}

Value Interpreter::Filtered(const ForStmt& statement, const Value& items) {
  std::vector<Value> kept;
  const ScopePtr parent = scope_;
  InnerScope inner(*this);
  for (const Value& item : items.items()) {
    inner.Renew(parent);
    Assign(statement.target, item);
    const bool keep = rt_.Spend(1) && Truthy(Evaluate(*statement.filter));
    if (rt_.failed()) return Value();
    if (keep) kept.push_back(item);
  }
  return rt_.NewList(std::move(kept));
}

Flow Interpreter::Set(const SetStmt& statement) {
  const Value value = Evaluate(*statement.value);
  if (!rt_.failed()) Assign(statement.target, value);
  return Next();
}

void Interpreter::Assign(const Target& target, const Value& value) {
  switch (target.kind) {
    case Target::Kind::kName:
      scope_->Set(rt_, target.symbol, value);
      return;
    case Target::Kind::kNamespace:
      AssignAttribute(target, value);
      return;
    case Target::Kind::kTuple:
      break;
  }
  const Value items = Iterate(rt_, value);
  if (rt_.failed()) return;
  if (items.items().size() != target.members.size()) {
    rt_.Fail("cannot unpack " + std::to_string(items.items().size()) + " values into " +
             std::to_string(target.members.size()) + " names");
    return;
  }
  for (size_t i = 0; i < target.members.size(); ++i) Assign(target.members[i], items.items()[i]);
}

void Interpreter::AssignAttribute(const Target& target, const Value& value) {
  const Value* const holder = scope_->Find(rt_, target.symbol);
  if (holder == nullptr || !holder->is_object() ||
      holder->object()->kind() != ObjectKind::kNamespace) {
    rt_.Fail("cannot set an attribute of what is not a namespace");
    return;
  }
  SetAttribute(rt_, static_cast<NamespaceObject*>(holder->object()),
               program_.names[target.attribute], value);
}

Flow Interpreter::Capture(const Body& body, Text* text) {
  Text* const outer = out_;
  out_ = text;
  Flow flow;
  {
    const InnerScope inner(*this);
    flow = Execute(body);
  }
  out_ = outer;
  return flow;
}

Flow Interpreter::SetBlock(const SetBlockStmt& statement) {
  Text text;
  if (const Flow flow = Capture(statement.body, &text); flow != Flow::kNext) return flow;
  Value value = rt_.NewString(std::move(text));
  if (statement.filter != nullptr) value = FilterCaptured(*statement.filter, value);
  if (!rt_.failed()) Assign(statement.target, value);
  return Next();
}

Flow Interpreter::FilterBlock(const FilterBlockStmt& statement) {
  Text text;
  if (const Flow flow = Capture(statement.body, &text); flow != Flow::kNext) return flow;
  const Value value = FilterCaptured(*statement.filter, rt_.NewString(std::move(text)));
  if (!rt_.failed()) Write(value);
  return Next();
}

Value Interpreter::FilterCaptured(const Expr& chain, const Value& captured) {
  const Value outer = std::move(captured_);
  captured_ = captured;
  const Value value = rt_.failed() ? Value() : Evaluate(chain);
  captured_ = outer;
  return value;
}

void Interpreter::Write(const Value& value) {
  Text text;
  if (AppendText(rt_, value, &text) && Fits(text.size())) out_->Append(text);
}

Flow Interpreter::With(const WithStmt& statement) {
  std::vector<Value> values;  // all evaluated outside, as Jinja does
  for (const auto& binding : statement.bindings) {
    values.push_back(Evaluate(*binding.second));
    if (rt_.failed()) return Flow::kStop;
  }
  const InnerScope inner(*this);
  for (size_t i = 0; i < values.size(); ++i) Assign(statement.bindings[i].first, values[i]);
  return rt_.failed() ? Flow::kStop : Execute(statement.body);
}

Flow Interpreter::DefineMacro(const MacroStmt& statement) {
  const Value macro = rt_.NewObject<Macro>(statement, program_.names[statement.name], scope_);
  if (!rt_.failed()) scope_->Set(rt_, statement.name, macro);
  return Next();
}

Flow Interpreter::CallBlock(const MacroStmt& statement) {
  Value caller = rt_.NewTransient<Macro>(statement, "caller", scope_);
  if (!rt_.failed()) CallWith(statement, caller);
  rt_.Keep(std::move(caller));
  return Next();
}

void Interpreter::CallWith(const MacroStmt& statement, const Value& caller) {
  Arguments args;
  Value callee;
  if (statement.call->kind == ExprKind::kCall) {
    const auto& call = static_cast<const CallExpr&>(*statement.call);
    callee = Evaluate(*call.callee);
    EvaluateArguments(call.args, &args);
  } else {
    const auto& call = static_cast<const MethodCallExpr&>(*statement.call);
    callee = GetAttribute(rt_, Evaluate(*call.object), program_.names[call.name]);
    EvaluateArguments(call.args, &args);
  }
  if (rt_.failed()) return;
  args.named.emplace_back("caller", caller);
  const Value value = Call(callee, args);
  if (!rt_.failed()) Write(value);
}

Symbol Interpreter::SymbolOf(std::string_view name) const {
  Symbol s = 0;
  while (s < program_.names.size() && program_.names[s] != name) ++s;
  return s;
}

Result<Text> Run(const Program& program,
                 const std::vector<std::pair<std::string, Value>>& variables,
                 const Limits& limits) {
  return Interpreter(program, limits).Run(variables);
}

}  // namespace tutti::tokenizer::jinja
