#include "base/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.h"
#include "base/quote.h"

namespace tutti {
namespace {

constexpr size_t kShownPath = 255;

}  // namespace

Result<std::string> ReadTextFile(const std::string& path, uint64_t most, std::string_view code) {
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument(code, Quote(path, kShownPath) + " " + why);
  };
  // Not blocking: opening a FIFO would wait for its writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) return refuse(std::string("cannot be read: ") + std::strerror(errno));
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return refuse("is no regular file");
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (bytes > most) {
    return refuse("has " + std::to_string(bytes) + " bytes; at most " + std::to_string(most) +
                  " are read");
  }
  std::string text(bytes, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = read(file.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) break;  // it has become shorter
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

}  // namespace tutti
