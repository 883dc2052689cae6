# cmake -D ROOT=<folder> -D LIST=<file with paths> -D OUTPUT=<file.cc> -P EmbedWebFiles.cmake
#
# Writes the files as arrays of gzip streams. Equal files give equal output, so that a rebuild compiles nothing.
cmake_minimum_required(VERSION 3.25)
file(STRINGS ${LIST} files)
set(arrays)
set(rows)
set(number 0)
foreach(file ${files})
  file(RELATIVE_PATH path ${ROOT} ${file})
  file(SIZE ${file} size)
  file(SHA256 ${file} hash)
  string(SUBSTRING ${hash} 0 32 tag)
  set(compressed ${OUTPUT}.gz)
  file(ARCHIVE_CREATE OUTPUT ${compressed} PATHS ${file} FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9)
  file(READ ${compressed} bytes HEX)
  # The header has the time of now in its bytes 4 to 7, whatever MTIME is given: it is that of an archive's entries.
  string(REGEX REPLACE "^(1f8b0800)........" "\\100000000" bytes "${bytes}")
  file(REMOVE ${compressed})
  string(LENGTH "${bytes}" digits)
  math(EXPR length "${digits} / 2")
  string(REGEX REPLACE "(................................................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char kFile${number}[] = {\n${bytes}\n};\n")
  string(APPEND rows "    {\"${path}\", \"\\\"${tag}\\\"\", kFile${number}, ${length}, ${size}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT} "// Made from web/ by cmake/EmbedWebFiles.cmake.
#include \"server/http/web/web_files.h\"

namespace tutti::http {
namespace {

${arrays}
constexpr WebFile kFiles[] = {
${rows}};

}  // namespace

std::span<const WebFile> WebFiles() { return kFiles; }

}  // namespace tutti::http
")
