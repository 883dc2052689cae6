// ModelFiles: detects the kind of model at a path. The one place that does, so that all commands
// agree.
//
// A value; any thread. It reads a folder's config.json, a file's first bytes and a GGUF's header,
// but no weights: the rest of the model may still be faulty. The files are not trusted.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "gguf/file.h"

namespace tutti::model {

struct ModelFiles {
  enum class Form {
    kFolder,  // a folder, as transformers writes it; its contents are not checked
    kPacked,  // by its first bytes
    kGguf,    // every other file: it is one, or there is a fault
  };
  enum class Holds {
    kDecoder,  // what generates text, or a GGUF that is no encoder's, its tensors missing or not
    kEncoder,  // a GGUF of a known encoder, or a folder of anything that generates no text
    kNothing,  // unknown; `fault` is the reason
  };

  std::string path;
  Form form = Form::kGguf;
  Holds holds = Holds::kNothing;
  // Why `holds` is kNothing; else OK. Errors: model_not_found, also for a folder without
  // config.json; model_path; model_hparam for a config.json that cannot be read; gguf_*.
  Status fault;
  std::shared_ptr<const gguf::File> gguf;  // of a GGUF without fault, else nullptr

  static ModelFiles At(const std::string& path);
};

}  // namespace tutti::model
