// Bytes the program's C++ heap holds, counted by operators that replace new and delete in the test
// program (footprint_test.cc). Sanitized builds bring their own operators: kHeapCounted is false
// there.
#pragma once

#include <cstdint>

namespace tutti::library::testing {

#ifdef TUTTI_SANITIZED
inline constexpr bool kHeapCounted = false;
#else
inline constexpr bool kHeapCounted = true;
#endif

int64_t HeapBytes();   // now
int64_t HeapPeak();    // the most since the last reset
void ResetHeapPeak();  // to what is held now

}  // namespace tutti::library::testing
