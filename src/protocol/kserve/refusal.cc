#include "protocol/kserve/refusal.h"

#include <utility>

#include "protocol/json/utf8.h"

namespace tutti::kserve {

Status Bad(std::string message) { return InvalidArgument("invalid_value", std::move(message)); }

std::string Quoted(std::string_view client_text) {
  return "'" + protocol::Excerpt(client_text) + "'";
}

}  // namespace tutti::kserve
