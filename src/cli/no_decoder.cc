#include "cli/no_decoder.h"

#include <filesystem>

#include "base/quote.h"
#include "model/encoder_checkpoint.h"

namespace tutti::cli {

Status NoDecoder(const std::string& path, const std::string& name, const std::string& of_encoders) {
  const std::string folder = Quote(name, 255);
  std::error_code ignored;
  if (!std::filesystem::exists(path + "/config.json", ignored)) {
    return InvalidArgument("model_path",
                           folder +
                               " has no config.json: a model's folder holds it beside "
                               "tokenizer.json and the files of safetensors");
  }
  const Status encoder = model::EncoderCheckpoint::Open(path).status();
  return InvalidArgument("model_path", folder + (encoder.ok() ? " generates no text; " + of_encoders
                                                              : ": " + encoder.message()));
}

}  // namespace tutti::cli
