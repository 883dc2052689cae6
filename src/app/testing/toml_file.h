// A file of settings for a test, replaced by the next one.
#pragma once

#include <fstream>
#include <string>

#include "temp_folder.h"

namespace tutti::app::testing {

inline std::string WriteToml(const std::string& text) {
  static const support::TempFolder folder;
  const std::string path = folder.File("settings.toml");
  std::ofstream(path) << text;
  return path;
}

}  // namespace tutti::app::testing
