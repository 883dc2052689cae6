// TextConfig: the part of a config.json that describes the text decoder: the whole file, or the
// text_config of a model that reads images or audio too.
//
// Plain values; any thread. The file is not trusted.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "model/families/family.h"
#include "model/json_file.h"

namespace tutti::model {

struct TextConfig {
  const Family* family = nullptr;
  // Checked by CheckConfigKeys (config_parameters.h). Keys that are absent have the defaults of
  // transformers' class: files of models with several parts leave out what is the default.
  JsonFile keys;
  bool wrapped = false;  // it is the text_config of another model

  // Errors: model_hparam.
  static Result<TextConfig> Read(const JsonFile& config, std::vector<std::string>& remarks);
};

// The family of the text that the model reads and writes; nullptr where none is known. Looks at
// names alone.
const Family* FamilyOfConfig(const JsonFile& config);

}  // namespace tutti::model
