#include "cli/inspect_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/config/settings.h"
#include "app/loading/draft_plan.h"
#include "app/loading/model_loader.h"
#include "app/loading/model_plan.h"
#include "base/quote.h"
#include "base/threads.h"
#include "chat_template/tool_syntax.h"
#include "cli/command_line.h"
#include "kernels/kernels.h"
#include "model/decoder.h"
#include "model/decoder_checkpoint.h"
#include "model/encoder_checkpoint.h"
#include "model/encoder_choice.h"
#include "model/weights.h"
#include "protocol/json/json.h"
#include "tensor/dtype.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tutti::cli {
namespace {

std::string_view KindName(tokenizer::ModelKind kind) {
  switch (kind) {
    case tokenizer::ModelKind::kByteBpe:
      return "byte-level BPE";
    case tokenizer::ModelKind::kCharacterBpe:
      return "BPE over characters";
    case tokenizer::ModelKind::kSentencePiece:
      return "SentencePiece BPE";
    case tokenizer::ModelKind::kWordPiece:
      return "WordPiece";
    case tokenizer::ModelKind::kUnigram:
      return "unigram";
  }
  return "";
}

std::string TemplateText(const std::string& source) {
  if (source.empty()) return "none: the model continues text, and a chat request is refused";
  const auto compiled = tokenizer::ChatTemplate::Compile(source, {});
  if (!compiled.ok()) return "cannot be used: " + compiled.status().message();
  std::string text = fmt::format("{} bytes", source.size());
  text += fmt::format(", tool calls as {}", chat_template::DetectToolSyntax(*compiled).name);
  for (const char* option : {"enable_thinking", "thinking", "reasoning_effort"})
    if (compiled->AcceptsExtra(option)) text += fmt::format(", option {}", option);
  return text;
}

// The marks in the order of a prompt.
std::string InfillText(const tokenizer::Vocabulary& vocabulary) {
  if (!vocabulary.infill().has_value()) return "no";
  const tokenizer::InfillTokens& tokens = *vocabulary.infill();
  const auto shown = [&](TokenId id) { return Quote(vocabulary.Text(id), 40); };
  std::string text = "yes, " + shown(tokens.suffix_first ? tokens.suffix : tokens.prefix) + " " +
                     shown(tokens.suffix_first ? tokens.prefix : tokens.suffix);
  if (tokens.middle != kNoToken) text += " " + shown(tokens.middle);
  return text;
}

std::string EndsText(const tokenizer::Vocabulary& vocabulary) {
  constexpr size_t kShown = 8;
  const auto& ends = vocabulary.eog_tokens();
  std::string text;
  for (size_t i = 0; i < ends.size() && i < kShown; ++i)
    text += fmt::format("{}{} {}", i > 0 ? ", " : "", ends[i], Quote(vocabulary.Text(ends[i]), 40));
  if (ends.size() > kShown) text += fmt::format(" and {} more", ends.size() - kShown);
  return text.empty() ? "none: answers end at their limit" : text;
}

constexpr const char* kDecoderSchema = "tutti.inspect.decoder.v1";

struct DecoderFacts {
  std::string architecture, type, type_text, digest;
  std::string packed_for;  // of a packed checkpoint: its arithmetic
  int layers = 0, width = 0, vocabulary = 0, context = 0, experts = 0;
  uint64_t parameters = 0;
  size_t bytes = 0;           // packed
  size_t kv_token_bytes = 0;  // of the cache, of one token
  std::vector<std::string> remarks, notes;
  std::vector<std::pair<std::string, std::string>> text;
};

// Everything that loading looks at.
Result<DecoderFacts> CheckDecoder(const model::ModelFiles& files) {
  ASSIGN_OR_RETURN(model::DecoderCheckpoint checkpoint, model::DecoderCheckpoint::FromFiles(files));
  ASSIGN_OR_RETURN(const auto tokenizer,
                   tokenizer::Tokenizer::Create(std::move(checkpoint.tokenizer)));
  if (!tokenizer->chat_template().empty())
    RETURN_IF_ERROR(tokenizer::ChatTemplate::Compile(tokenizer->chat_template(), {}).status());
  model::LoadOptions load;
  if (checkpoint.packed != nullptr)
    load.mode = model::ModeOf(checkpoint.packed->preamble().arithmetic);
  ASSIGN_OR_RETURN(const auto weights, model::Weights::Load(checkpoint, load));
  ASSIGN_OR_RETURN(std::string digest, checkpoint.Digest());
  ASSIGN_OR_RETURN(const kernels::KernelTable* const table, kernels::SelectKernels());
  const model::ModelConfig& config = checkpoint.config;
  DecoderFacts facts;
  facts.architecture = config.architecture;
  facts.type = checkpoint.TypeName();
  facts.type_text = TypeText(checkpoint);
  facts.digest = std::move(digest);
  facts.remarks = std::move(checkpoint.remarks);
  facts.notes = std::move(checkpoint.notes);
  for (std::string& remark : tokenizer->Remarks()) facts.remarks.push_back(std::move(remark));
  facts.text = TextFacts(*tokenizer, checkpoint.generation);
  if (checkpoint.encodes()) {
    ASSIGN_OR_RETURN(facts.text, VectorFacts(checkpoint, *tokenizer, tokenizer->chat_template()));
  }
  facts.layers = config.layers;
  facts.width = config.width;
  facts.vocabulary = config.vocab_size;
  facts.context = config.context_length;
  facts.experts = config.experts;
  for (const model::StoredTensor& tensor : checkpoint.tensors->tensors())
    facts.parameters += static_cast<uint64_t>(tensor.shape.elements());
  facts.bytes = weights->bytes();
  if (checkpoint.packed != nullptr)
    facts.packed_for = packed::ArithmeticName(checkpoint.packed->preamble().arithmetic);
  facts.kv_token_bytes = model::Decoder::KvBlockBytes(config, load.mode, *table) / kBlockTokens;
  return facts;
}

struct Inspection {
  model::EncoderCheckpoint checkpoint;
  model::EncoderChoice choice;
  std::string digest;
};

// Everything that loading looks at: structure, meaning, and that the numbers are numbers.
Result<Inspection> Inspect(const model::ModelFiles& files,
                           std::optional<model::EncoderDType> dtype) {
  Inspection found;
  ASSIGN_OR_RETURN(found.checkpoint, model::EncoderCheckpoint::FromFiles(files));
  ASSIGN_OR_RETURN(const kernels::KernelTable* const table, kernels::SelectKernels());
  ASSIGN_OR_RETURN(found.choice, model::ChooseEncoderWeights(
                                     found.checkpoint.config, *found.checkpoint.tensors,
                                     *found.checkpoint.tokenizer,
                                     {.dtype = dtype, .kernels = table, .threads = UsableCores()}));
  ASSIGN_OR_RETURN(found.digest, found.checkpoint.Digest());
  return found;
}

uint64_t Parameters(const model::TensorStore& tensors) {
  uint64_t sum = 0;
  for (const model::StoredTensor& tensor : tensors.tensors())
    sum += static_cast<uint64_t>(tensor.shape.elements());
  return sum;
}

// "name: value" lines of what decides a vector.
std::vector<std::pair<std::string, std::string>> Facts(const Inspection& found) {
  const model::EncoderConfig& config = found.checkpoint.config;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"architecture", config.architecture},
      {"layers", std::to_string(config.layers)},
      {"width", std::to_string(config.width)},
      {"heads", std::to_string(config.heads)},
      {"feed forward", std::to_string(config.feed_forward)},
      {"vocabulary", std::to_string(config.vocab_size)},
      {"tokens a text", std::to_string(config.max_tokens)},
  };
  if (config.labels.empty()) {
    facts.emplace_back("pooling", config.pooling_name());
    facts.emplace_back("normalised", config.normalize ? "yes" : "no");
  } else {
    std::string labels;
    for (const std::string& label : config.labels)
      labels += (labels.empty() ? "" : ", ") + Quote(label);
    facts.emplace_back("labels", labels);
    facts.emplace_back("scores through", model::ScoreActivationName(config.activation));
  }
  for (const auto& [name, text] : config.prompts)
    facts.emplace_back("prompt " + Quote(name), Quote(text));
  if (config.default_prompt) facts.emplace_back("default prompt", Quote(*config.default_prompt));
  facts.emplace_back("dtype", found.choice.ToString());
  facts.emplace_back("digest", found.digest);
  return facts;
}

// Slowest dimension first, as the files have it.
std::vector<int64_t> Dimensions(const tensor::Shape& shape) {
  std::vector<int64_t> dims(shape.ne.begin(), shape.ne.begin() + shape.dims);
  std::reverse(dims.begin(), dims.end());
  return dims;
}

void PrintText(const Inspection& found) {
  const model::EncoderConfig& config = found.checkpoint.config;
  const model::TensorStore& tensors = *found.checkpoint.tensors;
  std::printf("ok: %s, %llu parameters, %zu MiB as %s, %s of %d\n", config.architecture.c_str(),
              static_cast<unsigned long long>(Parameters(tensors)),
              found.choice.weights->bytes() >> 20, found.choice.ToString().c_str(),
              config.labels.empty() ? "vectors" : "scores",
              !config.labels.empty() ? static_cast<int>(config.labels.size())
              : config.per_token     ? config.token_width()
                                     : config.vector_width());
  PrintRemarks(found.checkpoint.remarks);
  for (const auto& [name, value] : Facts(found))
    std::printf("%-24s %s\n", name.c_str(), value.c_str());
  std::printf("\n");
  for (const model::StoredTensor& tensor : tensors.tensors()) {
    std::printf("%-56s %-6s %-16s %12zu bytes\n", Quote(tensor.name, 128).c_str(),
                std::string(tensor::Name(tensor.dtype)).c_str(),
                ShapeText(Dimensions(tensor.shape)).c_str(), tensor.bytes);
  }
  std::printf("\nverdict: ok\n");
}

boost::json::object ToJson(const Inspection& found) {
  boost::json::object facts;
  for (const auto& [name, value] : Facts(found)) facts[name] = value;
  boost::json::array list;
  for (const model::StoredTensor& tensor : found.checkpoint.tensors->tensors()) {
    list.push_back({{"name", tensor.name},
                    {"type", std::string(tensor::Name(tensor.dtype))},
                    {"shape", boost::json::value_from(Dimensions(tensor.shape))},
                    {"bytes", tensor.bytes}});
  }
  return {{"schema", "tutti.inspect.encoder.v1"},
          {"verdict", "ok"},
          {"parameters", Parameters(*found.checkpoint.tensors)},
          {"dtype", model::EncoderDTypeName(found.choice.dtype())},
          {"cosine", found.choice.cosine ? boost::json::value(*found.choice.cosine)
                                         : boost::json::value(nullptr)},
          {"remarks", boost::json::value_from(found.checkpoint.remarks)},
          {"facts", std::move(facts)},
          {"tensors", std::move(list)}};
}

constexpr const char* kMemorySchema = "tutti.inspect.memory.v1";

struct MemoryFacts {
  size_t weights = 0;    // packed
  size_t kv_pool = 0;    // --kv-cache-bytes less the states, in whole blocks
  size_t kv_tokens = 0;  // that it holds
  size_t kv_token = 0;   // of one token in all layers that keep it
  // Where layers with a window have blocks of their own: the part of `kv_pool` that these take, and
  // the bytes that one sequence holds there while it decodes.
  size_t windows = 0, window = 0;
  int state_slots = 0;  // slots of recurrent states, within --kv-cache-bytes
  size_t state = 0;     // bytes of one slot
  std::string_view kv_dtype;
  int context = 0, max_num_seqs = 0;       // of one sequence; sequences that run together
  std::string notice;                      // of a context that was lowered, or few windows
  size_t draft_weights = 0, draft_kv = 0;  // of the draft model
  // Bytes of one sequence at the context, without its state.
  size_t sequence() const { return kv_token * static_cast<size_t>(context) + window; }
  size_t together() const { return sequence() * static_cast<size_t>(max_num_seqs); }
  size_t states() const { return static_cast<size_t>(state_slots) * state; }
  size_t draft() const { return draft_weights + draft_kv; }
  // Row N09: with the program itself, scratch, and the packing of the largest tensors.
  size_t peak() const {
    const size_t held = weights + draft_weights;
    return held + held / 5 + kv_pool + states() + draft_kv + (size_t{64} << 20);
  }
};

Result<MemoryFacts> Measure(const app::ModelRef& ref, const app::Settings& settings) {
  ASSIGN_OR_RETURN(const kernels::KernelTable* const table, app::KernelsFromSettings(settings));
  const auto in_file = [&](Status status) { return std::move(status).WithContext(ref.path); };
  const auto no_text = [&] {
    return in_file(InvalidArgument("invalid_value",
                                   "the model gives embeddings or scores alone; --memory describes "
                                   "encoders and other decoders"));
  };
  const model::ModelFiles files = model::ModelFiles::At(ref.path);
  auto opened = model::DecoderCheckpoint::FromFiles(files);
  if (!opened.ok()) return in_file(std::move(opened).status());
  const model::DecoderCheckpoint& checkpoint = *opened;
  if (checkpoint.encodes()) return no_text();
  const model::WeightMode mode = app::WeightModeOf(app::DTypeOf(settings, ref, checkpoint));
  auto planned = model::Weights::Plan(checkpoint, app::LoadOptionsFor(mode, *table));
  if (!planned.ok()) return in_file(std::move(planned).status());
  const std::shared_ptr<const model::Weights> weights = *std::move(planned);
  const model::KvDtype dtype = app::KvDtypeFromSettings(settings);
  const app::SequenceMemoryNeeds needs =
      app::NeedsOf(settings, weights->config(), weights->mode(), *table);
  ASSIGN_OR_RETURN(const app::SequenceMemorySizes sizes, app::SizeSequenceMemory(settings, needs));
  size_t block = needs.block_bytes;
  MemoryFacts facts;
  if (sizes.window_blocks > 0) {
    block -= needs.window_block_bytes;
    facts.windows = static_cast<size_t>(sizes.window_blocks) * needs.window_block_bytes;
    facts.window = static_cast<size_t>(sizes.sequence_window_bytes);
  }
  facts.weights = weights->bytes();
  facts.state = needs.state_bytes;
  facts.state_slots = sizes.state_slots;
  facts.kv_pool = static_cast<size_t>(sizes.kv_bytes);
  facts.kv_tokens = static_cast<size_t>(sizes.kv_blocks) * kBlockTokens;
  facts.kv_token = block / kBlockTokens;
  facts.kv_dtype = model::KvFormatName(model::KvFormatOf(dtype, weights->mode(), *table));
  facts.max_num_seqs = static_cast<int>(settings.Int("max-num-seqs"));
  ASSIGN_OR_RETURN(facts.context,
                   app::ChooseContext(settings, weights->config(), sizes, facts.notice));
  if (!sizes.notice.empty()) facts.notice += (facts.notice.empty() ? "" : "; ") + sizes.notice;
  ASSIGN_OR_RETURN(const app::Speculate how, app::SpeculateFromSettings(settings));
  if (how == app::Speculate::kDraft) {
    tokenizer::TokenizerSpec tokens = checkpoint.tokenizer;
    ASSIGN_OR_RETURN(const auto tokenizer, tokenizer::Tokenizer::Create(std::move(tokens)));
    ASSIGN_OR_RETURN(const app::DraftPlan plan,
                     app::DraftPlan::Open(settings, {.tokenizer = tokenizer.get(),
                                                     .kernels = table,
                                                     .context = facts.context,
                                                     .max_num_seqs = facts.max_num_seqs}));
    facts.draft_weights = plan.weight_bytes();
    facts.draft_kv = plan.kv_bytes();
  }
  return facts;
}

double InMiB(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

constexpr const char* kEncoderMemorySchema = "tutti.inspect.encoder_memory.v1";

int InspectEncoderMemory(const app::ModelRef& ref, const app::Settings& settings,
                         const model::ModelFiles& files, bool json) {
  const Result<app::EncoderMemory> found = app::MeasureEncoder(ref, settings, files);
  if (!found.ok()) return Fail(Status(found.status()).WithContext(ref.path));
  if (json) {
    std::printf("%s\n",
                protocol::PrintJson(boost::json::object{{"schema", kEncoderMemorySchema},
                                                        {"dtype", found->dtype},
                                                        {"weights_bytes", found->weights},
                                                        {"activations_bytes", found->activations},
                                                        {"batch_items", found->batch_items},
                                                        {"batch_tokens", found->batch_tokens},
                                                        {"threads", found->threads}})
                    .c_str());
    return kExitOk;
  }
  std::printf("weights      %9.1f MiB as %s\n", InMiB(found->weights), found->dtype.c_str());
  std::printf("activations  %9.1f MiB, for batches of %d texts and %d tokens on %d thread%s\n",
              InMiB(found->activations), found->batch_items, found->batch_tokens, found->threads,
              found->threads == 1 ? "" : "s");
  return kExitOk;
}

}  // namespace

std::string ShapeText(const std::vector<int64_t>& dims) {
  std::string text;
  for (const int64_t dim : dims) text += (text.empty() ? "" : " x ") + std::to_string(dim);
  return text;
}

void PrintRemarks(const std::vector<std::string>& remarks) {
  for (const std::string& remark : remarks) std::printf("warning: %s\n", Printable(remark).c_str());
}

std::vector<std::pair<std::string, std::string>> TextFacts(
    const tokenizer::Tokenizer& tokenizer, const model::GenerationDefaults& generation) {
  const tokenizer::Vocabulary& vocabulary = tokenizer.vocabulary();
  const std::string pre = vocabulary.pre().empty() ? "" : ", split as " + Quote(vocabulary.pre());
  std::string sampling = generation.empty() ? "the file has no defaults" : generation.Text();
  if (!generation.source.empty()) sampling += " (" + generation.source + ")";
  return {{"tokenizer",
           fmt::format("{}, {} tokens{}", KindName(vocabulary.kind()), vocabulary.size(), pre)},
          {"chat_template", TemplateText(tokenizer.chat_template())},
          {"ends", EndsText(vocabulary)},
          {"fill_in_the_middle", InfillText(vocabulary)},
          {"sampling", std::move(sampling)}};
}

Result<std::vector<std::pair<std::string, std::string>>> VectorFacts(
    const model::DecoderCheckpoint& checkpoint, const tokenizer::Tokenizer& tokenizer,
    const std::string& chat_template) {
  RETURN_IF_ERROR(checkpoint.vectors.status());
  if (checkpoint.head.scores() && !model::RendersPairs(chat_template))
    return model::PairTemplateFault();
  const model::VectorModules& modules = *checkpoint.vectors;
  auto facts = TextFacts(tokenizer, {});
  std::erase_if(facts, [](const auto& fact) { return fact.first != "tokenizer"; });
  facts.emplace_back("gives", VectorText(modules, checkpoint.config.width) +
                                  (modules.normalize ? ", of length 1" : ""));
  for (const auto& [name, text] : modules.prompts)
    facts.emplace_back("prompt " + Quote(name), Quote(text));
  if (modules.default_prompt) facts.emplace_back("default_prompt", Quote(*modules.default_prompt));
  return facts;
}

void PrintTextFacts(const std::vector<std::pair<std::string, std::string>>& facts) {
  for (const auto& [name, value] : facts) {
    std::string label = name;
    for (char& c : label) c = c == '_' ? ' ' : c;
    std::printf("%-19s %s\n", (label + ":").c_str(), value.c_str());
  }
}

std::string TypeText(const model::DecoderCheckpoint& checkpoint) {
  const std::string name = checkpoint.TypeName(), shares = checkpoint.TypeShares();
  return name == shares ? name : name + " (" + shares + ")";
}

int InspectDecoder(const model::ModelFiles& files, bool json) {
  const Result<DecoderFacts> facts = CheckDecoder(files);
  const std::string verdict =
      facts.ok() ? "ok" : facts.status().reason() + ": " + facts.status().message();
  if (json) {
    boost::json::object body = {{"schema", kDecoderSchema}, {"verdict", verdict}};
    if (facts.ok()) {
      body["architecture"] = facts->architecture;
      body["type"] = facts->type;
      body["digest"] = facts->digest;
      body["layers"] = facts->layers;
      body["width"] = facts->width;
      body["vocabulary"] = facts->vocabulary;
      body["context"] = facts->context;
      body["experts"] = facts->experts;
      body["parameters"] = facts->parameters;
      body["packed_bytes"] = facts->bytes;
      if (!facts->packed_for.empty()) body["packed_for"] = facts->packed_for;
      body["kv_token_bytes"] = facts->kv_token_bytes;
      for (const auto& [name, value] : facts->text) body[name] = value;
      body["remarks"] = boost::json::value_from(facts->remarks);
      body["notes"] = boost::json::value_from(facts->notes);
    }
    std::printf("%s\n", protocol::PrintJson(body).c_str());
  } else if (facts.ok()) {
    std::printf("ok: %s, %llu parameters in %zu MiB as %s, %zu bytes of KV cache per token\n",
                facts->architecture.c_str(), static_cast<unsigned long long>(facts->parameters),
                facts->bytes >> 20, facts->type_text.c_str(), facts->kv_token_bytes);
    PrintRemarks(facts->remarks);
    for (const std::string& note : facts->notes) std::printf("note: %s\n", Printable(note).c_str());
    if (!facts->packed_for.empty())
      std::printf("packed for %s: a start reads the weights as they are\n",
                  facts->packed_for.c_str());
    PrintTextFacts(facts->text);
    std::printf("%d layers of %d, %d tokens, context %d\ndigest %s\n\nverdict: ok\n", facts->layers,
                facts->width, facts->vocabulary, facts->context, facts->digest.c_str());
  }
  return facts.ok() ? kExitOk : Fail(Status(facts.status()).WithContext(files.path));
}

int InspectEncoder(const model::ModelFiles& files, std::optional<model::EncoderDType> dtype,
                   bool json) {
  const Result<Inspection> found = Inspect(files, dtype);
  if (!found.ok()) {
    const std::string verdict = found.status().reason() + ": " + found.status().message();
    if (json) {
      std::printf("%s\n",
                  protocol::PrintJson(boost::json::object{{"schema", "tutti.inspect.encoder.v1"},
                                                          {"verdict", verdict}})
                      .c_str());
    }
    return Fail(std::move(found).status().WithContext(files.path));
  }
  if (json) {
    std::printf("%s\n", protocol::PrintJson(ToJson(*found)).c_str());
  } else {
    PrintText(*found);
  }
  return kExitOk;
}

int InspectMemory(const app::ModelRef& ref, const app::Settings& settings, bool json) {
  if (const auto files = model::ModelFiles::At(ref.path);
      files.holds == model::ModelFiles::Holds::kEncoder)
    return InspectEncoderMemory(ref, settings, files, json);
  const Result<MemoryFacts> facts = Measure(ref, settings);
  if (!facts.ok()) return Fail(facts.status());
  if (json) {
    std::printf("%s\n", protocol::PrintJson(
                            boost::json::object{{"schema", kMemorySchema},
                                                {"weights_bytes", facts->weights},
                                                {"kv_pool_bytes", facts->kv_pool},
                                                {"kv_token_bytes", facts->kv_token},
                                                {"kv_dtype", facts->kv_dtype},
                                                {"kv_tokens", facts->kv_tokens},
                                                {"window_bytes", facts->windows},
                                                {"sequence_window_bytes", facts->window},
                                                {"sequence_bytes", facts->sequence()},
                                                {"context", facts->context},
                                                {"max_num_seqs", facts->max_num_seqs},
                                                {"lanes", facts->max_num_seqs},  // older name
                                                {"state_slots", facts->state_slots},
                                                {"state_bytes", facts->state},
                                                {"draft_bytes", facts->draft()},
                                                {"peak_bytes", facts->peak()}})
                            .c_str());
    return kExitOk;
  }
  if (!facts->notice.empty()) std::fprintf(stderr, "tutti: %s\n", facts->notice.c_str());
  std::printf("weights   %9.1f MiB, packed\n", InMiB(facts->weights));
  std::printf("KV cache  %9.1f MiB, %zu tokens of %zu bytes in %s (--kv-cache-bytes, --kv-dtype)\n",
              InMiB(facts->kv_pool), facts->kv_tokens, facts->kv_token,
              std::string(facts->kv_dtype).c_str());
  if (facts->windows > 0) {
    std::printf(
        "          %9.1f MiB of it for layers with a window, of which a sequence holds %.1f MiB\n",
        InMiB(facts->windows), InMiB(facts->window));
  }
  std::printf("          %9.1f MiB of it for one sequence at the context of %d tokens\n",
              InMiB(facts->sequence()), facts->context);
  // Sequences that do not fit together wait or restart; they use no more memory.
  std::printf("          %9.1f MiB of it, were all %d sequences at the context of %d tokens%s\n",
              InMiB(facts->together()), facts->max_num_seqs, facts->context,
              facts->together() > facts->kv_pool ? ": more than it holds" : "");
  if (facts->state_slots > 0) {
    std::printf("states    %9.1f MiB, %d of %zu bytes: of sequences, and checkpoints\n",
                InMiB(facts->states()), facts->state_slots, facts->state);
  }
  if (facts->draft() > 0)
    std::printf("draft     %9.1f MiB, weights and KV cache (--draft)\n", InMiB(facts->draft()));
  std::printf("at most   %9.1f MiB while it loads and serves: 1.2 x weights + cache + 64 MiB\n",
              InMiB(facts->peak()));
  return kExitOk;
}

}  // namespace tutti::cli
