// Variables of one block. Internal to the interpreter; one render, one thread.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/runtime.h"

namespace tutti::tokenizer::jinja {

class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  // The nearest variable of this name, or null. Pays for the search.
  const Value* Find(Runtime& rt, Symbol symbol) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      if (!rt.Spend(scope->symbols_.size() / 64)) return nullptr;
      for (size_t i = scope->symbols_.size(); i-- > 0;) {
        if (scope->symbols_[i] == symbol) return &scope->values_[i];
      }
    }
    return nullptr;
  }
  void Set(Runtime& rt, Symbol symbol, Value value) {
    if (!rt.Spend(symbols_.size() / 64)) return;
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (symbols_[i] == symbol) {
        values_[i] = std::move(value);
        return;
      }
    }
    symbols_.push_back(symbol);
    values_.push_back(std::move(value));
  }
  void Clear() {
    symbols_.clear();
    values_.clear();
  }

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<Symbol> symbols_;  // apart from the values, so that a search reads little memory
  std::vector<Value> values_;
};

}  // namespace tutti::tokenizer::jinja
