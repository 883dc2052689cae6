# tutti_folder(NAME <folder> RANK <n> [DEPENDS <folder>...] [TEST_DEPENDS <folder>...] [LINK <target>...]
#              [TEST_LINK <target>...] [EXCLUDE <regex>...] [PART <part>] [PRECOMPILED <name>] [FAST] [SEPARATE] [PLAIN_TESTS]
#              [UNTRUSTED])
#
# Declares the static library tutti_<folder> from every *.cc below the calling directory and, from its
# *_test.cc files, the program <folder>_test, registered with ctest under the same name. *_bench.cc
# become <folder>_bench. The *.cc in folders named testing become the static library tutti_<folder>_testing, which tests and
# benches link, also those of folders above, and no program of the product. It passes on tutti_<folder> and the same libraries
# of DEPENDS and TEST_DEPENDS, also where it has no files. Files whose path matches one of EXCLUDE are left to the caller.
# DEPENDS are the only folders whose headers this one may include, PRECOMPILED the compiled headers it takes
# (cmake/Precompiled.cmake; tutti_common_headers), TEST_DEPENDS those that its tests, benches and what lies in testing/
# may include besides. The declared graph is written to ranks.json, which tests/ranks_test.py compares with the includes
# and the map.
#
# 24 files at a time are compiled as one (but with TUTTI_JOIN=OFF, the preset dev), for headers take most of the time.
# So names in unnamed namespaces must differ within a folder (tests/joined_names_test.py), but where it is SEPARATE.
# PART: the whole folder belongs to a part that a build may leave out (cmake/Parts.cmake). Where the part is missing, the files
# of a folder named without_<part> are compiled in place of those of the folder above.
# FAST: a request spends its time here, so it is compiled with -O2, others with -O1. PLAIN_TESTS: in the preset `sanitized`
# the library is instrumented and its tests' own files are not, which halves their time to compile. For folders with little
# code in headers that only tests use. The whole builds under sanitizers instrument everything: of an inline function the
# linker takes one copy, and a copy of an atomic that is not instrumented hides from the thread sanitizer who waits for whom.
# UNTRUSTED: the folder reads bytes that somebody else wrote, or orders what many
# requests share, so `make test` runs its tests again under sanitizers.
#
# For that run the preset `sanitized` has TUTTI_PLAIN_FROM, the folder of the release build, and takes from there what need
# not be instrumented: the libraries of folders that are not UNTRUSTED, and tests' own files where the folder says PLAIN_TESTS.
function(tutti_folder)
  cmake_parse_arguments(F "FAST;SEPARATE;PLAIN_TESTS;UNTRUSTED" "NAME;RANK;PRECOMPILED;PART" "DEPENDS;TEST_DEPENDS;LINK;TEST_LINK;EXCLUDE" ${ARGN})
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
  tutti_without_parts()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")
  set(helpers ${sources})
  list(FILTER helpers INCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/(.*/)?testing/")
  list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/(.*/)?testing/")

  if(F_FAST AND NOT F_PRECOMPILED)
    set(F_PRECOMPILED tutti_fast_headers)
  elseif(NOT F_PRECOMPILED)
    set(F_PRECOMPILED tutti_common_headers)
  endif()
  tutti_folder_library(tutti_${target} "${sources}")
  target_include_directories(tutti_${target} ${scope} ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM F_DEPENDS REPLACE "/" "_" OUTPUT_VARIABLE dep_targets)
  list(TRANSFORM dep_targets PREPEND "tutti_")
  target_link_libraries(tutti_${target} ${scope} tutti_flags ${dep_targets} ${F_LINK} Threads::Threads)

  # Helpers of tests may use those of the folders below, so that the libraries follow one another as the folders do.
  tutti_folder_library(tutti_${target}_testing "${helpers}" EXCLUDE_FROM_ALL)
  list(TRANSFORM F_TEST_DEPENDS REPLACE "/" "_" OUTPUT_VARIABLE test_dep_targets)
  list(TRANSFORM test_dep_targets PREPEND "tutti_")
  set(below_testing ${dep_targets} ${test_dep_targets})
  list(TRANSFORM below_testing APPEND "_testing")
  target_link_libraries(tutti_${target}_testing ${scope} tutti_${target} ${below_testing})

  if(tests AND NOT TUTTI_TESTS)
    tutti_missing_tests(${target}_test)
  elseif(tests AND (F_UNTRUSTED OR NOT TUTTI_PLAIN_FROM))
    if(TUTTI_PLAIN_FROM AND F_PLAIN_TESTS)
      tutti_release_objects(tests ${target}_test)
    endif()
    add_executable(${target}_test ${tests})
    set_target_properties(${target}_test PROPERTIES LINKER_LANGUAGE CXX)
    if(F_UNTRUSTED)
      set_property(GLOBAL APPEND PROPERTY TUTTI_UNTRUSTED_TESTS ${target}_test)
    endif()
    target_link_libraries(${target}_test PRIVATE tutti_${target} tutti_${target}_testing tutti_test_support ${F_TEST_LINK}
                          GTest::gmock GTest::gtest_main)
    target_compile_options(${target}_test PRIVATE ${TUTTI_TEST_OPTIONS})
    if(sources)  # first, so that functions of headers are taken from where they are optimised and instrumented
      target_link_options(${target}_test PRIVATE LINKER:--whole-archive $<TARGET_FILE:tutti_${target}> LINKER:--no-whole-archive)
    endif()
    if(F_PLAIN_TESTS AND (TUTTI_PLAIN_FROM OR NOT TUTTI_SANITIZE))
      set_target_properties(${target}_test PROPERTIES TUTTI_PLAIN ON)
      tutti_precompile(${target}_test tutti_plain_test_headers)
    else()
      tutti_precompile(${target}_test tutti_test_headers)
    endif()
    if(NOT F_SEPARATE)
      tutti_join(${target}_test)
    endif()
    tutti_register_test(${target}_test)
  endif()
  if(benches AND TUTTI_TESTS)
    add_executable(${target}_bench EXCLUDE_FROM_ALL ${benches})
    target_link_libraries(${target}_bench PRIVATE tutti_${target} tutti_${target}_testing tutti_test_support benchmark::benchmark_main)
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

# For tutti_folder(): takes from `sources` what belongs to parts that are left out, or what stands in for parts that are not.
function(tutti_without_parts)
  if(F_PART AND "${F_PART}" IN_LIST TUTTI_WITHOUT)
    list(FILTER sources INCLUDE REGEX "/without_${F_PART}/")
    set(F_LINK "" PARENT_SCOPE)
    set(F_PRECOMPILED "" PARENT_SCOPE)
  endif()
  foreach(part ${TUTTI_PARTS})
    if(NOT part IN_LIST TUTTI_WITHOUT)
      list(FILTER sources EXCLUDE REGEX "/without_${part}/")
      continue()
    endif()
    set(missing ${sources})
    list(FILTER missing INCLUDE REGEX "/without_${part}/")
    foreach(file ${missing})
      string(REGEX REPLACE "/without_${part}/.*" "" folder ${file})
      list(FILTER sources EXCLUDE REGEX "^${folder}/[^/]*$")
    endforeach()
  endforeach()
  set(sources ${sources} PARENT_SCOPE)
endfunction()

# Declares `library` from `files`, with the options of the calling tutti_folder(), and sets `scope` to the keyword by which
# it links others: INTERFACE where there are no files.
function(tutti_folder_library library files)
  if(NOT files)
    add_library(${library} INTERFACE)
    set(scope INTERFACE PARENT_SCOPE)
    return()
  endif()
  if(TUTTI_PLAIN_FROM AND NOT F_UNTRUSTED)
    tutti_release_objects(files ${library})
  endif()
  add_library(${library} STATIC ${ARGN} ${files})
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE CXX)
  if(F_FAST)
    target_compile_options(${library} PRIVATE ${TUTTI_FAST_OPTIONS})
  endif()
  tutti_precompile(${library} ${F_PRECOMPILED})
  if(NOT F_SEPARATE)
    tutti_join(${library})
  endif()
  set(scope PUBLIC PARENT_SCOPE)
endfunction()

# The objects of `target` in the release build, in whose compile_commands.json they are named.
function(tutti_release_objects result target)
  set(commands ${TUTTI_PLAIN_FROM}/compile_commands.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${commands})
  file(STRINGS ${commands} lines REGEX " -o [^ ]*/CMakeFiles/${target}\\.dir/")
  list(TRANSFORM lines REPLACE ".* -o ([^ ]*) .*" "${TUTTI_PLAIN_FROM}/\\1" OUTPUT_VARIABLE objects)
  list(FILTER objects EXCLUDE REGEX "/cmake_pch\\.hxx")
  if(NOT objects)
    message(FATAL_ERROR "${commands} has no object of ${target}: build the preset release first")
  endif()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()

# For gcc alone, as the compiled headers: the builds of clang find an #include that was forgotten.
function(tutti_join target)
  if(TUTTI_JOIN AND TUTTI_PRECOMPILE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
    # A type of an unnamed namespace in a class of the same file: the file is not the main one here.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
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
