// A sink for loggers of tests that are about something else.
#pragma once

#include <string_view>

#include "base/log.h"

namespace tutti::app::testing {

class NoLines final : public Logger::Sink {
 public:
  void Line(std::string_view) override {}
};

}  // namespace tutti::app::testing
