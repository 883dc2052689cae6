# Language level, warnings and sanitizers, for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# CHECK and assert stay on in every build: a wrong answer is worse than a lost microsecond.
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
# Code that runs once per request compiles a fifth faster at -O1. FAST folders, where a request spends its time, get -O2
# (cmake/TuttiFolder.cmake).
string(REPLACE "-O3" "-O1" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
set(TUTTI_FAST_OPTIONS)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(TUTTI_FAST_OPTIONS -O2)
endif()
option(TUTTI_JOIN "Compile 24 files of a folder at a time (gcc only)" ON)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()

# Names of files in messages are the same in every folder that builds: src/base/check.h. ccache hands the compiler relative paths.
file(RELATIVE_PATH relative_source ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR}/src)
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${relative_source}/=src/
                    -ffile-prefix-map=${CMAKE_BINARY_DIR}/=build/)

add_library(tutti_flags INTERFACE)
target_compile_options(tutti_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wsign-compare -Wnon-virtual-dtor -Wvla -Werror
  -fno-omit-frame-pointer
  -pthread  # of some libraries' flags: compiled headers fit only what is compiled alike
  # Bits must not depend on which template instance the compiler happened to fuse.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 finds faults in the inside of std::string that are not there (its bug 105651 and others), more of them where
  # headers were compiled before (Precompiled.cmake).
  target_compile_options(tutti_flags INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
  # gcc searches its memory for what it no longer needs from 128 MiB on, and then again and again: an eighth of the time
  # for files of a GiB. From 512 MiB on it takes little more memory, as the largest of them need twice that anyway.
  target_compile_options(tutti_flags INTERFACE --param=ggc-min-heapsize=524288)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    # It takes what a function finds in a table for a part of the temporary it was asked with.
    target_compile_options(tutti_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-dangling-reference>)
  endif()
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(tutti_flags INTERFACE -Wthread-safety)
endif()

# binutils' second linker takes a quarter of the first one's time, for about a hundred programs. Not for the library: it
# shows inline variables of static libraries in spite of --exclude-libs.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=gold TUTTI_HAS_GOLD)
if(TUTTI_HAS_GOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_link_options(tutti_flags INTERFACE "$<$<NOT:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>>:-fuse-ld=gold>")
endif()

set(TUTTI_SANITIZE "" CACHE STRING "Sanitizers for every target, as given to -fsanitize=")
set(TUTTI_PLAIN_FROM "" CACHE PATH "A release build whose objects stand for what is not instrumented (tutti_folder)")
set(TUTTI_TEST_TIMEOUT 900)  # seconds a test program may take
if(TUTTI_SANITIZE)
  set(TUTTI_TEST_TIMEOUT 3600)
  # Optimizing the sanitizers' instrumentation takes half of the compile time. Without it, tests that compute are four
  # times slower. The thread sanitizer's programs run the whole suite and need the speed.
  set(TUTTI_FAST_OPTIONS -O1)
  if(NOT TUTTI_SANITIZE MATCHES "thread")
    string(REPLACE "-O1" "-O0" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
  endif()
  # Not in targets with the property TUTTI_PLAIN (cmake/TuttiFolder.cmake, PLAIN_TESTS).
  set(instrumented $<NOT:$<BOOL:$<TARGET_PROPERTY:TUTTI_PLAIN>>>)
  set(instrumentation -fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all -g1)
  if(TUTTI_PLAIN_FROM)
    # These three take a third of the time to compile. The address sanitizer finds null pointers as well, and
    # `make check-asan` has them all.
    list(APPEND instrumentation -fno-sanitize=null,alignment,vptr)
  endif()
  target_compile_options(tutti_flags INTERFACE "$<${instrumented}:${instrumentation}>")
  target_link_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE})
  target_compile_definitions(tutti_flags INTERFACE TUTTI_SANITIZED=1)
  if(TUTTI_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Asio's fences, which the thread sanitizer does not see; gcc says so once a translation unit.
    target_compile_options(tutti_flags INTERFACE -Wno-tsan)
  endif()
endif()
# For unit tests' own files: compiles a fifth faster, and does not affect what they measure. Some count allocations with
# operators of their own, of which gcc sees only one half inlined.
set(TUTTI_TEST_OPTIONS -O0)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND TUTTI_TEST_OPTIONS -Wno-mismatched-new-delete)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_definitions(tutti_flags INTERFACE TUTTI_DEBUG=1)  # for tests that measure: the product is slow
endif()
option(TUTTI_FUZZ "Build the libFuzzer targets (clang only)" OFF)
