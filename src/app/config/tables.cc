#include "app/config/tables.h"

#include <algorithm>
#include <vector>

#include "app/config/options.h"
#include "base/check.h"
#include "base/quote.h"

namespace tutti::app {
namespace {

const TableKey* FindTableKey(std::span<const TableKey> keys, std::string_view name) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const TableKey& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

}  // namespace

Status TableReader::CheckKeys() const {
  std::vector<std::string> known;
  for (const TableKey& key : keys_) known.emplace_back(key.name);
  for (const auto& [key, text] : fields_) {
    if (FindTableKey(keys_, key) != nullptr) continue;
    const std::string meant = Suggestion(key, known);
    return InvalidArgument("unknown_parameter",
                           "unknown key " + key.substr(0, 64) +
                               (meant.empty() ? "" : "; did you mean " + meant + "?"));
  }
  return OkStatus();
}

std::string TableReader::Text(std::string_view key) const {
  const auto found = fields_.find(std::string(key));
  if (found != fields_.end()) return found->second;
  const TableKey* const known = FindTableKey(keys_, key);
  CHECK(known != nullptr) << key;
  return known->fallback;
}

Result<bool> TableReader::Choice(std::string_view key, std::string_view yes,
                                 std::string_view no) const {
  const std::string text = Text(key);
  if (text == yes) return true;
  if (text == no) return false;
  return InvalidArgument(
      "invalid_value",
      std::string(key) + " must be " +
          (yes == "on" ? "true or false" : std::string(no) + " or " + std::string(yes)) + ", not " +
          Quote(text));
}

std::string TableTitle(std::string_view table, size_t number, const TableFields& fields) {
  const auto name = fields.find("name");
  return "[[" + std::string(table) + "]] " + std::to_string(number) +
         (name == fields.end() ? "" : " (" + Quote(name->second) + ")");
}

}  // namespace tutti::app
