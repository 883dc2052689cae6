#include "model/remarks.h"

#include <fmt/format.h>

namespace tutti::model {

void RemarkUnread(const gguf::Header& header, std::vector<std::string>& remarks) {
  const uint64_t bytes = header.unread_bytes();
  if (bytes == 0) return;
  remarks.push_back(fmt::format("{} byte{} behind the last tensor {} not read", bytes,
                                bytes == 1 ? "" : "s", bytes == 1 ? "is" : "are"));
}

}  // namespace tutti::model
