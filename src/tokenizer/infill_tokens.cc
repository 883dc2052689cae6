#include "tokenizer/infill_tokens.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string_view>

#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {
namespace {

struct InfillFamily {
  std::string_view prefix, suffix;
  std::string_view middle;  // empty: no token comes before the answer
  bool suffix_first = false;
};

// Sources: llama.cpp's llama-vocab.cpp; the paper of Seed-Coder; encode_fim of mistral-common.
constexpr std::array<InfillFamily, 10> kInfillFamilies = {{
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},        // Qwen, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},              // StarCoder, Granite Code
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},              // SantaCoder
    {"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", true},  // Seed-Coder
    {"<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>",
     "<\uff5cfim\u2581end\uff5c>"},                             // DeepSeek
    {"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"},              // CodeLlama
    {"<PRE>", "<SUF>", "<MID>"},                                // CodeLlama, as some files spell it
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},  // GLM
    {"<|prefix|>", "<|suffix|>", "<|middle|>"},                 // Falcon-H1
    {"[PREFIX]", "[SUFFIX]", "", true},                         // Codestral
}};
constexpr std::array<std::string_view, 6> kRepositorySpellings = {
    "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<repo_name>", "<REPO>", "<reponame>"};
constexpr std::array<std::string_view, 4> kFileSpellings = {"<|file_sep|>", "<file_sep>",
                                                            "<|file_separator|>", "<filename>"};
constexpr std::array<std::string_view, 3> kPadSpellings = {"<|fim_pad|>", "<fim_pad>", "<fim-pad>"};

// Mellum has StarCoder's tokens in another order. A GGUF names its split so.
constexpr std::string_view kSuffixFirstSplit = "mellum";

const InfillFamily* FamilyOf(const Vocabulary& vocabulary) {
  const TokenId named = vocabulary.special().fim_pre;
  for (const InfillFamily& family : kInfillFamilies) {
    if (named != kNoToken) {
      if (vocabulary.Text(named) == family.prefix) return &family;
      continue;
    }
    const auto has = [&](std::string_view text) {
      return text.empty() || vocabulary.Find(text) != kNoToken;
    };
    if (has(family.prefix) && has(family.suffix) && has(family.middle)) return &family;
  }
  return nullptr;
}

// `named`, or the first of `spellings` that is a token.
TokenId NamedOrSpelled(const Vocabulary& vocabulary, TokenId named,
                       std::span<const std::string_view> spellings) {
  if (named != kNoToken) return named;
  for (const std::string_view spelling : spellings) {
    if (const TokenId id = vocabulary.Find(spelling); id != kNoToken) return id;
  }
  return kNoToken;
}

}  // namespace

std::vector<TokenId> InfillTokens::All() const {
  std::vector<TokenId> all;
  for (const TokenId id : {prefix, suffix, middle, repository, file, pad}) {
    if (id != kNoToken) all.push_back(id);
  }
  return all;
}

std::optional<InfillTokens> FindInfillTokens(const Vocabulary& vocabulary) {
  const SpecialIds& named = vocabulary.special();
  InfillTokens tokens{.prefix = named.fim_pre, .suffix = named.fim_suf, .middle = named.fim_mid};
  const InfillFamily* const family = FamilyOf(vocabulary);
  if (family != nullptr) {
    tokens.prefix = NamedOrSpelled(vocabulary, tokens.prefix, {&family->prefix, 1});
    tokens.suffix = NamedOrSpelled(vocabulary, tokens.suffix, {&family->suffix, 1});
    // Mistral's vocabularies have a middle token, which its prompts leave out.
    tokens.middle = family->middle.empty()
                        ? kNoToken
                        : NamedOrSpelled(vocabulary, tokens.middle, {&family->middle, 1});
    tokens.suffix_first = family->suffix_first || vocabulary.pre() == kSuffixFirstSplit;
  }
  const bool needs_middle = family == nullptr || !family->middle.empty();
  if (tokens.prefix == kNoToken || tokens.suffix == kNoToken ||
      (needs_middle && tokens.middle == kNoToken))
    return std::nullopt;
  tokens.repository = NamedOrSpelled(vocabulary, named.fim_rep, kRepositorySpellings);
  tokens.file = NamedOrSpelled(vocabulary, named.fim_sep, kFileSpellings);
  tokens.pad = NamedOrSpelled(vocabulary, named.fim_pad, kPadSpellings);
  return tokens;
}

}  // namespace tutti::tokenizer
