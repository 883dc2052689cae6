// `tutti inspect`: metadata and tensor table of a GGUF that generates, with a verdict. The reports
// about encoders, and about folders and packed files of decoders, are in inspect_report.h.
#include <boost/json.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/loading/model_registry.h"
#include "cli/command_line.h"
#include "cli/inspect_report.h"
#include "gguf/describe.h"
#include "gguf/file.h"
#include "kernels/kernels.h"
#include "kernels/pack.h"
#include "model/decoder.h"
#include "model/encoder_choice.h"
#include "model/model_files.h"
#include "model/tokenizer_metadata.h"
#include "model/weights.h"
#include "protocol/json/json.h"
#include "tensor/dtype.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tutti::cli {
namespace {

// The format that weights of type `name` are converted to for computing, and the loss by this
// conversion; nothing if the conversion is exact.
std::optional<std::pair<std::string, std::string>> PackedFormOf(const std::string& name) {
  for (uint32_t id = 0; const tensor::DTypeInfo* info = tensor::FindTypeInfo(id); ++id) {
    if (info->name != name || !info->readable) continue;
    const tensor::DType type = *tensor::ReadableType(id);
    const std::string_view loss = kernels::PackingLoss(type);
    if (loss.empty()) return std::nullopt;
    return std::pair(std::string(kernels::WeightFormatName(kernels::NativeFormat(type))),
                     std::string(loss));
  }
  return std::nullopt;
}

std::string ComputedAs(const std::string& type) {
  const auto packed = PackedFormOf(type);
  return packed ? ", computed as " + packed->first + ": " + packed->second : "";
}

// Checks beyond the container format: whether tokenizer, template and hyper-parameters are
// consistent.
struct Meaning {
  std::vector<std::string> remarks;
  std::vector<std::pair<std::string, std::string>> text;  // TextFacts or VectorFacts
  std::string digest;                                     // empty without weights
};
Result<Meaning> CheckMeaning(const model::ModelFiles& files) {
  RETURN_IF_ERROR(files.fault);
  const auto& file = files.gguf;
  ASSIGN_OR_RETURN(tokenizer::TokenizerSpec spec, model::ReadTokenizerSpec(file->header()));
  ASSIGN_OR_RETURN(const auto tokenizer, tokenizer::Tokenizer::Create(std::move(spec)));
  if (!tokenizer->chat_template().empty()) {
    RETURN_IF_ERROR(tokenizer::ChatTemplate::Compile(tokenizer->chat_template(), {}).status());
  }
  Meaning meaning;
  meaning.remarks = tokenizer->Remarks();
  meaning.text = TextFacts(*tokenizer, {});
  if (file->tensors().empty()) return meaning;  // a vocabulary: nothing to run
  ASSIGN_OR_RETURN(model::DecoderCheckpoint checkpoint, model::DecoderCheckpoint::FromGguf(file));
  RETURN_IF_ERROR(model::Weights::Load(checkpoint, {}).status());
  if (checkpoint.encodes()) {
    ASSIGN_OR_RETURN(meaning.text,
                     VectorFacts(checkpoint, *tokenizer, checkpoint.tokenizer.chat_template));
  } else {
    meaning.text = TextFacts(*tokenizer, checkpoint.generation);
  }
  ASSIGN_OR_RETURN(meaning.digest, checkpoint.Digest());
  for (std::string& remark : checkpoint.remarks) meaning.remarks.push_back(std::move(remark));
  return meaning;
}

// "ok: llama, 134515008 parameters in 92 MiB as Q4_1, 12240 bytes of KV cache per token".
std::string Summary(const gguf::File& file, const gguf::Description& description) {
  uint64_t bytes = 0;
  for (const gguf::TypeTotal& type : description.types) bytes += type.bytes;
  std::string text = "ok";
  if (description.tensors.empty()) return text + ": a vocabulary without weights";
  const auto checkpoint = model::DecoderCheckpoint::FromGguf(file);
  const auto kernels = kernels::SelectKernels();
  if (!checkpoint.ok() || !kernels.ok()) return text;
  const model::ModelConfig& config = checkpoint->config;
  const size_t kv =
      model::Decoder::KvBlockBytes(config, model::WeightMode::kInt8, **kernels) / kBlockTokens;
  return text + ": " + config.architecture + ", " + std::to_string(description.parameters) +
         " parameters in " + std::to_string(bytes >> 20) + " MiB as " + TypeText(*checkpoint) +
         ", " + std::to_string(kv) + " bytes of KV cache per token";
}

class InspectCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("inspect", "Describe and check a model file");
    app_->footer(
        "Exit status 1 and a line with the fault's code on standard error if anything is wrong.\n"
        "Examples:\n"
        "  tutti inspect model.gguf\n"
        "  tutti inspect all-minilm-l6-v2       which arithmetic it is served in, and why\n"
        "  tutti inspect all-minilm-l6-v2:bf16\n"
        "  tutti inspect model.gguf --json | python3 -m json.tool\n"
        "  tutti inspect model.gguf --memory    weights, KV cache, and the most that is used\n"
        "  tutti inspect model.gguf --memory --context 4096 --kv-dtype fp16 --kv-cache-bytes 4GiB");
    app_->add_option("FILE", file_, "a .gguf or packed file, a model's folder or a known model")
        ->check(ModelName())
        ->required();
    app_->add_flag("--json", json_, "one JSON object");
    CLI::Option* const memory = app_->add_flag(
        "--memory", memory_, "memory for serving the model, instead of the description");
    options_.AddOnly(*app_, {"dtype", "kv-dtype", "kv-cache-bytes", "context", "max-num-seqs",
                             "prefill-chunk", "speculate", "draft", "threads", "isa"});
    options_.NeedBeside(*memory);
  }

  int Run() override {
    const Result<app::ModelRef> ref = app::ResolveModel(file_);
    if (!ref.ok()) return Fail(ref.status());
    if (memory_) {
      const Result<app::Settings> settings = options_.Resolve();
      if (!settings.ok()) return FailConfig(settings.status());
      return InspectMemory(*ref, *settings, json_);
    }
    const model::ModelFiles files = model::ModelFiles::At(ref->path);
    const bool folder = files.form == model::ModelFiles::Form::kFolder;
    // An empty folder gets the error of an encoder's folder.
    if (files.holds == model::ModelFiles::Holds::kEncoder || (folder && !files.fault.ok())) {
      std::optional<model::EncoderDType> dtype;
      if (!ref->dtype.empty()) {
        Result<model::EncoderDType> parsed = model::ParseEncoderDType(ref->dtype);
        if (!parsed.ok()) return FailConfig(parsed.status());
        dtype = *parsed;
      }
      return InspectEncoder(files, dtype, json_);
    }
    if (!ref->dtype.empty()) {
      return FailConfig(InvalidArgument(
          "invalid_value", "MODEL:" + ref->dtype +
                               " applies only to encoders and --memory; a generating model's "
                               "description is independent of dtype; omit it"));
    }
    if (files.form != model::ModelFiles::Form::kGguf) return InspectDecoder(files, json_);
    gguf::Description description = gguf::Describe(ref->path);
    Meaning meaning;
    if (description.verdict.ok()) {
      Result<Meaning> found = CheckMeaning(files);
      description.verdict = found.status();
      if (found.ok()) meaning = *std::move(found);
    }
    if (json_) {
      PrintAsJson(description, meaning);
    } else {
      // For a file that is not GGUF, only the error below is printed.
      if (description.verdict.ok()) std::printf("%s\n", Summary(*files.gguf, description).c_str());
      PrintRemarks(meaning.remarks);
      PrintTextFacts(meaning.text);
      if (!meaning.digest.empty()) std::printf("%-19s %s\n", "digest:", meaning.digest.c_str());
      if (description.version != 0) PrintText(description);
    }
    if (description.verdict.ok()) return kExitOk;
    std::fflush(stdout);  // the fault stands behind all of it, where both streams go to one file
    return Fail(std::move(description.verdict).WithContext(ref->path));
  }

 private:
  static std::string Verdict(const gguf::Description& d) {
    return d.verdict.ok() ? "ok" : d.verdict.reason() + ": " + d.verdict.message();
  }

  static void PrintText(const gguf::Description& d) {
    std::printf("GGUF version %u, %llu bytes, alignment %llu, %llu parameters\n\n", d.version,
                static_cast<unsigned long long>(d.file_bytes),
                static_cast<unsigned long long>(d.alignment),
                static_cast<unsigned long long>(d.parameters));
    for (const gguf::MetadataLine& line : d.metadata) {
      std::printf("%-44s %-18s %s\n", line.key.c_str(), line.type.c_str(), line.value.c_str());
    }
    std::printf("\n");
    for (const gguf::TensorLine& tensor : d.tensors) {
      std::printf("%-36s %-6s %-20s %12llu bytes\n", tensor.name.c_str(), tensor.type.c_str(),
                  ShapeText(tensor.shape).c_str(), static_cast<unsigned long long>(tensor.bytes));
    }
    std::printf("\n");
    for (const gguf::TypeTotal& type : d.types) {
      std::printf("%-7s %5llu tensors %14llu elements %14llu bytes%s\n", type.type.c_str(),
                  static_cast<unsigned long long>(type.tensors),
                  static_cast<unsigned long long>(type.elements),
                  static_cast<unsigned long long>(type.bytes), ComputedAs(type.type).c_str());
    }
    if (d.verdict.ok()) std::printf("\nverdict: ok\n");
  }

  static void PrintAsJson(const gguf::Description& d, const Meaning& meaning) {
    boost::json::array metadata, tensors;
    for (const gguf::MetadataLine& line : d.metadata) {
      metadata.push_back(
          {{"key", line.key}, {"type", line.type}, {"count", line.count}, {"value", line.value}});
    }
    for (const gguf::TensorLine& tensor : d.tensors) {
      tensors.push_back({{"name", tensor.name},
                         {"type", tensor.type},
                         {"shape", boost::json::value_from(tensor.shape)},
                         {"offset", tensor.file_offset},
                         {"bytes", tensor.bytes}});
    }
    boost::json::array types;
    for (const gguf::TypeTotal& type : d.types) {
      boost::json::object row{
          {"type", type.type}, {"tensors", type.tensors}, {"bytes", type.bytes}};
      if (const auto packed = PackedFormOf(type.type)) {
        row["computed_as"] = packed->first;
        row["loss"] = packed->second;
      }
      types.push_back(std::move(row));
    }
    boost::json::object out{{"schema", "tutti.inspect.v1"},
                            {"verdict", Verdict(d)},
                            {"version", d.version},
                            {"file_bytes", d.file_bytes},
                            {"alignment", d.alignment},
                            {"parameters", d.parameters},
                            {"file_type", d.file_type},
                            {"unread_bytes", d.unread_bytes},
                            {"remarks", boost::json::value_from(meaning.remarks)},
                            {"metadata", std::move(metadata)},
                            {"types", std::move(types)},
                            {"tensors", std::move(tensors)}};
    if (!meaning.digest.empty()) out["digest"] = meaning.digest;
    for (const auto& [name, value] : meaning.text) out[name] = value;
    std::printf("%s\n", protocol::PrintJson(out).c_str());
  }

  SettingsOptions options_;
  std::string file_;
  bool json_ = false;
  bool memory_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeInspectCommand() { return std::make_unique<InspectCommand>(); }

}  // namespace tutti::cli
