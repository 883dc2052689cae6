// Checks the keys of a decoder's config.json: those that are read, those that are harmless, and
// those that would change the arithmetic. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "model/families/family.h"
#include "model/json_file.h"

namespace tutti::model {

// Every key is one of: read for `family`; known to change no logits; known from other models to
// change them, and then model_hparam names it unless its value switches it off; unknown, and then
// one remark names all of these.
Status CheckConfigKeys(const Family& family, const JsonFile& config,
                       std::vector<std::string>& remarks);

}  // namespace tutti::model
