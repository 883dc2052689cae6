#include "temp_folder.h"

#include <stdlib.h>

#include <cstdio>
#include <cstdlib>

namespace tutti::support {

TempFolder::TempFolder() {
  std::error_code ignored;
  path_ = (std::filesystem::temp_directory_path(ignored) / "tutti-test-XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr) {
    std::perror(path_.c_str());
    std::abort();
  }
}

}  // namespace tutti::support
