// PulledNames: the names that a server lists because it pulled or copied models, as kept in a file
// of the store over restarts.
//
// A value; not thread-safe. The file is JSON:
//   {"version":1,"pulled":[{"name":"org/m:Q4_0","commit":"0123..."}],
//    "copies":[{"name":"chat","model":"org/m:Q4_0"}]}
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::app {

struct PulledNames {
  struct Pulled {
    std::string name;    // as it is served
    std::string commit;  // the hub's; empty for a known model
    friend bool operator==(const Pulled&, const Pulled&) = default;
  };
  struct Copy {
    std::string name;   // the further name
    std::string model;  // a name that is listed before
    friend bool operator==(const Copy&, const Copy&) = default;
  };
  std::vector<Pulled> pulled;
  std::vector<Copy> copies;
  friend bool operator==(const PulledNames&, const PulledNames&) = default;
};

// A file that does not exist is an empty list. Errors: io_error; invalid_value for other contents.
Result<PulledNames> ReadPulledNames(const std::string& path);
// Replaces the file. After a power failure it may be cut off, which a reader finds out. Errors:
// io_error.
Status WritePulledNames(const std::string& path, const PulledNames& names);

}  // namespace tutti::app
