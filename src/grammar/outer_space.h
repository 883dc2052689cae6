// Whether the texts of a constraint may begin or end with white space, which then belongs to the
// value and may not be dropped together with the white space around a tag.
//
// Pure; any thread.
#pragma once

#include "grammar/limits.h"
#include "grammar/structure.h"

namespace tutti::grammar {

// True if a text of `structure` may begin or end with a space, tab or line end. Only expressions,
// grammars and choices are examined: JSON values have no outer white space, and that of free text
// has no meaning. True as well where the answer is not known, such as in a grammar of very many
// rules; false where the source cannot be parsed, because compiling it fails anyway. Takes time in
// proportion to the source, within `limits`.
bool MayHaveOuterSpace(const Structure& structure, const Limits& limits = {});

}  // namespace tutti::grammar
