// Speed of encoding and decoding, in bytes of text per second on one thread. Run with
// TUTTI_SOURCE_DIR set to the source tree, or TUTTI_TEST_TOKENIZER_DATA to a data folder. Each
// benchmark checks its answer before it reports a time.
#include <benchmark/benchmark.h>

#include "tokenizer/testing/reference_data.h"
#include "tokenizer/tokenizer.h"

namespace tutti::tokenizer {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;

bool IsAscii(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// A mebibyte of the corpus; English and code when `ascii`, else every language.
const std::string& CorpusText(bool ascii) {
  static std::string kept[2];
  std::string& text = kept[ascii ? 1 : 0];
  if (text.empty()) {
    const std::vector<std::string> texts = testing::LoadTexts("corpus");
    while (text.size() < kMebibyte) {
      for (const std::string& t : texts) {
        if (!ascii || IsAscii(t)) text += t;
      }
    }
  }
  return text;
}

void Encode(benchmark::State& state, const std::string& name, const std::string& text,
            bool invertible) {
  const auto tokenizer = testing::LoadTokenizer(name);
  std::vector<TokenId> ids = tokenizer->Encode(text, {.add_special = false});
  if (invertible && tokenizer->Decode(ids) != text) {
    state.SkipWithError("decode(encode(x)) is not x");
    return;
  }
  for (auto _ : state) {
    ids = tokenizer->Encode(text, {.add_special = false});
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
  state.counters["tokens"] = static_cast<double>(ids.size());
}

void EncodeEnglish(benchmark::State& state, const char* name) {
  Encode(state, name, CorpusText(true), std::string_view(name) != "minilm");
}
void EncodeAllLanguages(benchmark::State& state, const char* name) {
  Encode(state, name, CorpusText(false), std::string_view(name) != "minilm");
}
void EncodeOneWord(benchmark::State& state, const char* name) {
  Encode(state, name, std::string(static_cast<size_t>(state.range(0)), 'a'),
         std::string_view(name) != "minilm");
}

void StreamDecode(benchmark::State& state, const char* name) {
  const auto tokenizer = testing::LoadTokenizer(name);
  const std::vector<TokenId> ids = tokenizer->Encode(CorpusText(false), {.add_special = false});
  std::string text;
  for (auto _ : state) {
    StreamDecoder decoder(tokenizer);
    text.clear();
    for (const TokenId id : ids) decoder.Push(id, text);
    decoder.Finish(text);
    benchmark::DoNotOptimize(text.data());
  }
  if (text != tokenizer->Decode(ids, {.strip_space_prefix = false})) {
    state.SkipWithError("the stream's text is not Decode's");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(ids.size()));
}

void Create(benchmark::State& state, const char* name) {
  const TokenizerSpec spec = testing::LoadSpec(name);
  for (auto _ : state) {
    auto tokenizer = Tokenizer::Create(spec);
    if (!tokenizer.ok()) state.SkipWithError("refused");
  }
}

#define TUTTI_BENCH_FAMILY(label, name)                                              \
  BENCHMARK_CAPTURE(EncodeEnglish, label, name)->Unit(benchmark::kMillisecond);      \
  BENCHMARK_CAPTURE(EncodeAllLanguages, label, name)->Unit(benchmark::kMillisecond); \
  BENCHMARK_CAPTURE(EncodeOneWord, label, name)                                      \
      ->Arg(int64_t{1} << 19)                                                        \
      ->Arg(int64_t{1} << 20)                                                        \
      ->Arg(int64_t{1} << 21)                                                        \
      ->Unit(benchmark::kMillisecond);                                               \
  BENCHMARK_CAPTURE(StreamDecode, label, name)->Unit(benchmark::kMillisecond);       \
  BENCHMARK_CAPTURE(Create, label, name)->Unit(benchmark::kMillisecond)

TUTTI_BENCH_FAMILY(smollm, "smollm");
TUTTI_BENCH_FAMILY(llama3, "llama-bpe");
TUTTI_BENCH_FAMILY(llama_spm, "llama-spm");
TUTTI_BENCH_FAMILY(minilm, "minilm");

}  // namespace
}  // namespace tutti::tokenizer
