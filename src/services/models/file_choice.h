// Which files of a repository make up a model: one GGUF (whole or split), or a folder of
// safetensors with its configuration and tokenizer. Used for a hub's list and for a snapshot in the
// cache.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "services/models/hub.h"

namespace tutti::models {

struct FileChoice {
  std::vector<HubFile> files;
  // The file to load, relative to the snapshot: of a split GGUF the first part. Empty: the folder.
  std::string entry;
  // Small files that other programs look for and that the repository does not have.
  std::vector<std::string> absent;
};

// `quant`: a GGUF's quantisation or another end of its name, in any case; empty: the folder if the
// repository has one, else the usual quantisation. An arithmetic (f32, bf16, ...) that no GGUF has
// in its name leaves the folder. `files` are sorted by path. Errors: quant_not_found, with what
// there is; model_ambiguous; model_incomplete for a split file of which parts are missing.
Result<FileChoice> ChooseFiles(const std::vector<HubFile>& files, std::string_view quant,
                               const std::string& repository);

// The models that the files hold, as their quants: "" for a folder of safetensors. Complete ones.
std::vector<std::string> QuantsOf(const std::vector<HubFile>& files);

}  // namespace tutti::models
