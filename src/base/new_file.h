// NewFile: writes a file once, from beginning to end; the file then appears under its name whole,
// or not at all.
//
// Its bytes are on the disk before it gets its name, unless its writer does without. One thread at
// a time. Where a function reports failure, errno holds the reason, and the caller makes an error
// message of it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tutti {

class NewFile {
 public:
  enum class Meanwhile {
    kNameless,  // no name until KeepAs, if the file system has O_TMPFILE: a kill leaves nothing
    kNamed,
  };
  // `temporary`: name of the file until KeepAs, in the same folder as the final name. Fails with
  // EEXIST if a file has that name.
  static std::optional<NewFile> Create(std::string temporary, Meanwhile meanwhile, mode_t mode);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // removes the file unless KeepAs kept it

  bool Append(std::span<const std::byte> bytes);
  uint64_t bytes() const { return bytes_; }
  int descriptor() const { return fd_; }  // for queries about its disk

  enum class Kept {
    kNot,         // failed; a file that had the name before is unchanged
    kNotFlushed,  // the file has its name, but a power failure may undo the renaming
    kYes,
  };
  enum class Flush {
    kYes,
    kNo,  // after a power failure the file may be empty or cut off: its reader must find out
  };
  // Flushes the file to the disk, gives it its name, and flushes the folder. Called once, at the
  // end. With `replace`, a file that has the name is replaced; else it stays, and errno is EEXIST.
  Kept KeepAs(const std::string& path, bool replace, Flush flush = Flush::kYes);

 private:
  NewFile(int fd, std::string temporary, bool named)
      : fd_(fd), temporary_(std::move(temporary)), named_(named) {}

  int fd_ = -1;
  std::string temporary_;
  bool named_ = false;  // it has the temporary name
  uint64_t bytes_ = 0;
};

// The folder that `path` lies in, "." for a bare name.
std::string FolderOf(const std::string& path);

// Flushes `folder`, so that its present names survive a power failure; false on failure.
bool FlushFolder(const std::string& folder);

// Removes files that killed processes left in `folder`: those whose names have this beginning and
// end and which no NewFile of any process is writing. Ignores errors.
void RemoveAbandoned(const std::string& folder, const std::string& begin, const std::string& end);

}  // namespace tutti
