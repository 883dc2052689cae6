#include "app/process/process_name.h"

#include <unistd.h>

#include <array>

namespace tutti::app {

std::string HostName() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return host.data();
}

std::string NameOfThisProcess() { return HostName() + ":" + std::to_string(getpid()); }

}  // namespace tutti::app
