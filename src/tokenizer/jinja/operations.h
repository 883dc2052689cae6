// Python's operators over Values: truth, comparison, arithmetic, membership, iteration, indexing.
// All may fail through the Runtime and then return undefined, false or an empty list.
#pragma once

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/runtime.h"
#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer::jinja {

bool Truthy(const Value& value);
bool IsNumber(const Value& value);      // bool, int or float
double ToDouble(const Value& number);   // of an IsNumber value
int64_t ToInteger(const Value& value);  // of a bool or int

bool Equal(Runtime& rt, const Value& a, const Value& b);
// a < b; fails for values that have no order.
bool Less(Runtime& rt, const Value& a, const Value& b);
bool Contains(Runtime& rt, const Value& container, const Value& item);
// One of the comparison operators.
bool Compare(Runtime& rt, Operator op, const Value& a, const Value& b);
// One of the arithmetic operators.
Value Arithmetic(Runtime& rt, Operator op, const Value& a, const Value& b);
Value Negate(Runtime& rt, const Value& value);

// len(value); fails for what has none.
size_t Length(Runtime& rt, const Value& value);
// The items a for loop visits, as a list Value: characters, keys, nothing for undefined.
Value Iterate(Runtime& rt, const Value& value);

// object.name and object[key] as a template means them: undefined when there is no such thing.
Value GetAttribute(Runtime& rt, const Value& object, const std::string& name);
Value GetItem(Runtime& rt, const Value& object, const Value& key);
// object[start:stop:step]; none or undefined for a part left out.
Value GetSlice(Runtime& rt, const Value& object, const Value& start, const Value& stop,
               const Value& step);

}  // namespace tutti::tokenizer::jinja
