// OutputFile: a file that appears whole under its name, or not at all.
//
// It is written without a name where the file system can do that (O_TMPFILE), so that a process
// that is killed leaves nothing behind; elsewhere under a name of its own beside the real one.
// Keep brings it to the disk before it gets its name. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace tutti::quantize {

class OutputFile {
 public:
  // For a file that will be called `path`; nothing of that name is touched. Errors: output_exists
  // when something is there and `replace` is false, output_path when it cannot be made,
  // storage_full when the disk has less than `bytes` left.
  static Result<OutputFile> Create(const std::string& path, bool replace, uint64_t bytes);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // what was not kept is gone

  // Errors: storage_full, output_path.
  Status Append(std::span<const std::byte> bytes);
  uint64_t bytes() const { return bytes_; }

  // To the disk, then under its name, then the name to the disk. Once, at the end; on an error
  // there is no file. Errors: as above; output_exists also when another process was faster.
  Status Keep();

 private:
  OutputFile(int fd, std::string path, std::string temporary, bool replace)
      : fd_(fd), path_(std::move(path)), temporary_(std::move(temporary)), replace_(replace) {}

  int fd_ = -1;
  std::string path_;
  std::string temporary_;  // its name meanwhile; empty while it has none
  bool replace_ = false;
  uint64_t bytes_ = 0;
};

}  // namespace tutti::quantize
