#include "model/folder_text.h"

#include <utility>

#include "files/source.h"
#include "model/json_file.h"

namespace tutti::model {

Result<std::optional<std::string>> ReadIfThere(const files::Folder& folder, const std::string& name,
                                               uint64_t limit) {
  auto source = folder.OpenSource(name, "model_hparam");
  if (!source.ok() && source.status().reason() == "model_not_found")
    return std::optional<std::string>();
  if (!source.ok()) return std::move(source).status().WithContext(name);
  auto text = files::ReadAll(**source, limit, "model_hparam");
  if (!text.ok()) return std::move(text).status().WithContext(name);
  return std::optional<std::string>(*std::move(text));
}

Result<std::string> ReadOrEmpty(const files::Folder& folder, const std::string& name) {
  ASSIGN_OR_RETURN(std::optional<std::string> text,
                   ReadIfThere(folder, name, MaxConfigBytes(name)));
  return std::move(text).value_or("");
}

}  // namespace tutti::model
