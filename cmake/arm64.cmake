# Toolchain of the preset arm64: 64-bit Arm by Debian's cross compiler. The libraries are Debian's packages of that architecture next to
# this machine's (tests/ship/arm64.py installs them in a root of its own), the generators of code are this machine's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
# What is compiled for it and run while building: none, but try_run() of CMake's modules.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
