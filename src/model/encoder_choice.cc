#include "model/encoder_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "model/encoder.h"
#include "model/team.h"
#include "tensor/dtype.h"

namespace tutti::model {
namespace {

using Vectors = std::vector<std::vector<float>>;

struct Texts {
  std::vector<TokenId> tokens;
  std::vector<int32_t> offsets = {0};
};

Texts Read(std::span<const std::string_view> texts, const EncoderConfig& config,
           const tokenizer::Tokenizer& tokenizer) {
  Texts read;
  for (const std::string_view text : texts) {
    const auto input = tokenizer.EncodeInput(text, {.max_tokens = config.max_tokens});
    if (input.ids.empty()) continue;  // of characters that the vocabulary does not have
    read.tokens.insert(read.tokens.end(), input.ids.begin(), input.ids.end());
    read.offsets.push_back(static_cast<int32_t>(read.tokens.size()));
  }
  return read;
}

// One pass over the texts, with threads of its own: pools belong to runners.
void Pass(Encoder& encoder, const Texts& texts) {
  const EncoderBatch batch{texts.tokens, {}, texts.offsets};
  encoder.Prepare(batch);
  const int workers = encoder.options().workers;
  PhaseBoard board(workers);
  const auto work = [&](int worker) {
    Team team(board, worker, {});
    encoder.Run(batch, team);
  };
  std::vector<std::jthread> helpers;  // joined when this returns; the others need not wait for them
  try {
    for (int worker = 1; worker < workers; ++worker) helpers.emplace_back(work, worker);
  } catch (const std::system_error&) {
    // The work of a helper that could not be started is done by the others.
  }
  work(0);
}

class Chooser {
 public:
  Chooser(const EncoderConfig& config, const TensorStore& store,
          const tokenizer::Tokenizer& tokenizer, const ChooseOptions& options)
      : config_(config),
        store_(store),
        options_(options),
        seen_(Read(PeakTexts(), config, tokenizer)),
        checked_(Read(CheckTexts(), config, tokenizer)) {}

  Result<EncoderChoice> Choose() {
    const bool free = !options_.dtype.has_value();
    if (!free && *options_.dtype != EncoderDType::kInt8) return Plain(*options_.dtype);
    if (seen_.tokens.empty() || checked_.tokens.empty()) return Plain(EncoderDType::kF32);
    const TimePoint begin = clock_.Now();
    RETURN_IF_ERROR(MeasureFloat());
    EncoderChoice best;
    std::vector<EncoderDType> order = {EncoderDType::kInt8, EncoderDType::kInt8Blocks};
    if (free) order.push_back(EncoderDType::kBf16);
    Duration loading{0};
    for (const EncoderDType dtype : order) {
      const TimePoint start = clock_.Now();
      ASSIGN_OR_RETURN(auto weights, Load(dtype));
      const Duration took = clock_.Now() - start;
      ASSIGN_OR_RETURN(const double cosine, MinCosine(weights));
      if (best.weights != nullptr && cosine < *best.cosine) continue;
      best.weights = std::move(weights);
      best.cosine = cosine;
      loading = took;
      if (cosine >= kMinCosine) break;
    }
    if (free && *best.cosine < kMinCosine) {
      best = {};
      ASSIGN_OR_RETURN(best, Plain(EncoderDType::kF32));
    }
    best.seconds = ToSeconds(clock_.Now() - begin - loading);
    return best;
  }

 private:
  Result<EncoderChoice> Plain(EncoderDType dtype) {
    EncoderChoice choice;
    ASSIGN_OR_RETURN(choice.weights, Load(dtype));
    if (dtype == EncoderDType::kF32) choice.cosine = 1;
    return choice;
  }

  Result<std::shared_ptr<const EncoderWeights>> Load(EncoderDType dtype) {
    EncoderWeights::Options options;
    options.dtype = dtype;
    options.peaks = dtype == EncoderDType::kInt8 && !peaks_.layers.empty() ? &peaks_ : nullptr;
    options.threads = options_.threads;
    options.bf16_pairs = options_.kernels->gemm.bf16_pairs;
    options.progress = options_.progress;
    options.kernels = options_.kernels;
    options.relative = relative_;
    return EncoderWeights::Load(config_, store_, options);
  }

  Result<std::unique_ptr<Encoder>> Make(std::shared_ptr<const EncoderWeights> weights) const {
    Encoder::Options options;
    options.workers = options_.threads;
    options.max_rows = static_cast<int>(std::max(seen_.tokens.size(), checked_.tokens.size()));
    options.max_scored = 0;
    return Encoder::Create(std::move(weights), *options_.kernels, options);
  }

  // peaks_, reference_ and relative_; the float32 weights are gone when it returns.
  Status MeasureFloat() {
    ASSIGN_OR_RETURN(auto weights, Load(EncoderDType::kF32));
    relative_ = weights->relative();
    ASSIGN_OR_RETURN(const auto encoder, Make(std::move(weights)));
    const auto width = static_cast<size_t>(config_.width);
    const auto wide = static_cast<size_t>(config_.feed_forward);
    peaks_.layers.resize(static_cast<size_t>(config_.layers));
    for (EncoderPeaks::Layer& layer : peaks_.layers) {
      layer.qkv.assign(width, 0);
      layer.up.assign(width, 0);
      layer.down.assign(wide, 0);
    }
    encoder->Watch(&peaks_);
    Pass(*encoder, seen_);
    encoder->Watch(nullptr);
    reference_ = VectorsOf(*encoder);
    for (const auto& vector : reference_) {
      const auto finite = [](float value) { return std::isfinite(value); };
      if (!std::all_of(vector.begin(), vector.end(), finite)) {
        return InvalidArgument("model_nonfinite",
                               "the model gives values that are not finite for plain texts");
      }
    }
    return OkStatus();
  }

  // What requests get: a vector for each text, or for each token (ColBERT). Of a classifier the
  // pooled rows, as a score alone has no direction.
  Vectors VectorsOf(Encoder& encoder) const {
    Pass(encoder, checked_);
    Vectors vectors;
    for (size_t i = 0; i + 1 < checked_.offsets.size(); ++i) {
      const int first = checked_.offsets[i], rows = checked_.offsets[i + 1] - first;
      if (!config_.per_token) {
        vectors.emplace_back(static_cast<size_t>(config_.vector_width()));
        encoder.WriteVector(first, rows, 0, vectors.back());
        continue;
      }
      const auto columns = static_cast<size_t>(config_.token_width());
      std::vector<float> tokens(static_cast<size_t>(rows) * columns);
      encoder.WriteTokens(first, rows, 0, tokens);
      for (auto row = tokens.begin(); row != tokens.end(); row += static_cast<int64_t>(columns))
        vectors.emplace_back(row, row + static_cast<int64_t>(columns));
    }
    return vectors;
  }

  Result<double> MinCosine(std::shared_ptr<const EncoderWeights> weights) const {
    ASSIGN_OR_RETURN(const auto encoder, Make(std::move(weights)));
    const Vectors vectors = VectorsOf(*encoder);
    double least = 1;
    for (size_t i = 0; i < vectors.size(); ++i) {
      double dot = 0, own = 0, other = 0;
      for (size_t k = 0; k < vectors[i].size(); ++k) {
        dot += double{vectors[i][k]} * reference_[i][k];
        own += double{vectors[i][k]} * vectors[i][k];
        other += double{reference_[i][k]} * reference_[i][k];
      }
      // A sparse vector may have no word at all.
      const double cosine = own == 0 && other == 0 ? 1 : dot / std::sqrt(own * other);
      least = cosine < least ? cosine : least;
      if (!(cosine <= 2)) return -1.0;  // not a number: as far away as it gets
    }
    return least;
  }

  const SteadyClock clock_;
  const EncoderConfig& config_;
  const TensorStore& store_;
  const ChooseOptions& options_;
  const Texts seen_, checked_;
  EncoderPeaks peaks_;
  Vectors reference_;                                  // of the check texts, in float32
  std::shared_ptr<const RelativePositions> relative_;  // the same for every type
};

}  // namespace

std::string EncoderChoice::ToString() const {
  std::string text = EncoderDTypeName(dtype());
  if (dtype() == EncoderDType::kInt8) text += ", a scale per row";
  if (dtype() == EncoderDType::kInt8Blocks) text += ", a scale per 32";
  if (cosine && dtype() != EncoderDType::kF32) {
    text +=
        fmt::format(" (minimum cosine {:.4f} to f32 on {} texts)", *cosine, CheckTexts().size());
  }
  return text;
}

Result<EncoderDType> ParseEncoderDType(std::string_view name) {
  constexpr std::array<EncoderDType, 3> kAll = {EncoderDType::kF32, EncoderDType::kBf16,
                                                EncoderDType::kInt8};
  for (const EncoderDType dtype : kAll) {
    if (tensor::CommonSpelling(name) == EncoderDTypeName(dtype)) return dtype;
  }
  return InvalidArgument("invalid_value",
                         "an encoder's dtype is f32, bf16 or int8; f16 is for decoders");
}

Result<EncoderChoice> ChooseEncoderWeights(const EncoderConfig& config, const TensorStore& store,
                                           const tokenizer::Tokenizer& tokenizer,
                                           const ChooseOptions& options) {
  CHECK(options.kernels != nullptr && options.threads >= 1);
  return Chooser(config, store, tokenizer, options).Choose();
}

namespace {

constexpr std::array<std::string_view, 16> kPeaks = {
    "The ferry leaves at half past six, unless the wind turns north during the night.",
    "Ein kurzer Satz, der nichts Besonderes sagt.",
    "for i in range(len(rows)): total += rows[i]['price'] * 1.19",
    "3.14159 is pi; 42 is the answer; 1,000,000 is a lot.",
    "yes",
    "How do I reset my password?",
    "Le chat dort sur le canapé depuis ce matin.",
    "東京は日本の首都です。",
    "Warning: disk /dev/sda1 is 97% full (2.1 GB left).",
    "Climate policy and the price of carbon in 2023",
    "!!!",
    "Привет, как дела?",
    "The contract may be ended by either party with thirty days' written notice, provided that all "
    "outstanding invoices have been paid in full and that the equipment has been returned.",
    "a",
    "Vaccines lower the risk of severe illness in people over sixty.",
    "los niños juegan en el parque",
};

constexpr std::array<std::string_view, 16> kChecks = {
    "What is the boiling point of water at two thousand metres above the sea?",
    "Die Lieferung ist gestern angekommen, aber zwei Teile fehlen noch.",
    "SELECT name, COUNT(*) FROM orders WHERE paid = 0 GROUP BY name;",
    "refund",
    "The committee met on Tuesday and agreed to postpone the vote until the auditors had finished "
    "their report, which is expected before the end of the quarter.",
    "Wie spät ist es?",
    "机器学习模型需要大量的数据。",
    "ok :-)",
    "A slow cooker recipe for lentil soup with carrots, cumin and a little lemon juice.",
    "HTTP/1.1 404 Not Found\r\nContent-Length: 0",
    "Où se trouve la gare la plus proche, s'il vous plaît ?",
    "Cells divide, and their daughters inherit a copy of the genome.",
    "0",
    "Спасибо, всё работает.",
    "The cheapest flight from Lisbon to Oslo in the second week of March",
    "He said that she said that nobody had said anything.",
};

}  // namespace

std::span<const std::string_view> PeakTexts() { return kPeaks; }
std::span<const std::string_view> CheckTexts() { return kChecks; }

}  // namespace tutti::model
