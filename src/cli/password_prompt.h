// A password from whoever runs the command: typed unseen, or a line of standard input. Never from
// an argument, which every process of the machine can read. Uses the standard streams and the
// process's signals; one at a time.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::cli {

// Typed twice at a terminal, the same both times. Errors: no_terminal, cancelled, invalid_value
// (they differ).
Result<std::string> TypedPassword();

// Typed once, of whoever has it already. Errors: no_terminal, cancelled.
Result<std::string> AskedPassword();

// The one line of descriptor `fd`, without its end. Errors: invalid_value (none, more than one, or
// a long one), io_error. `source`: what messages call it.
Result<std::string> PipedPassword(int fd, const std::string& source = "standard input");

// That of a file which nobody else may read. Errors: those of PipedPassword.
Result<std::string> PasswordOfFile(const std::string& path);

}  // namespace tutti::cli
