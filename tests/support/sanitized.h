// Whether this program runs under the address or the thread sanitizer. Asked at run time: `make
// test` links sanitized programs with test files that the release build has compiled
// (cmake/TuttiFolder.cmake).
#pragma once

extern "C" {
void __asan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
}

namespace tutti::support {

inline bool Sanitized() { return &__asan_init != nullptr || &__tsan_init != nullptr; }

}  // namespace tutti::support
