// TempFolder: a folder of its own for each test, so that two builds tested at once do not overwrite
// each other's files. Removed with what is in it when the object goes. Any thread.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace tutti::support {

class TempFolder {
 public:
  TempFolder();  // ends the test program where there is no room for one
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string File(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tutti::support
