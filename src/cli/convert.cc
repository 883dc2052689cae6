// Commands that make another file of a model. `tutti quantize`: a model file in another form, and
// what became of each tensor. `tutti pack`: its weights as they lie in memory, so that a start only
// reads them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "app/loading/model_registry.h"
#include "base/quote.h"
#include "base/threads.h"
#include "cli/command_line.h"
#include "cli/number_option.h"
#include "cli/report.h"
#include "gguf/file.h"
#include "model/config.h"
#include "model/encoder_checkpoint.h"
#include "model/encoder_gguf.h"
#include "model/folder_gguf.h"
#include "model/model_files.h"
#include "model/pack_model.h"
#include "packed/file.h"
#include "quantize/output_file.h"
#include "quantize/requantize.h"
#include "tensor/dtype.h"

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

// A GGUF as it is, a folder as the one that would be made of it. `name`: what the user wrote;
// `out`: the file to be written, which must not be this one; `encoders`: what to do with an
// encoder's folder instead. A GGUF may hold an encoder. Errors: output_path, model_path, and those
// of gguf::File::Open and model::OpenFolderAsGguf under the name.
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

using Clock = std::chrono::steady_clock;

std::string Extents(const tensor::Shape& shape) {
  std::string text;
  for (int i = 0; i < shape.dims; ++i) {
    text += (i > 0 ? "x" : "") + std::to_string(shape.ne[static_cast<size_t>(i)]);
  }
  return text;
}

double MiB(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// The file against one of 32 bits for each parameter.
double OfFloat(const quantize::RequantizeReport& report) {
  return report.parameters == 0 ? 0
                                : static_cast<double>(report.bytes_after) /
                                      (4.0 * static_cast<double>(report.parameters));
}

// How far it is, on standard error: a line that renews itself at a terminal, elsewhere one every
// ten seconds.
class ProgressLine {
 public:
  bool operator()(uint64_t done, uint64_t total) {
    const Clock::time_point now = Clock::now();
    const auto pause = terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10);
    if (now - last_ < pause) return true;
    last_ = now;
    const double percent = 100.0 * static_cast<double>(done) / static_cast<double>(total);
    std::fprintf(stderr, terminal_ ? "\r%5.1f %%" : "tutti: %.1f %%\n", percent);
    shown_ = true;
    return true;
  }
  void End() const {
    if (shown_ && terminal_) std::fputs("\r        \r", stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  Clock::time_point last_ = Clock::now();
  bool shown_ = false;
};

std::string TypesHelp() {
  std::string text = "Types, by bits per weight:\n";
  for (const quantize::FileType& type : quantize::FileTypes()) {
    text += fmt::format("  {:<7} {}\n", type.name, type.summary);
  }
  return text;
}

class QuantizeCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("quantize", "Write a model in fewer bits, or in more");
    app_->footer(
        TypesHelp() +
        "Each tensor's form is reported, and why where it is not the type's. A file that is\n"
        "quantised already can be quantised again, but what it lost stays lost.\n"
        "Examples:\n"
        "  tutti quantize model-f16.gguf model-q8_0.gguf --type Q8_0\n"
        "  tutti quantize model-f16.gguf model-q4_k_m.gguf --type Q4_K_M --json report.json\n"
        "  tutti quantize model-f16.gguf model-q4_0.gguf --type Q4_0 --dry-run   sizes alone\n"
        "  tutti quantize folder-of-safetensors model-bf16.gguf --type BF16      as a GGUF");
    app_->add_option("IN", in_, "a .gguf file, a model's folder or a known model")
        ->check(ModelName())
        ->required();
    app_->add_option("OUT", out_, "the file to write")->required();
    app_->add_option("--type", type_, "the form of its matrices: Q8_0, Q4_K_M, ...")->required();
    app_->add_flag("--force", force_, "replace OUT where it is there");
    app_->add_flag("--dry-run", dry_run_, "write nothing: report forms and sizes");
    AddNumber(*app_, "--threads", threads_, 1, 1024,
              "that quantise (default: the cores this process may use)");
    app_->add_option("--json", json_, "write the report to this file; - is standard output")
        ->type_name("FILE");
  }

  int Run() override {
    const auto type = quantize::FileTypeByName(type_);
    if (!type) {
      return FailConfig(
          InvalidArgument("invalid_value", fmt::format("--type is {}; it must be one of {}",
                                                       Quote(type_), quantize::FileTypeNames())));
    }
    const Clock::time_point begin = Clock::now();
    const Status opened = OpenInput();
    if (!opened.ok()) return Fail(opened);
    if (const Status warned = Warn(*type); !warned.ok()) return Fail(warned);
    const Result<quantize::RequantizeReport> report = Write(*type);
    if (!report.ok()) return Fail(report.status());
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (json_ != "-") PrintTable(*report, seconds);
    return WriteJson(*report, seconds);
  }

 private:
  Status OpenInput() {
    ASSIGN_OR_RETURN(const app::ModelRef ref, app::ResolveModel(in_));
    if (!ref.dtype.empty()) {
      return InvalidArgument(
          "invalid_value",
          "IN:" + ref.dtype + " says what a model is served in; what is written is --type");
    }
    ASSIGN_OR_RETURN(file_,
                     OpenSource(ref, in_, out_, "encoders are quantised at load: --dtype int8"));
    return CheckReportFile(json_, {ref.path, out_});
  }

  // Warns, one line each, about results that the user may not intend, such as a second loss or a
  // larger file. Errors: those of the plan.
  Status Warn(const quantize::FileType& type) const {
    ASSIGN_OR_RETURN(const quantize::RequantizeReport plan, quantize::PlanRequantize(*file_, type));
    const auto again = std::find_if(plan.tensors.begin(), plan.tensors.end(),
                                    [](const quantize::TensorOutcome& tensor) {
                                      const tensor::DType from = tensor.plan.from->dtype();
                                      return tensor::IsQuantized(from) && from != tensor.plan.to;
                                    });
    // A key more in the metadata is no growth.
    const bool larger = plan.bytes_after > plan.bytes_before + plan.bytes_before / 100;
    if (again != plan.tensors.end()) {
      std::fprintf(stderr,
                   "tutti: warning: %s is quantised already (%s): what it lost stays lost%s; take "
                   "a file of floats (F16, BF16, F32) where there is one\n",
                   Quote(in_, 255).c_str(),
                   std::string(tensor::Name(again->plan.from->dtype())).c_str(),
                   larger ? fmt::format(", and {:.1f} MiB become {:.1f}", MiB(plan.bytes_before),
                                        MiB(plan.bytes_after))
                                .c_str()
                          : "");
    } else if (larger && !plan.tensors.empty()) {
      std::fprintf(stderr, "tutti: warning: %s grows from %.1f to %.1f MiB and gains nothing\n",
                   Quote(in_, 255).c_str(), MiB(plan.bytes_before), MiB(plan.bytes_after));
    }
    const bool encoder = model::HoldsEncoder(file_->header());
    const Status served = encoder ? OkStatus() : model::ReadModelConfig(*file_).status();
    if (!served.ok() && !plan.tensors.empty()) {
      std::fprintf(stderr,
                   "tutti: warning: what is written will not be served by tutti, as %s is not: "
                   "%s\n",
                   Quote(in_, 255).c_str(), served.message().c_str());
    }
    return OkStatus();
  }

  Result<quantize::RequantizeReport> Write(const quantize::FileType& type) {
    if (dry_run_) return quantize::PlanRequantize(*file_, type);
    ProgressLine line;
    quantize::RequantizeOptions options;
    options.threads = threads_ > 0 ? threads_ : UsableCores();
    options.replace = force_;
    options.progress = [&line](uint64_t done, uint64_t total) { return line(done, total); };
    Result<quantize::RequantizeReport> report = quantize::Requantize(*file_, type, out_, options);
    line.End();
    if (!report.ok() && !report.status().reason().starts_with("output_") &&
        report.status().reason() != "storage_full")
      return std::move(report).status().WithContext(Quote(in_, 255));
    return report;
  }

  void PrintTable(const quantize::RequantizeReport& report, double seconds) const {
    std::vector<std::vector<std::string>> rows = {
        {"TENSOR", "SHAPE", "FROM", "TO", "MiB", "ERROR", "WHY"}};
    std::map<std::string, std::pair<int, uint64_t>> forms;
    for (const quantize::TensorOutcome& tensor : report.tensors) {
      const quantize::TensorPlan& plan = tensor.plan;
      const std::string to(tensor::Name(plan.to));
      rows.push_back({Quote(plan.from->name), Extents(plan.from->shape),
                      std::string(tensor::Name(plan.from->dtype())), to,
                      fmt::format("{:.2f}", MiB(plan.bytes)),
                      dry_run_ ? "-" : fmt::format("{:.5f}", tensor.relative_error), plan.reason});
      rows.back()[0] = rows.back()[0].substr(1, rows.back()[0].size() - 2);
      forms[to].first += 1;
      forms[to].second += plan.bytes;
    }
    std::fputs(TextTable(rows).c_str(), stdout);
    std::string made;
    for (const auto& [form, sum] : forms) {
      made += fmt::format("{}{} {} ({:.1f} MiB)", made.empty() ? "" : ", ", sum.first, form,
                          MiB(sum.second));
    }
    std::printf("\n%zu tensors: %s\n", report.tensors.size(), made.c_str());
    if (report.fell_back > 0) {
      std::printf("%d fell back to another form for their width\n", report.fell_back);
    }
    std::printf("%.1f MiB -> %.1f MiB (%.3f x float32)%s, %.1f s\n", MiB(report.bytes_before),
                MiB(report.bytes_after), OfFloat(report), dry_run_ ? ", nothing written" : "",
                seconds);
  }

  int WriteJson(const quantize::RequantizeReport& report, double seconds) const {
    boost::json::array tensors;
    for (const quantize::TensorOutcome& tensor : report.tensors) {
      const quantize::TensorPlan& plan = tensor.plan;
      boost::json::array shape;
      for (int i = 0; i < plan.from->shape.dims; ++i) {
        shape.push_back(plan.from->shape.ne[static_cast<size_t>(i)]);
      }
      boost::json::object row{{"name", plan.from->name},
                              {"shape", std::move(shape)},
                              {"from", tensor::Name(plan.from->dtype())},
                              {"to", tensor::Name(plan.to)},
                              {"wanted", tensor::Name(plan.wanted)},
                              {"fell_back", plan.fell_back},
                              {"bytes", plan.bytes}};
      if (!plan.reason.empty()) row["reason"] = plan.reason;
      if (!dry_run_) row["relative_error"] = tensor.relative_error;
      tensors.push_back(std::move(row));
    }
    const boost::json::object out{{"schema", "tutti.quantize.v1"},
                                  {"input", in_},
                                  {"output", out_},
                                  {"type", report.type.name},
                                  {"written", !dry_run_},
                                  {"parameters", report.parameters},
                                  {"bytes_before", report.bytes_before},
                                  {"bytes_after", report.bytes_after},
                                  {"of_float32", OfFloat(report)},
                                  {"fell_back", report.fell_back},
                                  {"seconds", seconds},
                                  {"tensors", std::move(tensors)}};
    const Status written = WriteReportFile(json_, out);
    return written.ok() ? kExitOk : Fail(written);
  }

  std::string in_, out_, type_, json_;
  bool force_ = false, dry_run_ = false;
  int threads_ = 0;
  std::shared_ptr<const gguf::File> file_;
};

}  // namespace

std::unique_ptr<Command> MakePackCommand() { return std::make_unique<PackCommand>(); }

std::unique_ptr<Command> MakeQuantizeCommand() { return std::make_unique<QuantizeCommand>(); }

}  // namespace tutti::cli
