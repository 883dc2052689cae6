// The version number; CHANGELOG.md and CMakeLists.txt have the same one.
#pragma once

namespace tutti::app {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace tutti::app
