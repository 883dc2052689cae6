// OutputFile: writes the file that a user asked for, which then appears under its name whole or not
// at all (base/new_file.h); errors have messages for the user. Not thread-safe.
//
// A killed process leaves nothing behind if the file system has nameless files. Elsewhere it leaves
// NAME.tutti-*.part, which is removed the next time that NAME is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/new_file.h"
#include "base/status.h"

namespace tutti::quantize {

class OutputFile {
 public:
  // For a file that will be called `path`; nothing of that name is touched. Errors: output_exists
  // when something is there and `replace` is false, output_path when it cannot be made,
  // storage_full when the disk has less than `bytes` left.
  static Result<OutputFile> Create(const std::string& path, bool replace, uint64_t bytes);

  // Errors: storage_full, output_path.
  Status Append(std::span<const std::byte> bytes);
  uint64_t bytes() const { return file_.bytes(); }

  // To the disk, then under its name, then the name to the disk. Once, at the end. Errors: as
  // above; output_exists also when another process was faster; output_unflushed when the file is
  // there, and a loss of power may still take it. After the others there is no file.
  Status Keep();

 private:
  OutputFile(NewFile file, std::string path, bool replace)
      : file_(std::move(file)), path_(std::move(path)), replace_(replace) {}

  NewFile file_;
  std::string path_;
  bool replace_ = false;
};

}  // namespace tutti::quantize
