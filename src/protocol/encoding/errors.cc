#include "protocol/encoding/errors.h"

#include <utility>

#include "api/validate.h"
#include "base/ascii.h"

namespace tutti::protocol {

std::optional<size_t> BlamedInput(std::string_view param) {
  constexpr std::string_view kOne = "input[";
  if (!param.starts_with(kOne) || !param.ends_with(']')) return std::nullopt;
  param.remove_prefix(kOne.size());
  param.remove_suffix(1);
  return ParseNumber<size_t>(param);
}

Status BlameList(const std::string& list, Status status) {
  if (status.param() == "input") return std::move(status).WithParam(list);
  const std::optional<size_t> index = BlamedInput(status.param());
  if (!index.has_value()) return status;
  return std::move(status).WithParam(ElementPath(list, *index));
}

Status RanksNothing(const std::string& model) {
  return BadValue("model",
                  "model " + model + " ranks nothing: it is no cross-encoder with one label");
}

}  // namespace tutti::protocol
