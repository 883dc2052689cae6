// BenchFolder: a temporary folder for a bench's files; the destructor deletes it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/status.h"

namespace tutti::bench {

class BenchFolder {
 public:
  explicit BenchFolder(const std::string& in) {
    std::string pattern = in + "/tutti-accepts-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~BenchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  Status Check(const std::string& in) const {
    return path_.empty() ? Unavailable("store_failed", in + ": no folder can be made there")
                         : OkStatus();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tutti::bench
