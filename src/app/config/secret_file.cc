#include "app/config/secret_file.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>

namespace tutti::app {
namespace {

constexpr size_t kMaxFileBytes = 16384;

}  // namespace

Result<std::string> ReadOptionFile(const char* option, const std::string& path, bool secret) {
  const auto bad = [&](const char* why) {
    return InvalidArgument("invalid_value", std::string(option) + " " + path + " " + why)
        .WithParam(option);
  };
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return bad("is no readable file");
  if (secret && (info.st_mode & (S_IROTH | S_IRGRP)) != 0)
    return bad("can be read by others: chmod 600 it");
  if (static_cast<size_t>(info.st_size) > kMaxFileBytes) return bad("is longer than 16 KiB");
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return bad("cannot be read");
  if (secret && text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace tutti::app
