// Opens paths by the rules of source.h. Private to the folder `files`. Any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "files/source.h"

namespace tutti::files {

// For the message of a failed system call.
std::string ErrorText(int error);

// model_not_found or model_path, by errno.
Status OpenError(int error);

// Opens a directory by any path, for use as `folder` below.
Result<Descriptor> OpenRoot(const std::string& path);

// Opens `path` relative to `folder` (AT_FDCWD: any path is legal). `flags` of open(2) are added to
// those that all functions here use.
using Opener = Result<Descriptor> (*)(int folder, const std::string& path, int flags);
Result<Descriptor> OpenAnywhere(int folder, const std::string& path, int flags);
// Stays beneath `folder`, symbolic links included; through openat2 where the kernel has it.
Result<Descriptor> OpenBeneath(int folder, const std::string& path, int flags);
// The same for kernels without openat2: component by component, following no symbolic link.
Result<Descriptor> OpenBeneathByHand(int folder, const std::string& path, int flags);

// model_path when the path is empty or holds a NUL.
Status CheckPath(const std::string& path);

// Opens a regular file. Checks the type before opening, since opening a device may have effects,
// and once more on the open descriptor.
Result<std::shared_ptr<const Source>> OpenRegular(int folder, const std::string& path,
                                                  Opener opener, std::string_view truncated);

}  // namespace tutti::files
