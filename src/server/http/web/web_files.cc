#include "server/http/web/web_files.h"

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/http1/compression.h"

namespace tutti::http {

const WebFile* FindWebFile(std::string_view path) {
  const std::span<const WebFile> files = WebFiles();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const WebFile& file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

std::string_view MediaTypeOf(const WebFile& file) {
  static constexpr auto kTypes = std::to_array<std::pair<std::string_view, std::string_view>>({
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".svg", "image/svg+xml"},
  });
  for (const auto& [extension, type] : kTypes) {
    if (file.path.ends_with(extension)) return type;
  }
  return "application/octet-stream";
}

Result<std::string> Decompressed(const WebFile& file) {
  return protocol::Inflate(protocol::Coding::kGzip, file.compressed(), file.size);
}

}  // namespace tutti::http
