// Number of processors available to this process. Any thread.
#pragma once

namespace tutti {

// The cores this process may use (affinity respected), at least 1.
int UsableCores();

}  // namespace tutti
