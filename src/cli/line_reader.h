// LineReader: reads typed lines, with the editing that a terminal user expects.
//
// On a terminal: the keys of libedit's "emacs" editor, earlier lines under the up arrow (in memory
// only), UTF-8, Ctrl-C to discard a line, Ctrl-D on an empty one to end. Elsewhere, and where TERM
// is "dumb" or not set, plain lines. The terminal is as it was whenever Read() does not run, and
// after a signal that ends or stops the program. Owner and thread: the command that reads; one per
// process, because it uses the standard streams, the process's signals and its locale.
#pragma once

#include <memory>
#include <string>

namespace tutti::cli {

class LineReader {
 public:
  virtual ~LineReader() = default;
  // Shows the prompt and waits for a line, which is left without its line end. False at the end of
  // input.
  virtual bool Read(std::string& line) = 0;
};

// Standard input and standard output are a terminal.
bool OnTerminal();

// The reader that fits standard input. `prompt` is plain ASCII.
std::unique_ptr<LineReader> MakeLineReader(std::string prompt);

}  // namespace tutti::cli
