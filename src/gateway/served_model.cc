#include "gateway/served_model.h"

#include <algorithm>

namespace tutti::gateway {

bool ServedModel::Answers(std::string_view name) const {
  return name == info.id ||
         std::find(info.aliases.begin(), info.aliases.end(), name) != info.aliases.end();
}

}  // namespace tutti::gateway
