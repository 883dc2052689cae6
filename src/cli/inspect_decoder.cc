#include "cli/inspect_decoder.h"

#include <boost/json.hpp>
#include <cstdio>
#include <utility>

#include "cli/exit_status.h"
#include "cli/inspect_text.h"
#include "cli/remarks.h"
#include "kernels/kernels.h"
#include "model/decoder.h"
#include "model/decoder_checkpoint.h"
#include "model/weights.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"
#include "wire/json.h"

namespace tutti::cli {
namespace {

constexpr const char* kDecoderSchema = "tutti.inspect.decoder.v1";

struct DecoderFacts {
  std::string architecture, type, type_text, digest;
  std::string packed_for;  // of a packed checkpoint: its arithmetic
  int layers = 0, width = 0, vocabulary = 0, context = 0, experts = 0;
  uint64_t parameters = 0;
  size_t bytes = 0;           // packed
  size_t kv_token_bytes = 0;  // of the cache, of one token
  std::vector<std::string> remarks;
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
  ASSIGN_OR_RETURN(const kernels::KernelTable* const table, kernels::SelectKernels());
  const model::ModelConfig& config = checkpoint.config;
  DecoderFacts facts;
  facts.architecture = config.architecture;
  facts.type = checkpoint.TypeName();
  facts.type_text = TypeText(checkpoint);
  facts.digest = checkpoint.digest;
  facts.remarks = std::move(checkpoint.remarks);
  for (std::string& remark : tokenizer->Remarks()) facts.remarks.push_back(std::move(remark));
  facts.text = TextFacts(*tokenizer, checkpoint.generation);
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

}  // namespace

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
    }
    std::printf("%s\n", wire::PrintJson(body).c_str());
  } else if (facts.ok()) {
    std::printf("ok: %s, %llu parameters in %zu MiB as %s, %zu bytes of KV cache per token\n",
                facts->architecture.c_str(), static_cast<unsigned long long>(facts->parameters),
                facts->bytes >> 20, facts->type_text.c_str(), facts->kv_token_bytes);
    PrintRemarks(facts->remarks);
    if (!facts->packed_for.empty())
      std::printf("packed for %s: a start reads the weights as they are\n",
                  facts->packed_for.c_str());
    PrintTextFacts(facts->text);
    std::printf("%d layers of %d, %d tokens, context %d\ndigest %s\n\nverdict: ok\n", facts->layers,
                facts->width, facts->vocabulary, facts->context, facts->digest.c_str());
  }
  return facts.ok() ? kExitOk : Fail(Status(facts.status()).WithContext(files.path));
}

}  // namespace tutti::cli
