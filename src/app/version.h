// The one place the version stands in code; CHANGELOG.md and CMakeLists.txt carry the same number.
#pragma once

namespace tutti::app {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace tutti::app
