// Reads a password from the user of a command: typed without echo, or a line of standard input.
// Never from an argument, which every process of the machine can read. Uses the standard streams
// and the process's signals; one call at a time.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::cli {

// Asks for a new password twice at a terminal. Errors: no_terminal, cancelled, invalid_value (the
// two differ).
Result<std::string> TypedPassword();

// Asks once for an existing password at a terminal. Errors: no_terminal, cancelled.
Result<std::string> AskedPassword();

// Reads the only line of descriptor `fd`, without its end. Errors: invalid_value (no line, several
// lines, or one that is too long), io_error. `source`: name of the input in messages.
Result<std::string> PipedPassword(int fd, const std::string& source = "standard input");

// Reads the password from a file that only its owner may read. Errors: those of PipedPassword().
Result<std::string> PasswordOfFile(const std::string& path);

}  // namespace tutti::cli
