// The name of this process among those of several machines.
#pragma once

#include <string>

namespace tutti::app {

std::string HostName();           // as the system has it; may be empty
std::string NameOfThisProcess();  // "HOST:PID"

}  // namespace tutti::app
