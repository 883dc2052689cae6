// The files of the page (web/), compressed into the program at build time. Constant; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::http {

struct WebFile {
  std::string_view path;                 // below web/: "views/chat.js"
  std::string_view etag;                 // a strong entity tag, with its quotes
  const unsigned char* bytes = nullptr;  // one gzip stream (RFC 1952)
  size_t length = 0;                     // of `bytes`
  size_t size = 0;                       // decompressed, in bytes

  std::string_view compressed() const { return {reinterpret_cast<const char*>(bytes), length}; }
};

std::span<const WebFile> WebFiles();                // sorted by path
const WebFile* FindWebFile(std::string_view path);  // null: there is none

// By the name's extension: "text/javascript; charset=utf-8".
std::string_view MediaTypeOf(const WebFile& file);
// The file itself, for clients that take no gzip. Errors: OutOfMemory().
Result<std::string> Decompressed(const WebFile& file);

}  // namespace tutti::http
