#include "tokenizer/pre_tokenizer_names.h"

#include <algorithm>
#include <array>
#include <string>

#include "tokenizer/split_families.h"

namespace tutti::tokenizer {
namespace {

// Parts that several published expressions share.
#define TUTTI_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TUTTI_SPACES R"re(\s*[\r\n]+|\s+(?!\S)|\s+)re"
// Words by case: capitals, then small letters.
#define TUTTI_CAPITALS R"re([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])re"
#define TUTTI_SMALL R"re([\p{Ll}\p{Lm}\p{Lo}\p{M}])re"
#define TUTTI_BEFORE_WORD R"re([^\r\n\p{L}\p{N}]?)re"
#define TUTTI_CASED_WORDS(contractions)                                                 \
  TUTTI_BEFORE_WORD TUTTI_CAPITALS "*" TUTTI_SMALL "+" contractions                     \
                                   "|" TUTTI_BEFORE_WORD TUTTI_CAPITALS "+" TUTTI_SMALL \
                                   "*" contractions

constexpr std::string_view kTekken =
    TUTTI_CASED_WORDS("") R"re(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)re" TUTTI_SPACES;
constexpr std::string_view kGpt4o = TUTTI_CASED_WORDS(
    TUTTI_CONTRACTIONS "?") R"re(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)re" TUTTI_SPACES;
constexpr std::string_view kYoutuWords = TUTTI_CASED_WORDS(
    TUTTI_CONTRACTIONS "?") R"re(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)re" TUTTI_SPACES;
constexpr std::string_view kQwen35 = TUTTI_CONTRACTIONS
    R"re(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)re" TUTTI_SPACES;
constexpr std::string_view kDeepseek3Words =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)re" TUTTI_SPACES;
constexpr std::string_view kDeepseek3Ideographs = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr std::string_view kBloom = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+";
constexpr std::string_view kBailing =
    R"re('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)re";
constexpr std::string_view kSeedCoder = TUTTI_CONTRACTIONS
    R"re(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)re" TUTTI_SPACES;
constexpr std::string_view kTinyAyaDigits = R"re(\d{1,3}(?=(?:\d{3})*\b))re";
constexpr std::string_view kKimi =
    R"re([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)re" TUTTI_CONTRACTIONS
    R"re(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)re" TUTTI_CONTRACTIONS
    R"re(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)re" TUTTI_SPACES;
constexpr std::string_view kExaoneMoe = TUTTI_CONTRACTIONS
    R"re(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)re";
constexpr std::string_view kYoutuScripts =
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b"
    "\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-"
    "\u30ff]+";
constexpr std::string_view kMinicpm5Words = TUTTI_CONTRACTIONS
    R"re(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|)re" TUTTI_SPACES;

#undef TUTTI_CONTRACTIONS
#undef TUTTI_SPACES
#undef TUTTI_CASED_WORDS

// How a pre-tokenizer splits: by a family, or by its own expressions followed by the byte level.
struct Split {
  std::optional<SplitFamily> family;
  std::array<std::string_view, 3> expressions{};
};

constexpr Split Family(SplitFamily family) { return {.family = family, .expressions = {}}; }
constexpr Split Expressions(std::string_view first, std::string_view second = {},
                            std::string_view third = {}) {
  return {.family = std::nullopt, .expressions = {first, second, third}};
}

struct Row {
  std::string_view name;
  Split split;
  bool ignore_merges = false;
  bool add_bos = false;
  bool composes = false;  // NFC before the split
};

constexpr Split kGpt2Split = Family(SplitFamily::kGpt2);
constexpr Split kDigitsSplit = Family(SplitFamily::kDigitsGpt2);
constexpr Split kLlama3Split = Family(SplitFamily::kLlama3);
constexpr Split kQwen2Split = Family(SplitFamily::kQwen2);
constexpr Split kGpt4oSplit = Expressions(kGpt4o);
constexpr Split kDeepseek3Split =
    Expressions(R"re(\p{N}{1,3})re", kDeepseek3Ideographs, kDeepseek3Words);
constexpr Split kBloomSplit = Expressions(kBloom);
constexpr Split kBailingSplit = Expressions(kBailing);

// A converter writes the first of several equal names.
constexpr Row kRows[] = {
    {"gpt-2", kGpt2Split},
    {"mpt", kGpt2Split},
    {"phi-2", kGpt2Split},
    {"olmo", kGpt2Split},
    {"jais", kGpt2Split},
    {"trillion", kGpt2Split},
    {"exaone4", kGpt2Split},
    {"gigachat", kGpt2Split},
    {"mellum", kGpt2Split},
    {"a.x-4.0", kGpt2Split},
    {"granite-docling", kGpt2Split},
    {"jina-es", kGpt2Split},
    {"jina-de", kGpt2Split},
    {"jina-v1-en", kGpt2Split},
    {"jina-v2-es", kGpt2Split},
    {"jina-v2-de", kGpt2Split},
    {"jina-v2-code", kGpt2Split},
    {"roberta-bpe", kGpt2Split},
    {.name = "modern-bert", .split = kGpt2Split, .composes = true},
    {"smollm", kDigitsSplit},
    {"starcoder", kDigitsSplit},
    {"refact", kDigitsSplit},
    {"command-r", kDigitsSplit},
    {"codeshell", kDigitsSplit},
    {"exaone", kDigitsSplit},
    {"minerva-7b", kDigitsSplit},
    {"mellum2", kDigitsSplit},
    {.name = "llama-bpe", .split = kLlama3Split, .ignore_merges = true, .add_bos = true},
    {.name = "llama3", .split = kLlama3Split, .ignore_merges = true, .add_bos = true},
    {.name = "llama-v3", .split = kLlama3Split, .ignore_merges = true, .add_bos = true},
    {.name = "falcon3", .split = kLlama3Split, .ignore_merges = true, .add_bos = true},
    {.name = "falcon-h1", .split = kLlama3Split, .ignore_merges = true, .add_bos = true},
    {.name = "pixtral", .split = kLlama3Split, .ignore_merges = true, .add_bos = true},
    {.name = "midm-2.0", .split = kLlama3Split, .ignore_merges = true, .add_bos = true},
    {.name = "lfm2", .split = kLlama3Split, .ignore_merges = true, .add_bos = true},
    {.name = "jina-v5-nano", .split = kLlama3Split, .ignore_merges = true, .add_bos = true},
    {"dbrx", kLlama3Split},
    {"smaug-bpe", kLlama3Split},
    {"glm4", kLlama3Split},
    {"chatglm-bpe", kLlama3Split},
    {.name = "qwen2", .split = kQwen2Split, .composes = true},
    {"stablelm2", kQwen2Split},
    {.name = "deepseek-r1-qwen", .split = kQwen2Split, .composes = true},
    {"megrez", kQwen2Split},
    {"hunyuan", kQwen2Split},
    {"solar-open", kQwen2Split},
    {"grok-2", kQwen2Split},
    {"kormo", kQwen2Split},
    {"f2llmv2", kQwen2Split},
    {.name = "qwen35", .split = Expressions(kQwen35), .composes = true},
    {.name = "tekken", .split = Expressions(kTekken), .ignore_merges = true, .add_bos = true},
    {"gpt-4o", kGpt4oSplit},
    {"llama4", kGpt4oSplit},
    {"kanana2", kGpt4oSplit},
    {"talkie", kGpt4oSplit},
    {"minimax-m2", kGpt4oSplit},
    {"deepseek-llm", Family(SplitFamily::kDeepseekLlm)},
    {"deepseek-coder", Family(SplitFamily::kDeepseekCoder)},
    {"deepseek-v3", kDeepseek3Split},
    {"hunyuan-dense", kDeepseek3Split},
    {"joyai-llm", kDeepseek3Split},
    {"hy_v4", kDeepseek3Split},
    {"falcon", Family(SplitFamily::kFalcon)},
    {"bloom", kBloomSplit},
    {"poro-chat", kBloomSplit},
    {"gpt3-finnish", kBloomSplit},
    {"viking", Expressions(kBloom, R"re(\p{N})re")},
    {"bailingmoe", kBailingSplit},
    {"bailingmoe2", kBailingSplit},
    {"llada-moe", kBailingSplit},
    {"seed-coder", Expressions(kSeedCoder)},
    {"tiny_aya", Expressions(kTinyAyaDigits, kGpt4o)},
    {"cohere2moe", Expressions(kTinyAyaDigits, kGpt4o)},
    {"kimi-k2", Expressions(kKimi)},
    {"exaone-moe", Expressions(kExaoneMoe)},
    {"superbpe", Expressions(R"re(\p{N}+)re", R"re((?=(\d{3})+(?!\d)))re")},
    {.name = "youtu", .split = Expressions(kYoutuScripts, kYoutuWords), .ignore_merges = true},
    {.name = "minicpm5",
     .split = Expressions(R"re(\p{N}{1,3})re", kMinicpm5Words),
     .ignore_merges = true},
    {.name = "granite-embed-multi-97m", .split = kGpt4oSplit, .ignore_merges = true},
};

std::vector<SplitStep> StepsOf(const Split& split) {
  if (split.family) {
    const auto steps = tokenizer::StepsOf(*split.family);
    return {steps.begin(), steps.end()};
  }
  std::vector<SplitStep> steps;
  for (const std::string_view expression : split.expressions) {
    if (!expression.empty())
      steps.push_back({.kind = SplitStep::Kind::kRegex, .pattern = std::string(expression)});
  }
  steps.push_back({.kind = SplitStep::Kind::kByteLevel, .use_regex = false});
  return steps;
}

}  // namespace

std::optional<NamedPreTokenizer> FindPreTokenizer(std::string_view name) {
  const auto row = std::ranges::find(kRows, name, &Row::name);
  if (row == std::end(kRows)) return std::nullopt;
  NamedPreTokenizer found;
  found.split = StepsOf(row->split);
  if (row->composes) found.normalizer.push_back({.kind = NormalizerStep::Kind::kNfc});
  found.ignore_merges = row->ignore_merges;
  found.add_bos = row->add_bos;
  return found;
}

std::string_view NameOfPreTokenizer(std::span<const SplitStep> steps, bool ignore_merges) {
  std::string_view close;
  for (const Row& row : kRows) {
    if (!std::ranges::equal(StepsOf(row.split), steps)) continue;
    if (row.ignore_merges == ignore_merges) return row.name;
    if (close.empty()) close = row.name;
  }
  return close;
}

}  // namespace tutti::tokenizer
