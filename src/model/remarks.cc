#include "model/remarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/quote.h"

namespace tutti::model {
namespace {

// "12 tensors are REASON: "a", "b", "c", ..."; nothing without a name.
void Remark(std::vector<std::string> names, std::string_view reason,
            std::vector<std::string>& remarks) {
  if (names.empty()) return;
  constexpr size_t kShown = 3;
  std::sort(names.begin(), names.end());
  std::string list;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    list += (i == 0 ? "" : ", ") + Quote(names[i], 80);
  remarks.push_back(fmt::format("{} tensor{} {}: {}{}", names.size(),
                                names.size() == 1 ? " is" : "s are", reason, list,
                                names.size() > kShown ? ", ..." : ""));
}

}  // namespace

void RemarkUnread(const gguf::Header& header, std::vector<std::string>& remarks) {
  const uint64_t bytes = header.unread_bytes();
  if (bytes == 0) return;
  remarks.push_back(fmt::format("{} byte{} behind the last tensor {} not read", bytes,
                                bytes == 1 ? "" : "s", bytes == 1 ? "is" : "are"));
}

void RemarkUnneeded(std::vector<std::string> names, std::vector<std::string>& remarks) {
  Remark(std::move(names), "not needed and not read", remarks);
}

void RemarkUnnamed(std::vector<std::string> names, std::vector<std::string>& remarks) {
  Remark(std::move(names), "not named by model.safetensors.index.json and not read", remarks);
}

}  // namespace tutti::model
