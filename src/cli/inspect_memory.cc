#include "cli/inspect_memory.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <utility>

#include "app/draft_plan.h"
#include "app/model_loader.h"
#include "app/model_plan.h"
#include "app/settings.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "kernels/kernels.h"
#include "model/decoder.h"
#include "model/decoder_checkpoint.h"
#include "model/kv_dtype.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"
#include "wire/json.h"

namespace tutti::cli {
namespace {

constexpr const char* kMemorySchema = "tutti.inspect.memory.v1";

struct MemoryFacts {
  size_t weights = 0;   // packed
  size_t kv_pool = 0;   // --kv-cache-bytes, in whole blocks
  size_t kv_token = 0;  // of one token in all layers
  std::string_view kv_dtype;
  size_t draft = 0;  // weights, as in the file, and KV memory of the model that proposes tokens
  // Row N09: with the program itself, scratch, and the packing of the largest tensors.
  size_t peak() const {
    return weights + weights / 5 + kv_pool + draft + draft / 5 + (size_t{64} << 20);
  }
};

Result<MemoryFacts> Measure(const app::ModelRef& ref) {
  app::Settings::Inputs inputs;
  inputs.environment = app::TuttiEnvironment();
  ASSIGN_OR_RETURN(const app::Settings settings, app::Settings::Resolve(inputs));
  ASSIGN_OR_RETURN(const kernels::KernelTable* const table, app::KernelsFromSettings(settings));
  ASSIGN_OR_RETURN(const model::DecoderCheckpoint checkpoint,
                   model::DecoderCheckpoint::FromFiles(model::ModelFiles::At(ref.path)));
  model::LoadOptions load{.threads = app::ThreadsFromSettings(settings)};
  load.mode = app::WeightModeOf(app::DTypeOf(settings, ref, checkpoint));
  load.bf16_pairs = table->gemm.bf16_pairs;
  RETURN_IF_ERROR(model::Weights::CheckPacked(checkpoint, load.mode));
  ASSIGN_OR_RETURN(const auto weights, model::Weights::Load(checkpoint, load));
  const model::KvDtype dtype = app::KvDtypeFromSettings(settings);
  const size_t block =
      model::Decoder::KvBlockBytes(weights->config(), weights->mode(), *table, dtype);
  MemoryFacts facts;
  facts.weights = weights->bytes();
  facts.kv_pool = static_cast<size_t>(settings.Int("kv-cache-bytes")) / block * block;
  facts.kv_token = block / kBlockTokens;
  facts.kv_dtype = model::KvFormatName(model::KvFormatOf(dtype, weights->mode(), *table));
  ASSIGN_OR_RETURN(const app::Speculate how, app::SpeculateFromSettings(settings));
  if (how == app::Speculate::kDraft) {
    tokenizer::TokenizerSpec tokens = checkpoint.tokenizer;
    ASSIGN_OR_RETURN(const auto tokenizer, tokenizer::Tokenizer::Create(std::move(tokens)));
    const int64_t context = settings.OptionalInt("context").value_or(app::kDefaultContextCap);
    ASSIGN_OR_RETURN(
        const app::DraftPlan plan,
        app::DraftPlan::Open(settings, {.tokenizer = tokenizer.get(),
                                        .kernels = table,
                                        .context = std::min(static_cast<int>(context),
                                                            weights->config().context_length),
                                        .lanes = static_cast<int>(settings.Int("lanes"))}));
    facts.draft = plan.file_bytes() + plan.kv_bytes();
  }
  return facts;
}

double MiB(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

int InspectMemory(const app::ModelRef& ref, bool json) {
  const Result<MemoryFacts> facts = Measure(ref);
  if (!facts.ok()) return Fail(facts.status());
  if (json) {
    std::printf("%s\n",
                wire::PrintJson(boost::json::object{{"schema", kMemorySchema},
                                                    {"weights_bytes", facts->weights},
                                                    {"kv_pool_bytes", facts->kv_pool},
                                                    {"kv_token_bytes", facts->kv_token},
                                                    {"kv_dtype", facts->kv_dtype},
                                                    {"kv_tokens", facts->kv_pool / facts->kv_token},
                                                    {"draft_bytes", facts->draft},
                                                    {"peak_bytes", facts->peak()}})
                    .c_str());
    return kExitOk;
  }
  std::printf("weights   %9.1f MiB, packed\n", MiB(facts->weights));
  std::printf("KV cache  %9.1f MiB, %zu tokens of %zu bytes in %s (--kv-cache-bytes, --kv-dtype)\n",
              MiB(facts->kv_pool), facts->kv_pool / facts->kv_token, facts->kv_token,
              std::string(facts->kv_dtype).c_str());
  if (facts->draft > 0)
    std::printf("draft     %9.1f MiB, weights and KV cache (TUTTI_DRAFT)\n", MiB(facts->draft));
  std::printf("at most   %9.1f MiB while it loads and serves: 1.2 x weights + cache + 64 MiB\n",
              MiB(facts->peak()));
  return kExitOk;
}

}  // namespace tutti::cli
