#include "protocol/encoding/input_blame.h"

#include <charconv>
#include <utility>

namespace tutti::protocol {

std::optional<size_t> BlamedInput(std::string_view param) {
  constexpr std::string_view kOne = "input[";
  if (!param.starts_with(kOne)) return std::nullopt;
  param.remove_prefix(kOne.size());
  size_t index = 0;
  const auto [end, fault] = std::from_chars(param.data(), param.data() + param.size(), index);
  if (fault != std::errc() || std::string_view(end, param.data() + param.size()) != "]")
    return std::nullopt;
  return index;
}

Status BlameList(const std::string& list, Status status) {
  if (status.param() == "input") return std::move(status).WithParam(list);
  const std::optional<size_t> index = BlamedInput(status.param());
  if (!index.has_value()) return status;
  return std::move(status).WithParam(list + "[" + std::to_string(*index) + "]");
}

}  // namespace tutti::protocol
