#include "base/secret_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace tutti {

Result<std::string> ReadSecretFile(const std::string& path) {
  const auto bad = [&](const char* why) {
    return InvalidArgument("invalid_value", path + " " + why);
  };
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return bad("is not a readable file");
  if ((info.st_mode & (S_IRWXO | S_IRGRP)) != 0) return bad("can be read by others: chmod 600 it");
  std::ifstream file(path, std::ios::binary);
  std::string line(kMostSecretBytes + 2, '\0');
  if (!file) return bad("cannot be read");
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<size_t>(file.gcount()));
  line.resize(std::min(line.find('\n'), line.size()));
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty()) return bad("holds no password in its first line");
  if (line.size() > kMostSecretBytes) return bad("holds a password of more than 4096 bytes");
  return line;
}

}  // namespace tutti
