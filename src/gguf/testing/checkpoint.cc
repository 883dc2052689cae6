#include "gguf/testing/checkpoint.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>
#include <numbers>

#include "base/check.h"
#include "base/random.h"

namespace tutti::gguf::testing {
namespace {

using tensor::DType;

constexpr std::string_view kChatTemplate =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";

// Merges in order of rank; each side is a byte symbol or made by an earlier line. \u0120 is the
// space.
constexpr std::string_view kMerges[] = {
    "\u0120 t",    "\u0120 a",  "h e",       "i n",       "r e",       "o n",        "\u0120t he",
    "e r",         "\u0120 s",  "a t",       "\u0120 w",  "\u0120 o",  "e n",        "\u0120 c",
    "i t",         "i s",       "a n",       "o r",       "e s",       "\u0120 b",   "e d",
    "\u0120 f",    "in g",      "\u0120 p",  "o u",       "\u0120a n", "a l",        "a r",
    "\u0120t o",   "\u0120 m",  "\u0120o f", "\u0120 in", "\u0120 d",  "\u0120 h",   "\u0120an d",
    "l l",         "\u0120 is", "i on",      "\u0120 l",  "o m",       "\u0120 n",   "\u0120w h",
    "v e",         "\u0120 I",  "H e",       "He ll",     "Hell o",    "\u0120w or", "\u0120wor l",
    "\u0120worl d"};

void AppendUtf8(uint32_t code, std::string* out) {  // below U+0800
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else {
    *out += static_cast<char>(0xC0 | (code >> 6));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// The printable Latin-1 characters stand for themselves, all other bytes for U+0100 onwards.
std::vector<std::string> ByteSymbols() {
  std::vector<std::string> symbols;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    std::string symbol;
    AppendUtf8(itself ? byte : next++, &symbol);
    symbols.push_back(symbol);
  }
  return symbols;
}

uint64_t HashOf(const std::string& text) {  // FNV-1a
  uint64_t hash = 0xCBF29CE484222325ull;
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  return hash;
}

void AddHyperparameters(const CheckpointSpec& spec, Writer* writer) {
  writer->String("general.architecture", "llama")
      .String("general.name", "generated checkpoint")
      .U32("general.quantization_version", 2)
      .U32("llama.block_count", spec.layers)
      .U32("llama.context_length", spec.context)
      .U32("llama.embedding_length", spec.width)
      .U32("llama.feed_forward_length", spec.feed_forward)
      .U32("llama.attention.head_count", spec.heads)
      .U32("llama.attention.head_count_kv", spec.kv_heads)
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .U32("llama.rope.dimension_count", spec.head_width)
      .F32("llama.rope.freq_base", spec.rope_base);
  if (spec.head_width * spec.heads != spec.width) {
    writer->U32("llama.attention.key_length", spec.head_width)
        .U32("llama.attention.value_length", spec.head_width);
  }
  if (spec.rope == RopeScaling::kLinear) {
    writer->String("llama.rope.scaling.type", "linear").F32("llama.rope.scaling.factor", 4.0f);
  }
}

uint32_t AddVocabulary(const CheckpointSpec& spec, Writer* writer) {
  std::vector<std::string> tokens = CheckpointTokens();
  std::vector<int32_t> types(tokens.size(), 1);             // normal
  types[kEndOfText] = types[kImStart] = types[kImEnd] = 3;  // control
  while (tokens.size() < spec.vocabulary) {
    tokens.push_back(fmt::format("<|unused_{}|>", tokens.size()));
    types.push_back(5);  // unused
  }
  writer->U32("llama.vocab_size", static_cast<uint32_t>(tokens.size()))
      .String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", spec.pre_tokenizer)
      .Strings("tokenizer.ggml.tokens", tokens)
      .Int32s("tokenizer.ggml.token_type", types)
      .Strings("tokenizer.ggml.merges", CheckpointMerges())
      .U32("tokenizer.ggml.bos_token_id", kImStart)
      .U32("tokenizer.ggml.eos_token_id", kImEnd)
      .U32("tokenizer.ggml.unknown_token_id", kEndOfText)
      .U32("tokenizer.ggml.padding_token_id", kImEnd)
      .Bool("tokenizer.ggml.add_bos_token", spec.add_bos)
      .Bool("tokenizer.ggml.add_space_prefix", false)
      .String("tokenizer.chat_template", kChatTemplate);
  return static_cast<uint32_t>(tokens.size());
}

class TensorAdder {
 public:
  TensorAdder(const CheckpointSpec& spec, Writer* writer) : spec_(spec), writer_(writer) {}
  void Matrix(const std::string& name, uint32_t in, uint32_t out, DType type) {
    writer_->Tensor(name, type, {in, out},
                    CheckpointWeights(spec_.seed, name, uint64_t{in} * out, in));
  }
  void Norm(const std::string& name) {
    std::vector<float> weights = CheckpointWeights(spec_.seed, name, spec_.width, 100);
    for (float& weight : weights) weight += 1.0f;
    writer_->Tensor(name, DType::kF32, {spec_.width}, weights);
  }

 private:
  const CheckpointSpec& spec_;
  Writer* writer_;
};

void AddTensors(const CheckpointSpec& spec, uint32_t vocabulary, Writer* writer) {
  TensorAdder add(spec, writer);
  const DType embedding = spec.embedding_type.value_or(spec.type);
  const uint32_t q = spec.heads * spec.head_width;
  const uint32_t kv = spec.kv_heads * spec.head_width;
  add.Matrix("token_embd.weight", spec.width, vocabulary, embedding);
  if (!spec.tied) add.Matrix("output.weight", spec.width, vocabulary, embedding);
  add.Norm("output_norm.weight");
  if (spec.rope == RopeScaling::kLlama3) {
    writer->Tensor("rope_freqs.weight", DType::kF32, {spec.head_width / 2},
                   Llama3RopeFactors(spec.head_width, spec.rope_base));
  }
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    add.Norm(block + "attn_norm.weight");
    add.Matrix(block + "attn_q.weight", spec.width, q, spec.type);
    add.Matrix(block + "attn_k.weight", spec.width, kv, spec.type);
    add.Matrix(block + "attn_v.weight", spec.width, kv, spec.type);
    add.Matrix(block + "attn_output.weight", q, spec.width, spec.type);
    add.Norm(block + "ffn_norm.weight");
    add.Matrix(block + "ffn_gate.weight", spec.width, spec.feed_forward, spec.type);
    add.Matrix(block + "ffn_up.weight", spec.width, spec.feed_forward, spec.type);
    add.Matrix(block + "ffn_down.weight", spec.feed_forward, spec.width, spec.type);
  }
}

}  // namespace

Writer MakeCheckpoint(const CheckpointSpec& spec) {
  Writer writer;
  AddHyperparameters(spec, &writer);
  const uint32_t vocabulary = AddVocabulary(spec, &writer);
  if (spec.tensors) AddTensors(spec, vocabulary, &writer);
  return writer;
}

std::vector<float> CheckpointWeights(uint64_t seed, const std::string& name, uint64_t count,
                                     uint32_t fan_in) {
  const uint64_t stream = HashOf(name) ^ (seed * 0x9E3779B97F4A7C15ull);
  // A uniform on [-a, a] has the variance a * a / 3. Square roots are exact to the last bit
  // everywhere.
  const float bound = std::sqrt(3.0f / static_cast<float>(fan_in));
  std::vector<float> weights(static_cast<size_t>(count));
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(stream),
                                       static_cast<uint32_t>(stream >> 32)};
  for (size_t i = 0; i < weights.size(); i += 4) {
    const std::array<uint32_t, 4> draws = Philox4x32({static_cast<uint32_t>(i / 4), 0, 0, 0}, key);
    for (size_t j = 0; j < 4 && i + j < weights.size(); ++j) {
      const int32_t centred =
          static_cast<int32_t>(draws[j] >> 8) - (1 << 23);  // 24 bits fit a float
      weights[i + j] = static_cast<float>(centred) * 0x1p-23f * bound;
    }
  }
  return weights;
}

// Source: Llama 3.1's rope scaling: factor 8, low 1, high 4. The original context is 128 here, so
// that all three bands appear in heads of 64.
std::vector<float> Llama3RopeFactors(uint32_t head_width, float rope_base) {
  constexpr double kFactor = 8, kLow = 1, kHigh = 4, kOriginalContext = 128;
  std::vector<float> factors;
  for (uint32_t i = 0; i < head_width / 2; ++i) {
    const double frequency = std::pow(static_cast<double>(rope_base), -2.0 * i / head_width);
    const double turns = kOriginalContext * frequency / (2 * std::numbers::pi);
    double factor = kFactor;
    if (turns > kHigh) {
      factor = 1;
    } else if (turns >= kLow) {
      const double smooth = (turns - kLow) / (kHigh - kLow);
      factor = 1 / ((1 - smooth) / kFactor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

std::vector<std::string> CheckpointMerges() { return {std::begin(kMerges), std::end(kMerges)}; }

std::vector<std::string> CheckpointTokens() {
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  for (std::string& symbol : ByteSymbols()) tokens.push_back(std::move(symbol));
  for (const std::string& merge : CheckpointMerges()) {
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    tokens.push_back(joined);
  }
  return tokens;
}

}  // namespace tutti::gguf::testing
