// `tutti pack`: a model's weights as they lie in memory, so that a start only reads them.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "app/loading/model_registry.h"
#include "base/cpus.h"
#include "base/quote.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "cli/model_source.h"
#include "cli/number_option.h"
#include "gguf/file.h"
#include "model/encoder_gguf.h"
#include "model/pack_model.h"
#include "packed/file.h"
#include "quantize/output_file.h"
#include "tensor/type_spelling.h"

namespace tutti::cli {
namespace {

std::optional<model::WeightMode> ModeNamed(std::string_view name) {
  for (const model::WeightMode mode : {model::WeightMode::kInt8, model::WeightMode::kF32,
                                       model::WeightMode::kF16, model::WeightMode::kBf16}) {
    if (packed::ArithmeticName(model::ArithmeticOf(mode)) == name) return mode;
  }
  return std::nullopt;
}

class PackCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("pack", "Write a model as it lies in memory, for quick starts");
    app_->footer(
        "OUT is served like any model file, by this version of tutti and others of the same\n"
        "layout; keep MODEL, from which it is packed again for another. Its weights are in the\n"
        "types that MODEL has: `tutti quantize` first for fewer bits.\n"
        "Examples:\n"
        "  tutti pack model-q4_k_m.gguf model.tutti\n"
        "  tutti pack folder-of-safetensors model.tutti\n"
        "  tutti pack model.gguf model-f16.tutti --dtype f16   for `tutti serve --dtype f16`\n"
        "  tutti serve model.tutti\n"
        "  tutti inspect model.tutti                           whether it is sound");
    app_->add_option("MODEL", in_, "a .gguf file, a model's folder or a known model")
        ->check(ModelName())
        ->required();
    app_->add_option("OUT", out_, "the file to write")->required();
    app_->add_option("--dtype", dtype_, "what it is computed in, as of `tutti serve` (int8)")
        ->transform(CLI::IsMember({"int8", "bf16", "f16", "f32"}, tensor::CommonSpelling));
    app_->add_flag("--force", force_, "replace OUT where it is there");
    AddNumber(*app_, "--threads", threads_, 1, 1024,
              "that pack (default: the cores this process may use)");
  }

  int Run() override {
    const auto begin = std::chrono::steady_clock::now();
    const Result<uint64_t> bytes = Write();
    if (!bytes.ok()) return Fail(bytes.status());
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    std::printf("%s: %.1f MiB, packed for --dtype %s, %.1f s\n", out_.c_str(),
                static_cast<double>(*bytes) / (1 << 20), dtype_.c_str(), spent.count());
    return kExitOk;
  }

 private:
  Result<uint64_t> Write() const {
    ASSIGN_OR_RETURN(const auto file, OpenInput());
    model::LoadOptions options;
    options.mode = *ModeNamed(dtype_);
    options.threads = threads_ > 0 ? threads_ : UsableCores();
    Result<model::PackedModel> packed = model::PackModel(*file, options);
    if (!packed.ok()) return std::move(packed).status().WithContext(Quote(in_, 255));
    const model::PackedModel model = *std::move(packed);
    ASSIGN_OR_RETURN(quantize::OutputFile out,
                     quantize::OutputFile::Create(out_, force_, model.file_bytes()));
    RETURN_IF_ERROR(out.Append(model.front));
    RETURN_IF_ERROR(out.Append({model.weights->data(), model.weights->bytes()}));
    RETURN_IF_ERROR(out.Keep());
    return out.bytes();
  }

  Result<std::shared_ptr<const gguf::File>> OpenInput() const {
    ASSIGN_OR_RETURN(const app::ModelRef ref, app::ResolveModel(in_));
    if (!ref.dtype.empty() && ref.dtype != dtype_) {
      return InvalidArgument("invalid_value",
                             "MODEL:" + ref.dtype + " is packed with --dtype " + ref.dtype);
    }
    constexpr std::string_view kNotEncoders = "encoders are not packed";
    ASSIGN_OR_RETURN(auto file, OpenSource(ref, in_, out_, kNotEncoders));
    if (model::HoldsEncoder(file->header())) {
      return InvalidArgument(
          "model_path", fmt::format("{} generates no text; {}", Quote(in_, 255), kNotEncoders));
    }
    // Before the weights are packed for nothing.
    std::error_code error;
    if (!force_ && std::filesystem::exists(out_, error)) {
      return InvalidArgument("output_exists",
                             Quote(out_, 255) + " already exists; use --force to replace it");
    }
    return file;
  }

  std::string in_, out_, dtype_ = "int8";
  bool force_ = false;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakePackCommand() { return std::make_unique<PackCommand>(); }

}  // namespace tutti::cli
