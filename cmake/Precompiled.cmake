# Headers of the language and of GoogleTest that most files include, compiled once: a third of what a file takes. For gcc
# alone: the builds of clang (make tidy, make fuzz) go without, and find an #include that was forgotten.
set(TUTTI_PRECOMPILE OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(TUTTI_PRECOMPILE ON)
endif()

# tutti_precompiled(<name> <header>...): what other targets may take by tutti_precompile().
function(tutti_precompiled name)
  set(folder ${CMAKE_BINARY_DIR}/precompiled)
  file(CONFIGURE OUTPUT ${folder}/${name}.cc CONTENT "// Carries ${name}'s headers.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${folder}/${name}.cc)
  target_link_libraries(${name} PRIVATE tutti_flags)
  target_precompile_headers(${name} PRIVATE ${ARGN})
  # ccache hashes this file in place of the compiled headers, whose contents differ between folders (tools/build.sh).
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${name}.dir/cmake_pch.hxx.gch.sum
       CONTENT "${CMAKE_CXX_COMPILER_VERSION} GoogleTest ${GTest_VERSION} ${ARGN}\n")
endfunction()

function(tutti_precompile target name)
  if(TUTTI_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

if(TUTTI_PRECOMPILE)
  set(headers <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <functional> <map> <memory> <optional> <span> <string>
              <string_view> <thread> <unordered_map> <utility> <vector>)
  tutti_precompiled(tutti_common_headers ${headers})
  tutti_precompiled(tutti_fast_headers ${headers})  # of FAST folders, which are compiled otherwise
  target_compile_options(tutti_fast_headers PRIVATE ${TUTTI_FAST_OPTIONS})
  # For the servers with sockets of their own, and for the command line.
  tutti_precompiled(tutti_asio_headers ${headers} <boost/asio/buffer.hpp> <boost/asio/io_context.hpp> <boost/asio/ip/tcp.hpp>
                    <boost/asio/post.hpp> <boost/asio/ssl/context.hpp> <boost/asio/ssl/stream.hpp> <boost/asio/steady_timer.hpp>)
  target_link_libraries(tutti_asio_headers PRIVATE OpenSSL::SSL)
  tutti_precompiled(tutti_cli11_headers ${headers} <CLI/CLI.hpp> <fmt/format.h>)
  target_link_libraries(tutti_cli11_headers PRIVATE CLI11::CLI11 fmt::fmt)
  if(TUTTI_TESTS)
    foreach(name tutti_test_headers tutti_plain_test_headers)
      tutti_precompiled(${name} ${headers} <gmock/gmock.h> <gtest/gtest.h>)
      target_link_libraries(${name} PRIVATE GTest::gmock)
      # As a program's files are compiled.
      set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${name} PRIVATE -fPIE ${TUTTI_TEST_OPTIONS})
    endforeach()
    set_target_properties(tutti_plain_test_headers PROPERTIES TUTTI_PLAIN ON)
  endif()
endif()
