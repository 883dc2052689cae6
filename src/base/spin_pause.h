// SpinPause: a hint to the core that this is a spin loop. Any thread.
#pragma once

namespace tutti {

inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // its own hint, yield, costs nothing and gives nothing on most cores
#endif
}

}  // namespace tutti
