#include "cli/inspect_memory.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "app/draft_plan.h"
#include "app/kv_memory.h"
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
  int context = 0, max_num_seqs = 0;       // of one sequence; sequences that run together
  std::string notice;                      // of a context that was lowered
  size_t draft_weights = 0, draft_kv = 0;  // of the model that proposes tokens
  size_t together() const {
    return kv_token * static_cast<size_t>(context) * static_cast<size_t>(max_num_seqs);
  }
  size_t draft() const { return draft_weights + draft_kv; }
  // Row N09: with the program itself, scratch, and the packing of the largest tensors.
  size_t peak() const {
    const size_t held = weights + draft_weights;
    return held + held / 5 + kv_pool + draft_kv + (size_t{64} << 20);
  }
};

Result<MemoryFacts> Measure(const app::ModelRef& ref, const app::Settings& settings) {
  ASSIGN_OR_RETURN(const kernels::KernelTable* const table, app::KernelsFromSettings(settings));
  const auto in_file = [&](Status status) { return std::move(status).WithContext(ref.path); };
  auto opened = model::DecoderCheckpoint::FromFiles(model::ModelFiles::At(ref.path));
  if (!opened.ok()) return in_file(std::move(opened).status());
  const model::DecoderCheckpoint& checkpoint = *opened;
  const model::WeightMode mode = app::WeightModeOf(app::DTypeOf(settings, ref, checkpoint));
  auto planned = model::Weights::Plan(checkpoint, app::LoadOptionsFor(mode, *table));
  if (!planned.ok()) return in_file(std::move(planned).status());
  const std::shared_ptr<const model::Weights> weights = *std::move(planned);
  const model::KvDtype dtype = app::KvDtypeFromSettings(settings);
  const size_t block =
      model::Decoder::KvBlockBytes(weights->config(), weights->mode(), *table, dtype);
  MemoryFacts facts;
  facts.weights = weights->bytes();
  facts.kv_pool = static_cast<size_t>(settings.Int("kv-cache-bytes")) / block * block;
  facts.kv_token = block / kBlockTokens;
  facts.kv_dtype = model::KvFormatName(model::KvFormatOf(dtype, weights->mode(), *table));
  facts.max_num_seqs = static_cast<int>(settings.Int("max-num-seqs"));
  ASSIGN_OR_RETURN(facts.context,
                   app::ChooseContext(settings, weights->config().context_length,
                                      static_cast<int64_t>(facts.kv_pool / facts.kv_token), block,
                                      facts.notice));
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

double MiB(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

int InspectMemory(const app::ModelRef& ref, const app::Settings& settings, bool json) {
  const Result<MemoryFacts> facts = Measure(ref, settings);
  if (!facts.ok()) return Fail(facts.status());
  if (json) {
    std::printf("%s\n",
                wire::PrintJson(boost::json::object{{"schema", kMemorySchema},
                                                    {"weights_bytes", facts->weights},
                                                    {"kv_pool_bytes", facts->kv_pool},
                                                    {"kv_token_bytes", facts->kv_token},
                                                    {"kv_dtype", facts->kv_dtype},
                                                    {"kv_tokens", facts->kv_pool / facts->kv_token},
                                                    {"context", facts->context},
                                                    {"max_num_seqs", facts->max_num_seqs},
                                                    {"lanes", facts->max_num_seqs},  // older
                                                    {"draft_bytes", facts->draft()},
                                                    {"peak_bytes", facts->peak()}})
                    .c_str());
    return kExitOk;
  }
  if (!facts->notice.empty()) std::fprintf(stderr, "tutti: %s\n", facts->notice.c_str());
  std::printf("weights   %9.1f MiB, packed\n", MiB(facts->weights));
  std::printf("KV cache  %9.1f MiB, %zu tokens of %zu bytes in %s (--kv-cache-bytes, --kv-dtype)\n",
              MiB(facts->kv_pool), facts->kv_pool / facts->kv_token, facts->kv_token,
              std::string(facts->kv_dtype).c_str());
  // Sequences that do not fit together wait, or begin again: nothing more is taken.
  std::printf("          %9.1f MiB of it, were all %d sequences at the context of %d tokens%s\n",
              MiB(facts->together()), facts->max_num_seqs, facts->context,
              facts->together() > facts->kv_pool ? ": more than it holds" : "");
  if (facts->draft() > 0)
    std::printf("draft     %9.1f MiB, weights and KV cache (--draft)\n", MiB(facts->draft()));
  std::printf("at most   %9.1f MiB while it loads and serves: 1.2 x weights + cache + 64 MiB\n",
              MiB(facts->peak()));
  return kExitOk;
}

}  // namespace tutti::cli
