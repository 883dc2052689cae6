// NewFile: a file that is written once, from its beginning to its end, and then appears whole under
// its name, or not at all.
//
// Its bytes are on the disk before it has its name. One thread at a time. Where a function says
// that it failed, errno says why: whoever writes the file knows what that means to its users.
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
    kNameless,  // where the file system can do that (O_TMPFILE), so that a kill leaves nothing
    kNamed,
  };
  // `temporary`: its name while it has no other, in the folder of the later one. Nothing has that
  // name, or nothing is made (EEXIST).
  static std::optional<NewFile> Create(std::string temporary, Meanwhile meanwhile, mode_t mode);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // what was not kept is gone

  bool Append(std::span<const std::byte> bytes);
  uint64_t bytes() const { return bytes_; }
  int descriptor() const { return fd_; }  // to ask about its disk

  enum class Kept {
    kNot,         // and there is no file of that name but the one that was there before
    kNotFlushed,  // it is whole and has its name, which a loss of power may take from it
    kYes,
  };
  // To the disk, then under its name, then the name to the disk. Once, at the end. `replace`: it
  // takes the place of what has the name; else that stays, and errno is EEXIST.
  Kept KeepAs(const std::string& path, bool replace);

 private:
  NewFile(int fd, std::string temporary, bool named)
      : fd_(fd), temporary_(std::move(temporary)), named_(named) {}

  int fd_ = -1;
  std::string temporary_;
  bool named_ = false;  // it has the temporary name
  uint64_t bytes_ = 0;
};

// What stands in `folder` by name now stands there after a loss of power too, or false.
bool FlushFolder(const std::string& folder);

// Removes files of `folder` whose names have this beginning and end and which no NewFile of any
// process writes any more: what is left where one was killed. As far as it can.
void RemoveAbandoned(const std::string& folder, const std::string& begin, const std::string& end);

}  // namespace tutti
