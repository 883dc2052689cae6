// Python's str methods over Text, shared by methods and filters. Each keeps the origin of every
// byte it keeps.
#pragma once

#include <cstdint>

#include "tokenizer/jinja/runtime.h"
#include "tokenizer/jinja/text.h"

namespace tutti::tokenizer::jinja {

enum class CaseChange { kUpper, kLower, kTitle, kCapitalize, kSwap };

Value ChangeCase(Runtime& rt, const Text& text, CaseChange change);
// `chars` null: white space.
Value StripText(Runtime& rt, const Text& text, bool left, bool right, const Text* chars);
// At most `count` replacements, -1 for all.
Value ReplaceText(Runtime& rt, const Text& text, const Text& from, const Text& to, int64_t count);
// `separator` null: runs of white space. At most `limit` splits, -1 for all.
Value SplitText(Runtime& rt, const Text& text, const Text* separator, int64_t limit,
                bool from_right);
// The lines, without their ends unless `keep_ends`.
Value SplitLines(Runtime& rt, const Text& text, bool keep_ends);
// (before, separator, after) around the first or last separator.
Value PartitionText(Runtime& rt, const Text& text, const Text& separator, bool from_right);
// str() of every item, with `separator` between.
Value JoinTexts(Runtime& rt, const Text& separator, const std::vector<Value>& items, bool convert);
// & < > ' " as entities; the result is markup.
Value EscapeHtml(Runtime& rt, const Text& text);

}  // namespace tutti::tokenizer::jinja
