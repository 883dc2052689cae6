// ModelFiles: what lies at a path that is said to be a model's. Asked once and in one place, so
// that all commands agree on it.
//
// A value; any thread. Looks at a folder's config.json, at a file's first bytes and at a GGUF's
// header: no weight is read, and nothing is promised of what it did not look at. The files are not
// trusted.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "gguf/file.h"

namespace tutti::model {

struct ModelFiles {
  enum class Form {
    kFolder,  // as transformers writes it, whatever is in it
    kPacked,  // by its first bytes
    kGguf,    // every other file: it is one, or there is a fault
  };
  enum class Holds {
    kDecoder,  // what generates text, or a GGUF that is no encoder's, its tensors missing or not
    kEncoder,  // a GGUF of a known encoder, or a folder of anything that generates no text
    kNothing,  // that can be told: `fault` says why
  };

  std::string path;
  Form form = Form::kGguf;
  Holds holds = Holds::kNothing;
  // Of kNothing. Errors: model_not_found, also of a folder without config.json; model_path;
  // model_hparam for a config.json that cannot be read; gguf_*.
  Status fault;
  std::shared_ptr<const gguf::File> gguf;  // of a GGUF without fault, else nullptr

  static ModelFiles At(const std::string& path);
};

}  // namespace tutti::model
