#include "cli/model_source.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/quote.h"
#include "model/encoder_checkpoint.h"
#include "model/folder_gguf.h"
#include "model/model_files.h"

namespace tutti::cli {
namespace {

// The error for a folder without a decoder: what is missing, or what is not supported. `encoders`:
// the advice if the folder holds a supported encoder.
Status NoDecoder(const model::ModelFiles& files, const std::string& folder,
                 std::string_view encoders) {
  if (files.fault.reason() == "model_not_found")
    return InvalidArgument("model_path", folder + ": " + files.fault.message());
  const Status encoder = model::EncoderCheckpoint::FromFiles(files).status();
  return InvalidArgument("model_path", encoder.ok()
                                           ? folder + " generates no text; " + std::string(encoders)
                                           : folder + ": " + encoder.message());
}

}  // namespace

Result<std::shared_ptr<const gguf::File>> OpenSource(const app::ModelRef& ref,
                                                     const std::string& name,
                                                     const std::string& out,
                                                     std::string_view encoders) {
  using model::ModelFiles;
  const std::string quoted = Quote(name, 255);
  std::error_code error;
  if (std::filesystem::equivalent(ref.path, out, error)) {
    return InvalidArgument("output_path", quoted + " and the file to be written are the same file");
  }
  const ModelFiles files = ModelFiles::At(ref.path);
  switch (files.form) {
    case ModelFiles::Form::kPacked:
      return InvalidArgument("model_path",
                             quoted + " is packed already: name the model it was made of");
    case ModelFiles::Form::kGguf:
      if (!files.fault.ok()) return Status(files.fault).WithContext(quoted);
      return files.gguf;
    case ModelFiles::Form::kFolder:
      break;
  }
  if (files.holds != ModelFiles::Holds::kDecoder) return NoDecoder(files, quoted, encoders);
  auto file = model::OpenFolderAsGguf(ref.path);
  if (!file.ok()) return std::move(file).status().WithContext(quoted);
  return file;
}

}  // namespace tutti::cli
