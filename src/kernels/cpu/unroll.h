// TUTTI_UNROLL(n): unrolls the loop that follows completely, up to n times. Register tiles depend
// on it: an accumulator array indexed by a loop that stays a loop lives in memory. Macro only:
// nothing for the linker to share.
#pragma once

#define TUTTI_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define TUTTI_UNROLL(n) TUTTI_PRAGMA(clang loop unroll(full))
#else
#define TUTTI_UNROLL(n) TUTTI_PRAGMA(GCC unroll n)
#endif
