// The conformance tables: every packet of both versions, well-formed and malformed in each way that
// the standards name. Pure.
#pragma once

#include <vector>

#include "mqtt/testing/conformance_case.h"

namespace tutti::mqtt::testing {

std::vector<ConformanceCase> Cases311();
std::vector<ConformanceCase> Cases5();

}  // namespace tutti::mqtt::testing
