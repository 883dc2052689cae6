# tutti_web_files(<target>): compiles the page's files (web/) into `target`, compressed. The page needs no other build step.
#
# The list of files is globbed, so a new file needs no entry here. Each one becomes a WebFile (src/server/http/web/web_files.h).
function(tutti_web_files target)
  set(root ${PROJECT_SOURCE_DIR}/web)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${root}/*.html ${root}/*.js ${root}/*.css ${root}/*.svg)
  list(SORT files)
  set(output ${CMAKE_BINARY_DIR}/web/web_files_data.cc)
  set(list_file ${CMAKE_BINARY_DIR}/web/files.txt)
  list(JOIN files "\n" lines)
  file(CONFIGURE OUTPUT ${list_file} CONTENT "${lines}\n" @ONLY)  # written only if it changes: a removed file counts too
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D ROOT=${root} -D LIST=${list_file} -D OUTPUT=${output}
            -P ${PROJECT_SOURCE_DIR}/cmake/EmbedWebFiles.cmake
    DEPENDS ${files} ${list_file} ${PROJECT_SOURCE_DIR}/cmake/EmbedWebFiles.cmake
    COMMENT "Compressing the page"
    VERBATIM)
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${output})
endfunction()
