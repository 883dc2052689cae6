#include "server/access/key_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace tutti::access {
namespace {

constexpr size_t kMaxKeyBytes = 4096;

Status Bad(std::string message) { return BadValue("api-key-file", std::move(message)); }

}  // namespace

Result<std::string> ReadApiKeyFile(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Bad("--api-key-file " + path + " is not a readable file");
  }
  if ((info.st_mode & (S_IROTH | S_IRGRP)) != 0) {
    return Bad("--api-key-file " + path + " can be read by others: chmod 600 it");
  }
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return Bad("--api-key-file " + path + " holds no key");
  for (std::string more; std::getline(file, more);) {
    if (more.find_first_not_of(" \t\r") == std::string::npos) continue;
    return Bad("--api-key-file " + path +
               " holds more than one line: this release knows one key only");
  }
  return CheckApiKey(line, "--api-key-file " + path);
}

Result<std::string> CheckApiKey(std::string_view key, const std::string& source) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = std::min(key.find_first_not_of(kBlank), key.size());
  key = key.substr(begin, key.find_last_not_of(kBlank) + 1 - begin);
  const bool printable =
      std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (key.empty() || key.size() > kMaxKeyBytes || !printable) {
    return Bad("the key in " + source + " must be 1 to 4096 printable characters");
  }
  return std::string(key);
}

}  // namespace tutti::access
