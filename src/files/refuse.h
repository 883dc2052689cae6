// Refuse: the error of a file that breaks the rules of its format. Pure; any thread.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/status.h"

namespace tutti::files {

// InvalidArgument with a formatted message.
template <typename... Args>
Status Refuse(std::string_view code, fmt::format_string<Args...> format, Args&&... args) {
  return InvalidArgument(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tutti::files
