// How paths become open descriptors: the rules of source.h and folder.h in one place. Private to
// the folder. Any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "files/descriptor.h"
#include "files/source.h"

namespace tutti::files {

// For the message of a failed system call.
std::string ErrorText(int error);

// model_not_found or model_path, by errno.
Status OpenError(int error);

// Opens a directory by any path, for use as `folder` below.
Result<Descriptor> OpenRoot(const std::string& path);

// Opens `path` relative to `folder` (AT_FDCWD: any path is legal). `flags` are those of open(2)
// beside the ones that every opening here has.
using Opener = Result<Descriptor> (*)(int folder, const std::string& path, int flags);
Result<Descriptor> OpenAnywhere(int folder, const std::string& path, int flags);
// Stays beneath `folder`, symbolic links included; through openat2 where the kernel has it.
Result<Descriptor> OpenBeneath(int folder, const std::string& path, int flags);
// Likewise component by component, following no link: for kernels that lack openat2.
Result<Descriptor> OpenBeneathByHand(int folder, const std::string& path, int flags);

// model_path when the path is empty or holds a NUL.
Status CheckPath(const std::string& path);

// Looks before it opens, as opening a device can already act on it, and again at what it opened.
Result<std::shared_ptr<const Source>> OpenRegular(int folder, const std::string& path,
                                                  Opener opener, std::string_view truncated);

}  // namespace tutti::files
