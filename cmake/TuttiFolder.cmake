# tutti_folder(NAME <folder> RANK <n> [DEPENDS <folder>...] [TEST_DEPENDS <folder>...] [LINK <target>...]
#              [TEST_LINK <target>...] [EXCLUDE <regex>...] [PRECOMPILED <name>] [JOINED_TESTS] [JOINED])
#
# Declares the static library tutti_<folder> from every *.cc below the calling directory and, from its
# *_test.cc files, the program <folder>_test, registered with ctest under the same name. *_bench.cc
# become <folder>_bench. Files whose path matches one of EXCLUDE are left to the caller. DEPENDS are the only
# folders whose headers this one may include, PRECOMPILED the compiled headers it takes (cmake/Precompiled.cmake;
# tutti_common_headers), TEST_DEPENDS those that its tests, benches and what lies in testing/
# may include besides. JOINED_TESTS: the tests' files are compiled several at once, as their headers take longer than
# they do; names in their unnamed namespaces must differ (tests/joined_names_test.py). JOINED: so are the library's files in a build that is made once
# (sanitized ones, and all with TUTTI_JOIN), where headers take most of the time. The declared graph is written to
# ranks.json, which tests/ranks_test.py compares with the includes and the map.
function(tutti_folder)
  cmake_parse_arguments(F "JOINED_TESTS;JOINED" "NAME;RANK;PRECOMPILED" "DEPENDS;TEST_DEPENDS;LINK;TEST_LINK;EXCLUDE" ${ARGN})
  string(REPLACE "/" "_" target ${F_NAME})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  file(GLOB_RECURSE nested CONFIGURE_DEPENDS */CMakeLists.txt)
  foreach(list_file ${nested})       # a sub-folder with its own CMakeLists.txt is a library of its own
    get_filename_component(nested_dir ${list_file} DIRECTORY)
    list(FILTER sources EXCLUDE REGEX "^${nested_dir}/")
  endforeach()
  foreach(pattern ${F_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")

  if(sources)
    add_library(tutti_${target} STATIC ${sources})
    if(NOT F_PRECOMPILED)
      set(F_PRECOMPILED tutti_common_headers)
    endif()
    tutti_precompile(tutti_${target} ${F_PRECOMPILED})
    if(F_JOINED AND TUTTI_PRECOMPILE AND (TUTTI_SANITIZE OR TUTTI_JOIN))
      set_target_properties(tutti_${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
      # A type of an unnamed namespace in a class of the same file: the file is not the main one here.
      target_compile_options(tutti_${target} PRIVATE -Wno-subobject-linkage)
    endif()
    set(scope PUBLIC)
  else()
    add_library(tutti_${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(tutti_${target} ${scope} ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM F_DEPENDS REPLACE "/" "_" OUTPUT_VARIABLE dep_targets)
  list(TRANSFORM dep_targets PREPEND "tutti_")
  target_link_libraries(tutti_${target} ${scope} tutti_flags ${dep_targets} ${F_LINK} Threads::Threads)

  list(TRANSFORM F_TEST_DEPENDS REPLACE "/" "_" OUTPUT_VARIABLE test_dep_targets)
  list(TRANSFORM test_dep_targets PREPEND "tutti_")
  if(tests AND NOT TUTTI_TESTS)
    tutti_missing_tests(${target}_test)
  elseif(tests)
    add_executable(${target}_test ${tests})
    target_link_libraries(${target}_test PRIVATE tutti_${target} ${test_dep_targets} tutti_test_support ${F_TEST_LINK}
                          GTest::gmock GTest::gtest_main)
    target_compile_options(${target}_test PRIVATE ${TUTTI_TEST_OPTIONS})
    tutti_precompile(${target}_test tutti_test_headers)
    if(F_JOINED_TESTS AND TUTTI_PRECOMPILE)
      set_target_properties(${target}_test PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    endif()
    tutti_register_test(${target}_test)
  endif()
  if(benches AND TUTTI_TESTS)
    add_executable(${target}_bench EXCLUDE_FROM_ALL ${benches})
    target_link_libraries(${target}_bench PRIVATE tutti_${target} ${test_dep_targets} tutti_test_support benchmark::benchmark_main)
  endif()
  foreach(kind DEPENDS TEST_DEPENDS)
    list(JOIN F_${kind} "\", \"" ${kind})
    if(${kind})
      set(${kind} "\"${${kind}}\"")
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TUTTI_RANKS
               "{\"folder\": \"${F_NAME}\", \"rank\": ${F_RANK}, \"depends\": [${DEPENDS}], \"test_depends\": [${TEST_DEPENDS}]}")
endfunction()

# Stands for a test program where the packages of the tests are not installed: building it fails with the command to run.
function(tutti_missing_tests target)
  add_custom_target(${target}
    COMMAND ${CMAKE_COMMAND} -E echo "${target} needs the packages of cmake/packages-test.txt: run make test-deps"
    COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
endfunction()

# Runs a gtest program under ctest, leaving its per-case times where `make test` looks for the slowest.
function(tutti_register_test target)
  add_test(NAME ${target}
           COMMAND ${target} --gtest_output=xml:${CMAKE_BINARY_DIR}/test-times/${target}.xml)
  set_tests_properties(${target} PROPERTIES
    ENVIRONMENT "TUTTI_SOURCE_DIR=${PROJECT_SOURCE_DIR};TUTTI_BINARY_DIR=${CMAKE_BINARY_DIR}" TIMEOUT ${TUTTI_TEST_TIMEOUT})
endfunction()

function(tutti_write_ranks path)
  get_property(rows GLOBAL PROPERTY TUTTI_RANKS)
  list(JOIN rows ",\n " body)
  file(WRITE ${path} "[${body}]\n")
endfunction()
