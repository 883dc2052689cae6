// Ends of short user-perceived characters (grapheme clusters).
//
// Pure; any thread. Source: Unicode Standard Annex 29, rules GB3 to GB9b over ICU's properties. The
// rules of emoji sequences, of flags and of Indic conjuncts (GB9c to GB13) are left out: the
// clusters that they join take six bytes and more, and callers treat the characters of such a
// cluster one by one.
#pragma once

#include <cstddef>
#include <string_view>

namespace tutti::tokenizer {

// Needs at < text.size() to be where a character begins. A byte that is no UTF-8 is a cluster of
// its own. Linear in the cluster.
size_t GraphemeEnd(std::string_view text, size_t at);

}  // namespace tutti::tokenizer
