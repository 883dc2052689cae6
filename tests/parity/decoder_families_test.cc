// Small decoders of every family compared with transformers (decoder_families.h), in both forms.
#include "decoder_families.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>

#include "model/decoder_checkpoint.h"
#include "model/pack_model.h"
#include "packed/file.h"
#include "runner/cpu_model_runner.h"
#include "runner/testing/direct_driver.h"
#include "sampled.h"
#include "tensor/blocks.h"

namespace tutti::parity {
namespace {

using kernels::Isa;
using model::WeightMode;
using runner::DirectDriver;

// A runner whose logits are kept by sequence and position.
class Recorder {
 public:
  // `tokens`: the longest text. One beyond the trained length has longrope's factors for long ones.
  // `kv_dtype`: by default of the arithmetic, but 16 bits for int8, because the cost of an int8
  // cache is measured elsewhere.
  Recorder(std::shared_ptr<const model::Weights> weights, Isa isa, int workers, size_t tokens,
           model::KvDtype kv_dtype = model::KvDtype::kByWeights) {
    runner::CpuRunnerOptions options;
    options.kernels = &kernels::KernelsFor(isa);
    pool_ = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = workers});
    options.pool = pool_;
    options.kv_bytes = size_t{16} << 20;
    options.kv_dtype = kv_dtype;
    if (kv_dtype == model::KvDtype::kByWeights && weights->mode() != WeightMode::kF32)
      options.kv_dtype = model::KvDtype::k16Bit;
    const model::ModelConfig& config = weights->config();
    // As served: layers with a window have memory of their own.
    if (config.window > 0) options.kv_blocks = options.window_blocks = 64;
    options.context = static_cast<int>(tokens) > config.context_length ? config.max_context()
                                                                       : config.context_length;
    options.max_step_tokens = 256;
    options.state_slots = 8;
    options.logits_tap = [this](uint32_t sequence, int position, std::span<const float> logits) {
      const std::lock_guard lock(mutex_);
      rows_[{sequence, position}].assign(logits.begin(), logits.end());
    };
    auto made = runner::CpuModelRunner::Create(std::move(weights), options);
    EXPECT_TRUE(made.ok()) << made.status();
    runner_ = std::move(made).value();
    driver_ = std::make_unique<DirectDriver>(*runner_, 3);
  }

  DirectDriver& driver() { return *driver_; }
  // Phases that all steps so far took.
  uint64_t Phases() const {
    uint64_t at = 0;
    pool_->Run([&](model::Team& team) {
      if (team.worker() == 0) at = team.position().phase;
    });
    return at;
  }
  // The logits of the row at `position`.
  const std::vector<float>& Row(int sequence, size_t position) const {
    return rows_.at({static_cast<uint32_t>(sequence), static_cast<int>(position)});
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<uint32_t, int>, std::vector<float>> rows_;
  std::shared_ptr<runner::ComputePool> pool_;
  std::unique_ptr<runner::CpuModelRunner> runner_;
  std::unique_ptr<DirectDriver> driver_;
};

struct Agreement {
  int same = 0;      // choices
  double worst = 0;  // difference of a logit
  double mean = 0;   // of all differences
  int rows = 0;
};

// Teacher-forced: fed the golden's tokens, one step for the prompt and one for each behind it.
Agreement Compare(const FamilyGolden& golden, std::shared_ptr<const model::Weights> weights,
                  Isa isa, model::KvDtype kv_dtype = model::KvDtype::kByWeights) {
  Recorder recorder(std::move(weights), isa, 2, golden.ids.size(), kv_dtype);
  DirectDriver& driver = recorder.driver();
  const int sequence = driver.NewSequence();
  DirectDriver::Part part{
      sequence, {golden.ids.begin(), golden.ids.begin() + static_cast<ptrdiff_t>(golden.prompt)}};
  Agreement out;
  std::vector<double> differences;
  for (size_t i = golden.prompt; i < golden.ids.size(); ++i) {
    const auto result = driver.Step({&part, 1});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok() || !result->slices[0].status.ok()) return out;
    out.same += result->slices[0].token == golden.ids[i];
    part.tokens = {golden.ids[i]};
    ++out.rows;
    const size_t choice = i - golden.prompt;
    if (choice % golden.every != 0) continue;
    const std::vector<float>& row = recorder.Row(sequence, i - 1);
    const size_t number = choice / golden.every;
    const std::vector<float> want =
        number < golden.logits.size() ? golden.logits[number] : std::vector<float>();
    for (size_t k = 0; k < want.size(); ++k)
      differences.push_back(static_cast<double>(std::fabs(row[k] - want[k])));
  }
  out.worst = *std::max_element(differences.begin(), differences.end());
  out.mean = std::accumulate(differences.begin(), differences.end(), 0.0) /
             static_cast<double>(differences.size());
  return out;
}

bool IsMixture(const FamilyGolden& golden) {
  return golden.entry.at("keys").as_object().contains("expert_count");
}

class DecoderFamilies : public testing::TestWithParam<Isa> {};

TEST_P(DecoderFamilies, FloatsGiveTheLogitsAndChoicesOfTransformersInBothForms) {
  ASSERT_EQ(FamilyGoldens().size(), 88U);
  for (const FamilyGolden& golden : CasesOn(GetParam(), FamilyGoldens())) {
    for (const bool folder : {false, true}) {
      SCOPED_TRACE(golden.family + (folder ? " as a folder" : " as GGUF"));
      const auto weights =
          folder ? LoadFolder(golden, WeightMode::kF32) : LoadGguf(golden, WeightMode::kF32);
      ASSERT_TRUE(weights.ok()) << weights.status();
      const Agreement agreement = Compare(golden, *weights, GetParam());
      EXPECT_EQ(agreement.rows, 64);
      EXPECT_EQ(agreement.same, 64);
      EXPECT_LT(agreement.worst, 1e-3);
    }
  }
}

// Folders as transformers 5 writes them, as 4 did, and of text models inside multimodal ones.
TEST_P(DecoderFamilies, FoldersOfEveryFormGiveTheLogitsOfTransformers) {
  ASSERT_EQ(FolderGoldens().size(), 24U);
  for (const FamilyGolden& golden : FolderGoldens()) {
    SCOPED_TRACE(golden.family);
    const auto weights = LoadFolder(golden, WeightMode::kF32);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const Agreement agreement = Compare(golden, *weights, GetParam());
    EXPECT_EQ(agreement.rows, 10);
    EXPECT_EQ(agreement.same, 10);
    EXPECT_LT(agreement.worst, 1e-3);
  }
}

// Converting and packing use this path.
TEST(DecoderFamiliesTest, AGgufOfEveryFormOfFolderGivesTheSameLogits) {
  for (const FamilyGolden& golden : FolderGoldens()) {
    SCOPED_TRACE(golden.family);
    const auto file = GgufOfFolder(golden);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto weights = model::Weights::Load(**file, {.mode = WeightMode::kF32, .threads = 2});
    ASSERT_TRUE(weights.ok()) << weights.status();
    const Agreement agreement = Compare(golden, *weights, Isa::kScalar);
    EXPECT_EQ(agreement.same, 10);
    EXPECT_LT(agreement.worst, 1e-3);
  }
}

// Names, rows in their order, keys: the weights have the bytes of those that come from a GGUF as
// the public converter writes it, and the model is the same one.
TEST(DecoderFamiliesTest, AGgufThatIsMadeOfAFolderIsTheConverters) {
  for (const FamilyGolden& golden : FamilyGoldens()) {
    SCOPED_TRACE(golden.family);
    const auto file = GgufOfFolder(golden);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto made = model::Weights::Load(**file, {.mode = WeightMode::kF32, .threads = 2});
    ASSERT_TRUE(made.ok()) << made.status();
    const auto given = LoadGguf(golden, WeightMode::kF32);
    ASSERT_TRUE(given.ok()) << given.status();
    ASSERT_EQ((*made)->bytes(), (*given)->bytes());
    EXPECT_EQ(std::memcmp((*made)->data(), (*given)->data(), (*made)->bytes()), 0);
    const Agreement agreement = Compare(golden, *made, kernels::DetectIsas().back());
    EXPECT_EQ(agreement.same, 64);
    EXPECT_LT(agreement.worst, 1e-3);
  }
}

// Factors of rotation are read when a model is opened, and a packed file holds the data of such
// tensors alone, apart from the weights.
TEST(DecoderFamiliesTest, APackedModelKeepsItsFactorsOfRotation) {
  size_t with_factors = 0;
  for (const FamilyGolden& golden : FamilyGoldens()) {
    const auto file = GgufOfFolder(golden);
    ASSERT_TRUE(file.ok()) << golden.family << ": " << file.status();
    const auto packed = model::PackModel(**file, {.mode = WeightMode::kF32});
    ASSERT_TRUE(packed.ok()) << golden.family << ": " << packed.status();
    std::vector<std::byte> bytes = packed->front;
    bytes.insert(bytes.end(), packed->weights->data(),
                 packed->weights->data() + packed->weights->bytes());
    auto opened = packed::File::FromSource(files::MemorySource(bytes, packed::kTruncated));
    ASSERT_TRUE(opened.ok()) << golden.family << ": " << opened.status();
    const auto read = model::DecoderCheckpoint::FromPacked(std::move(*opened));
    ASSERT_TRUE(read.ok()) << golden.family << ": " << read.status();
    const model::ModelConfig& made = packed->weights->config();
    EXPECT_EQ(read->config.rope_freq_factors, made.rope_freq_factors) << golden.family;
    EXPECT_EQ(read->config.rope_long_factors, made.rope_long_factors) << golden.family;
    with_factors += !made.rope_long_factors.empty();
  }
  EXPECT_GT(with_factors, 0u);
}

// The measure of fusion knows all families but mixtures.
TEST_P(DecoderFamilies, OneOperationAtATimeGivesThemToo) {
  for (const FamilyGolden& golden : CasesOn(GetParam(), FamilyGoldens())) {
    SCOPED_TRACE(golden.family);
    const auto weights = LoadFolder(golden, WeightMode::kF32, false);
    if (IsMixture(golden)) {
      EXPECT_EQ(weights.status().reason(), "model_hparam");
      continue;
    }
    ASSERT_TRUE(weights.ok()) << weights.status();
    const Agreement agreement = Compare(golden, *weights, GetParam());
    EXPECT_EQ(agreement.same, 64);
    EXPECT_LT(agreement.worst, 1e-3);
  }
}

// Floats of a file stay floats in the served mode, but the cache is in 16 bits.
TEST_P(DecoderFamilies, ServedArithmeticChoosesNearlyAlways) {
  for (const FamilyGolden& golden : CasesOn(GetParam(), FamilyGoldens())) {
    SCOPED_TRACE(golden.family);
    const auto weights = LoadFolder(golden, WeightMode::kInt8);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const Agreement agreement = Compare(golden, *weights, GetParam());
    EXPECT_GE(agreement.same, 62);
    EXPECT_LT(agreement.mean, 0.02);
    // In a mixture, rounding may change a router's choice, and then a whole expert differs.
    if (!IsMixture(golden)) {
      EXPECT_LT(agreement.worst, 0.25);
    }
  }
}

// Products in 8-bit integers, or in bfloat16 where the table has tiles; a choice may turn where the
// best two were close. How many of one model's 64 do is chance by two or three, of all together it
// is not.
TEST_P(DecoderFamilies, EightBitsChooseMostlyTheSame) {
  int same = 0, models = 0;
  for (const FamilyGolden& golden : CasesOn(GetParam(), FamilyGoldens())) {
    SCOPED_TRACE(golden.family);
    const auto weights = LoadGguf(golden, WeightMode::kInt8, tensor::DType::kQ8_0, GetParam());
    ASSERT_TRUE(weights.ok()) << weights.status();
    const Agreement agreement = Compare(golden, *weights, GetParam());
    EXPECT_GE(agreement.same, 54);
    EXPECT_LT(agreement.mean, 0.15);
    same += agreement.same;
    ++models;
  }
  std::printf("[ %d of %d choices ]\n", same, 64 * models);
  EXPECT_GE(same, 60 * models);
}

// Alone, row by row, on one thread; and together with others, in chunks, on three.
void ExpectSameBits(const FamilyGolden& golden,
                    const std::shared_ptr<const model::Weights>& weights, Isa isa, size_t length) {
  constexpr int kSequences = 5;
  std::vector<std::vector<TokenId>> texts;
  for (int s = 0; s < kSequences; ++s) {
    texts.emplace_back(golden.ids.begin() + s,
                       golden.ids.begin() + s + static_cast<ptrdiff_t>(length));
  }
  Recorder alone(weights, isa, 1, length);
  Recorder together(weights, isa, 3, length);
  std::vector<int> single, shared;
  for (int s = 0; s < kSequences; ++s) {
    single.push_back(alone.driver().NewSequence());
    shared.push_back(together.driver().NewSequence());
  }
  for (int s = 0; s < kSequences; ++s) {
    for (size_t i = 0; i < length; ++i) {
      const DirectDriver::Part part{single[static_cast<size_t>(s)],
                                    {texts[static_cast<size_t>(s)][i]}};
      ASSERT_TRUE(alone.driver().Step({&part, 1}).ok());
    }
  }
  std::vector<size_t> done(kSequences, 0);
  for (size_t step = 0; *std::min_element(done.begin(), done.end()) < length; ++step) {
    std::vector<DirectDriver::Part> parts;
    for (size_t s = 0; s < kSequences; ++s) {
      const size_t count = std::min(1 + (step * 5 + s * 3) % 7, length - done[s]);
      if (count == 0) continue;
      const auto from = texts[s].begin() + static_cast<ptrdiff_t>(done[s]);
      parts.push_back({shared[s], {from, from + static_cast<ptrdiff_t>(count)}});
      done[s] += count;
    }
    ASSERT_TRUE(together.driver().Step(parts).ok());
    for (const DirectDriver::Part& part : parts) {
      const auto s = static_cast<size_t>(std::find(shared.begin(), shared.end(), part.sequence) -
                                         shared.begin());
      const std::vector<float>& one = alone.Row(single[s], done[s] - 1);
      const std::vector<float>& many = together.Row(shared[s], done[s] - 1);
      ASSERT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)), 0)
          << "sequence " << s << ", token " << done[s] - 1;
    }
  }
}

TEST_P(DecoderFamilies, ARowHasTheSameBitsAloneAndInABatch) {
  for (const FamilyGolden& golden : CasesOn(GetParam(), FamilyGoldens())) {
    SCOPED_TRACE(golden.family);
    const auto weights = LoadGguf(golden, WeightMode::kInt8, tensor::DType::kQ8_0, GetParam());
    ASSERT_TRUE(weights.ok()) << weights.status();
    ExpectSameBits(golden, *weights, GetParam(), 48);
  }
}

// A copied state continues as the original does, and a sequence that starts again repeats itself.
TEST_P(DecoderFamilies, AForkAndARestartOfAStateGiveTheSameBits) {
  constexpr size_t kLength = 40, kForked = 29;
  const std::vector<FamilyGolden> goldens = CasesOn(GetParam(), FamilyGoldens());
  int stateful = 0;
  for (const FamilyGolden& golden : goldens) {
    const auto weights = LoadGguf(golden, WeightMode::kInt8, tensor::DType::kQ8_0, GetParam());
    ASSERT_TRUE(weights.ok()) << golden.family << ": " << weights.status();
    if (model::Decoder::StateBytes((*weights)->config()) == 0) continue;
    SCOPED_TRACE(golden.family);
    ++stateful;
    Recorder recorder(*weights, GetParam(), 2, kLength);
    DirectDriver& driver = recorder.driver();
    const std::span<const TokenId> text(golden.ids.data(), kLength);
    const int first = driver.NewSequence();
    ASSERT_TRUE(driver.Prefill(first, text.subspan(0, kForked), 5).ok());
    const int fork = driver.Fork(first, kForked);
    ASSERT_TRUE(driver.Prefill(fork, text.subspan(kForked), 3).ok());
    ASSERT_TRUE(driver.Prefill(first, text.subspan(kForked), 4).ok());
    const std::vector<float> whole = recorder.Row(first, kLength - 1);
    const std::vector<float> forked = recorder.Row(fork, kLength - 1);
    driver.Evict(first);
    ASSERT_TRUE(driver.Prefill(first, text, 17).ok());
    const std::vector<float>& again = recorder.Row(first, kLength - 1);
    EXPECT_EQ(std::memcmp(whole.data(), forked.data(), whole.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(whole.data(), again.data(), whole.size() * sizeof(float)), 0);
  }
  EXPECT_GE(stateful, goldens.size() == FamilyGoldens().size() ? 15 : 4);
}

TEST(DecoderFamiliesTest, StatesOfAnotherWidthThanTheTensorsAreRefused) {
  struct Case {
    std::string_view family, key;
    int value;
    std::string_view tensor;
  };
  int refused = 0;
  for (const Case& each : {Case{"lfm2", "conv_L_cache", 4, "conv.conv.weight"},
                           Case{"granite hybrid", "mamba_d_state", 32, "mamba.in_proj.weight"},
                           Case{"granite hybrid", "mamba_n_heads", 2, "mamba.in_proj.weight"},
                           Case{"granite hybrid", "mamba_d_conv", 3, "mamba.conv1d.weight"},
                           Case{"qwen3next", "linear_key_head_dim", 32, "in_proj_qkvz.weight"},
                           Case{"qwen3next", "linear_num_value_heads", 6, "in_proj_qkvz.weight"},
                           Case{"qwen3next", "linear_conv_kernel_dim", 3, "conv1d.weight"},
                           Case{"qwen35", "linear_value_head_dim", 64, "in_proj_qkv.weight"},
                           Case{"falcon h1", "mamba_d_state", 32, "mamba.in_proj.weight"},
                           Case{"falcon h1", "mamba_d_conv", 3, "mamba.conv1d.weight"},
                           Case{"nemotron_h", "ssm_state_size", 32, "mixer.in_proj.weight"},
                           Case{"lfm2moe", "conv_L_cache", 4, "conv.conv.weight"}}) {
    for (FamilyGolden golden : FamilyGoldens()) {
      if (golden.family != each.family) continue;
      boost::json::object& config = golden.entry.at("config").as_object();
      config[each.key] = each.value;
      config["mamba_d_head"] = "auto";
      const auto weights = LoadFolder(golden, WeightMode::kF32);
      ASSERT_FALSE(weights.ok()) << each.key;
      EXPECT_EQ(weights.status().reason(), "st_shape") << weights.status();
      EXPECT_NE(weights.status().message().find(each.tensor), std::string::npos)
          << weights.status();
      ++refused;
    }
  }
  EXPECT_EQ(refused, 12);
}

// A GGUF has the layers of multi-token prediction as blocks behind the others; folders of Qwen have
// them under a name of their own, those of GLM as layers behind the last.
TEST(DecoderFamiliesTest, LayersThatPredictFurtherTokensAreNotLoaded) {
  int models = 0;
  for (const FamilyGolden& golden : FamilyGoldens()) {
    const bool glm = golden.family == "glm4moe" || golden.family == "deepseek_v3";
    if (!glm && golden.family != "qwen35" && golden.family != "qwen3next") continue;
    SCOPED_TRACE(golden.family);
    FamilyGolden predicting = golden;
    boost::json::object& keys = predicting.entry.at("keys").as_object();
    const auto layers = keys.at("block_count").to_number<int>();
    keys["block_count"] = layers + 1;
    keys["nextn_predict_layers"] = 1;
    boost::json::object& tensors = predicting.entry.at("tensors").as_object();
    boost::json::object& names = predicting.entry.at("names").as_object();
    const auto add = [&](const std::string& rest, const boost::json::array& shape,
                         std::string_view gguf) {
      const std::string name = (glm ? fmt::format("model.layers.{}.", layers) : "mtp.") + rest;
      tensors[name] = shape;
      names[name] = fmt::format("blk.{}.{}", layers, gguf);
    };
    add("eh_proj.weight", {64, 128}, "nextn.eh_proj.weight");
    add("shared_head.norm.weight", {64}, "nextn.shared_head_norm.weight");
    add("input_layernorm.weight", {64}, "attn_norm.weight");
    add("self_attn.q_proj.weight", {256, 64}, "attn_q.weight");
    add("mlp.down_proj.weight", {64, 96}, "ffn_down.weight");
    for (const bool folder : {false, true}) {
      const auto whole = folder ? LoadFolder(predicting, WeightMode::kF32)
                                : LoadGguf(predicting, WeightMode::kF32);
      ASSERT_TRUE(whole.ok()) << whole.status();
      const auto plain =
          folder ? LoadFolder(golden, WeightMode::kF32) : LoadGguf(golden, WeightMode::kF32);
      ASSERT_TRUE(plain.ok()) << plain.status();
      EXPECT_EQ((*whole)->config().layers, layers);
      ASSERT_EQ((*whole)->bytes(), (*plain)->bytes());
      EXPECT_EQ(std::memcmp((*whole)->data(), (*plain)->data(), (*plain)->bytes()), 0);
    }
    const Agreement agreement =
        Compare(golden, *LoadGguf(predicting, WeightMode::kF32), kernels::DetectIsas().back());
    EXPECT_EQ(agreement.same, 64);
    ++models;
  }
  EXPECT_EQ(models, 4);
}

// A folder multiplies the embedding and the logits; a GGUF has both factors in its weights.
TEST(DecoderFamiliesTest, ATiedHeadWithAFactorOfItsOwnIsATensorOfTheGguf) {
  FamilyGolden golden = *std::find_if(FamilyGoldens().begin(), FamilyGoldens().end(),
                                      [](const auto& each) { return each.family == "falcon h1"; });
  golden.entry.at("config").as_object()["tie_word_embeddings"] = true;
  golden.entry.at("tensors").as_object().erase("lm_head.weight");
  const auto folder = LoadFolder(golden, WeightMode::kF32);
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE((*folder)->config().tied_head);
  const auto file = GgufOfFolder(golden);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_NE((*file)->FindTensor("output.weight"), nullptr);
  const auto made = model::Weights::Load(**file, {.mode = WeightMode::kF32, .threads = 2});
  ASSERT_TRUE(made.ok()) << made.status();
  std::vector<std::vector<float>> rows;
  for (const auto& weights : {*folder, *made}) {
    Recorder recorder(weights, Isa::kScalar, 1, golden.prompt);
    const int sequence = recorder.driver().NewSequence();
    const std::span<const TokenId> prompt(golden.ids.data(), golden.prompt);
    ASSERT_TRUE(recorder.driver().Prefill(sequence, prompt, 8).ok());
    rows.push_back(recorder.Row(sequence, golden.prompt - 1));
  }
  float greatest = 0, worst = 0;
  for (size_t i = 0; i < rows[0].size(); ++i) {
    greatest = std::max(greatest, std::fabs(rows[0][i]));
    worst = std::max(worst, std::fabs(rows[0][i] - rows[1][i]));
  }
  EXPECT_GT(greatest, 0.5F);
  EXPECT_LT(worst, 1e-4F * greatest);
}

TEST(DecoderFamiliesTest, ARunnerWithoutSlotsRefusesAModelWithStates) {
  int refused = 0;
  for (const FamilyGolden& golden : FamilyGoldens()) {
    if (golden.family != "lfm2") continue;
    auto weights = LoadFolder(golden, WeightMode::kF32);
    ASSERT_TRUE(weights.ok()) << weights.status();
    runner::CpuRunnerOptions options;
    options.kernels = &kernels::KernelsFor(Isa::kScalar);
    options.pool = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = 1});
    options.kv_bytes = size_t{16} << 20;
    options.context = 64;
    const auto runner = runner::CpuModelRunner::Create(*std::move(weights), options);
    ASSERT_FALSE(runner.ok());
    EXPECT_EQ(runner.status().reason(), "invalid_value");
    EXPECT_NE(runner.status().message().find("recurrent states"), std::string::npos);
    ++refused;
  }
  EXPECT_EQ(refused, 1);
}

// All experts of a layer are two phases, so that a step's phases do not depend on how many experts
// its rows choose. Counted beyond those of a model without experts, whose other phases are the
// same.
TEST(DecoderFamiliesTest, AMixtureTakesTheSameRegionsForAnyRows) {
  const auto of = [](const std::string& family) -> const FamilyGolden& {
    return *std::find_if(FamilyGoldens().begin(), FamilyGoldens().end(),
                         [&](const FamilyGolden& golden) { return golden.family == family; });
  };
  for (const size_t rows : {1, 9, 60, 88}) {
    std::map<std::string, uint64_t> phases, counted;
    for (const std::string family :
         {"llama", "mixtral", "qwen3moe", "qwen2moe", "deepseek_v2 with groups", "llama4"}) {
      const auto weights = LoadGguf(of(family), WeightMode::kInt8, tensor::DType::kQ8_0);
      ASSERT_TRUE(weights.ok()) << weights.status();
      const model::ModelConfig& config = (*weights)->config();
      counted[family] = static_cast<uint64_t>(config.layers) *
                        static_cast<uint64_t>(model::Decoder::RegionsPerLayer(
                            config, true, 2, static_cast<int>(rows)));
      Recorder recorder(*weights, Isa::kScalar, 2, 2 * rows);
      for (const size_t from : {0, 7}) {
        const std::vector<TokenId>& ids = of(family).ids;
        DirectDriver::Part whole{recorder.driver().NewSequence(), {}};
        for (size_t i = 0; i < rows; ++i) whole.tokens.push_back(ids[(from + i) % ids.size()]);
        const uint64_t before = recorder.Phases();
        ASSERT_TRUE(recorder.driver().Step({&whole, 1}).ok());
        const uint64_t taken = recorder.Phases() - before;
        if (from != 0) {
          EXPECT_EQ(taken, phases[family]) << family;
        }
        phases[family] = taken;
      }
      EXPECT_EQ(phases[family] - phases["llama"], counted[family] - counted["llama"])
          << family << ", " << rows << " rows";
    }
  }
}

// --- quantised folders ---

// The layouts whose codes are all kept. The others are quantised again, to 8 bits.
bool KeepsCodes(const FamilyGolden& golden) {
  return !golden.entry.at("codes").as_string().empty();
}

// Its type in memory is that of the folder.
bool IsMxfp4(const FamilyGolden& golden) { return golden.family == "mxfp4"; }

TEST_P(DecoderFamilies, QuantizedFoldersGiveTheLogitsOfTheirValues) {
  ASSERT_EQ(QuantizedGoldens().size(), 14U);
  for (const FamilyGolden& golden : CasesOn(GetParam(), QuantizedGoldens())) {
    SCOPED_TRACE(golden.family);
    const auto checkpoint = OpenQuantized(golden);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    std::string read;
    for (const auto* lines : {&checkpoint->notes, &checkpoint->remarks})
      for (const std::string& line : *lines) read += line + "\n";
    const char* const remark = IsMxfp4(golden) ? "MXFP4, kept in 4 bits" : ", read as Q";
    EXPECT_NE(read.find(remark), std::string::npos) << read;
    const auto floats = model::Weights::Load(*checkpoint, {.mode = WeightMode::kF32, .threads = 2});
    ASSERT_TRUE(floats.ok()) << floats.status();
    const Agreement exact = Compare(golden, *floats, GetParam());
    const bool tiles = kernels::KernelsFor(GetParam()).gemm.bf16_tiles;
    const auto served = model::Weights::Load(
        *checkpoint, {.mode = WeightMode::kInt8, .threads = 2, .bf16_tiles = tiles});
    ASSERT_TRUE(served.ok()) << served.status();
    const Agreement fast = Compare(golden, *served, GetParam());
    EXPECT_EQ(exact.rows, 24);
    EXPECT_EQ(exact.same, 24);
    // Q4_1 rounds scale times zero point. Logits are up to 16.
    const bool rounds = read.find("zero point rounded") != std::string::npos;
    const bool again = !KeepsCodes(golden) && !IsMxfp4(golden);  // quantised
    EXPECT_LT(exact.worst, again ? 0.5 : rounds ? 0.03 : 1e-3);
    EXPECT_LT(exact.mean, again ? 0.1 : rounds ? 0.01 : 1e-4);
    EXPECT_GE(fast.same, 22);
    EXPECT_LT(fast.mean, 0.15);
    ExpectSameBits(golden, *served, GetParam(), 30);
  }
}

TEST(DecoderFamiliesTest, Mxfp4StaysInFourBitsFromAFolderAndAGguf) {
  const auto golden = std::find_if(QuantizedGoldens().begin(), QuantizedGoldens().end(), IsMxfp4);
  ASSERT_NE(golden, QuantizedGoldens().end());
  const auto folder = OpenQuantized(*golden);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const auto file = GgufOf(*folder, golden->family);
  ASSERT_TRUE(file.ok()) << file.status();
  const gguf::TensorInfo* whole = (*file)->FindTensor("blk.1.ffn_up_exps.weight");
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(whole->dtype(), tensor::DType::kMXFP4);
  EXPECT_EQ(whole->shape, (tensor::Shape{64, 32, 4}));
  const auto from_folder = model::Weights::Load(*folder, {.threads = 2});
  const auto from_gguf = model::Weights::Load(**file, {.threads = 2});
  ASSERT_TRUE(from_folder.ok() && from_gguf.ok())
      << from_folder.status() << ", " << from_gguf.status();
  for (const auto& weights : {*from_folder, *from_gguf}) {
    for (int layer = 0; layer < weights->config().layers; ++layer) {
      for (const model::ExpertWeights& expert : weights->layer(layer).experts) {
        for (const model::Projection* matrix : {&expert.gate_up, &expert.down}) {
          EXPECT_EQ(matrix->parts[0].format, kernels::WeightFormat::kMXFP4);
          // 4 bits, and a scale of 16 for each 32.
          const auto values = static_cast<size_t>(matrix->parts[0].rows) *
                              static_cast<size_t>(matrix->parts[0].cols);
          EXPECT_EQ(kernels::PackedBytes(matrix->parts[0]), values * 9 / 16);
        }
      }
    }
  }
  for (const model::WeightMode mode : {WeightMode::kInt8, WeightMode::kF32}) {
    const auto one = model::Weights::Load(*folder, {.mode = mode, .threads = 2});
    const auto other = model::Weights::Load(**file, {.mode = mode, .threads = 2});
    ASSERT_TRUE(one.ok() && other.ok()) << one.status() << ", " << other.status();
    ASSERT_EQ((*one)->bytes(), (*other)->bytes());
    EXPECT_EQ(std::memcmp((*one)->data(), (*other)->data(), (*one)->bytes()), 0);
  }
}

// Groups of experts and YaRN's factor of scores show in the reference's logits.
TEST(DecoderFamiliesTest, DeepseekWithoutGroupsOrFactorsGivesOtherLogits) {
  struct Case {
    std::string_view family, key;
    boost::json::value value;
  };
  const boost::json::object plain = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  boost::json::object scaled = plain;
  scaled["attention_factor"] = 1.0;  // as it is with both factors of magnitude
  for (const Case& each : {Case{"deepseek_v3", "n_group", 1},
                           {"deepseek_v3", "rope_scaling", scaled},
                           {"deepseek_v3", "routed_scaling_factor", 2.0},
                           {"deepseek_v3", "norm_topk_prob", false},
                           {"deepseek_v2 with groups", "topk_method", "greedy"},
                           {"deepseek_v2 with groups", "rope_parameters", scaled}}) {
    FamilyGolden changed = GoldenOf(each.family);
    changed.entry.at("config").as_object()[each.key] = each.value;
    const auto weights = LoadFolder(changed, WeightMode::kF32);
    ASSERT_TRUE(weights.ok()) << each.key << ": " << weights.status();
    EXPECT_GT(Compare(changed, *weights, Isa::kScalar).worst, 1e-2)
        << each.family << ": " << each.key;
  }
}

TEST(DecoderFamiliesTest, ABitNetThatContradictsItsTensorsIsRefused) {
  for (const Contradiction& each :
       {Contradiction{"intermediate_size", 128, "st_shape", "mlp.ffn_sub_norm.weight"},
        {"num_key_value_heads", 1, "st_shape", "self_attn.k_proj.weight"},
        {"head_dim", 32, "st_shape", "self_attn.q_proj.weight"},
        {"attention_bias", true, "model_tensor_missing", "blk.0.attn_q.bias"},
        {"hidden_act", "gelu", "model_hparam", "hidden_act"}}) {
    FamilyGolden changed = GoldenOf("bitnet");
    changed.entry.at("config").as_object()[each.key] = each.value;
    const auto weights = LoadFolder(changed, WeightMode::kF32);
    ExpectRefused(weights.status(), each.key, each.reason, each.part);
  }
  for (const std::string_view norm : {"self_attn.attn_sub_norm", "mlp.ffn_sub_norm"}) {
    FamilyGolden changed = GoldenOf("bitnet");
    boost::json::object& tensors = changed.entry.at("tensors").as_object();
    ASSERT_EQ(tensors.erase(fmt::format("model.layers.1.{}.weight", norm)), 1u);
    EXPECT_EQ(LoadFolder(changed, WeightMode::kF32).status().reason(), "model_tensor_missing");
  }
  FamilyGolden keyless = GoldenOf("bitnet");
  ASSERT_EQ(keyless.entry.at("keys").as_object().erase("hidden_activation"), 1u);
  const auto silu = LoadGguf(keyless, WeightMode::kF32);
  ASSERT_TRUE(silu.ok()) << silu.status();
  EXPECT_GT(Compare(keyless, *silu, Isa::kScalar).worst, 1e-2) << "other readers take SiLU too";
  keyless.entry.at("keys").as_object()["hidden_activation"] = "gelu";
  EXPECT_EQ(LoadGguf(keyless, WeightMode::kF32).status().reason(), "model_hparam");
}

// Each trait shows in the reference's logits.
TEST(DecoderFamiliesTest, Llama4WithoutATraitGivesOtherLogits) {
  struct Case {
    std::string_view family, key;
    boost::json::value value;
  };
  constexpr std::string_view kMixed = "llama4", kDense = "llama4 with layers without experts";
  const boost::json::array full(5, "full_attention");
  for (const Case& each : {Case{kMixed, "attention_chunk_size", 32},
                           {kMixed, "layer_types", full},
                           {kMixed, "attn_scale", 0.0},
                           {kMixed, "floor_scale", 9},
                           {kMixed, "use_qk_norm", false},
                           {kMixed, "no_rope_layers", {1, 1, 1, 1, 1}},
                           {kMixed, "rope_scaling", nullptr},
                           {kDense, "attention_chunk_size", 25},
                           {kDense, "attn_temperature_tuning", false},
                           {kDense, "use_qk_norm", true},
                           {kDense, "num_experts_per_tok", 1}}) {
    FamilyGolden changed = GoldenOf(each.family);
    changed.entry.at("config").as_object()[each.key] = each.value;
    const auto weights = LoadFolder(changed, WeightMode::kF32);
    ASSERT_TRUE(weights.ok()) << each.key << ": " << weights.status();
    EXPECT_GT(Compare(changed, *weights, Isa::kScalar).worst, 1e-2)
        << each.family << ": " << each.key;
  }
}

TEST(DecoderFamiliesTest, TheTextPartOfALlama4FolderIsServed) {
  const FamilyGolden& golden = GoldenOf("llama4");
  FamilyGolden outer = golden;
  boost::json::object& config = outer.entry.at("config").as_object();
  config = {{"model_type", "llama4"},
            {"image_token_index", 7},
            {"vision_config", {{"model_type", "llama4_vision_model"}, {"hidden_size", 32}}},
            {"text_config", boost::json::object(config)}};
  boost::json::object& tensors = outer.entry.at("tensors").as_object();
  tensors["vision_model.class_embedding"] = boost::json::array{32};
  tensors["multi_modal_projector.linear_1.weight"] = boost::json::array{64, 32};
  const auto one = LoadFolder(golden, WeightMode::kF32);
  const auto other = LoadFolder(outer, WeightMode::kF32);
  ASSERT_TRUE(one.ok() && other.ok()) << one.status() << ", " << other.status();
  ASSERT_EQ((*one)->bytes(), (*other)->bytes());
  EXPECT_EQ(std::memcmp((*one)->data(), (*other)->data(), (*one)->bytes()), 0);
}

// Every head has keys and values of its own in the cache, values as wide as keys; eight bits of
// them choose nearly always as transformers does.
TEST(DecoderFamiliesTest, LatentAttentionRunsOnACacheOfAnyFormat) {
  int same = 0, models = 0;
  for (const FamilyGolden& golden : FamilyGoldens()) {
    if (!golden.family.starts_with("deepseek")) continue;
    SCOPED_TRACE(golden.family);
    const auto weights = LoadFolder(golden, WeightMode::kF32);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const model::ModelConfig& config = (*weights)->config();
    EXPECT_EQ(config.kv_heads, config.heads);
    const auto& kernels = kernels::KernelsFor(Isa::kScalar);
    for (const auto& [dtype, bytes] : {std::pair{model::KvDtype::kF32, size_t{4}},
                                       {model::KvDtype::k16Bit, size_t{2}},
                                       {model::KvDtype::kInt8, size_t{1}}}) {
      const size_t values = 2 * static_cast<size_t>(config.heads * config.head_dim * config.layers);
      const size_t block = model::Decoder::KvBlockBytes(config, WeightMode::kF32, kernels, dtype);
      EXPECT_GE(block, values * kBlockTokens * bytes);
      EXPECT_LE(block, values * kBlockTokens * bytes * 5 / 4);
    }
    const Agreement agreement =
        Compare(golden, *weights, kernels::DetectIsas().back(), model::KvDtype::kInt8);
    EXPECT_GE(agreement.same, 56);
    EXPECT_LT(agreement.mean, 0.15);
    same += agreement.same;
    ++models;
  }
  EXPECT_EQ(models, 4);
  EXPECT_GE(same, 60 * models);
}

// Published folders have the keys and values of layers that share those of others, and name sizes
// of heads by other keys than the transformers that made these.
TEST(DecoderFamiliesTest, APublishedFormOfGemma4GivesTheSameWeights) {
  for (const std::string_view family : {"gemma4 with shared keys", "gemma4 with larger heads"}) {
    SCOPED_TRACE(family);
    const FamilyGolden& golden = GoldenOf(family);
    FamilyGolden published = golden;
    boost::json::object& config = published.entry.at("config").as_object();
    const boost::json::object sizes =
        config.at("per_layer_config").as_object().begin()->value().as_object();
    config.erase("per_layer_config");
    config["global_head_dim"] = sizes.at("head_dim");
    config["num_global_key_value_heads"] = nullptr;
    if (sizes.contains("num_key_value_heads"))
      config["num_global_key_value_heads"] = sizes.at("num_key_value_heads");
    if (config.at("num_kv_shared_layers") == 2) {
      boost::json::object& tensors = published.entry.at("tensors").as_object();
      for (const char* name : {"k_proj.weight", "v_proj.weight"})
        tensors[fmt::format("model.layers.4.self_attn.{}", name)] = boost::json::array{64, 64};
      tensors["model.layers.4.self_attn.k_norm.weight"] = boost::json::array{64};
    }
    // Inside of a model that reads pictures too.
    boost::json::object outer = {{"model_type", "gemma4"}, {"text_config", config}};
    outer["tie_word_embeddings"] = config.at("tie_word_embeddings");
    config = outer;
    const auto one = LoadFolder(golden, WeightMode::kF32);
    const auto other = LoadFolder(published, WeightMode::kF32);
    ASSERT_TRUE(one.ok() && other.ok()) << one.status() << ", " << other.status();
    ASSERT_EQ((*one)->bytes(), (*other)->bytes());
    EXPECT_EQ(std::memcmp((*one)->data(), (*other)->data(), (*one)->bytes()), 0);
    EXPECT_EQ((*one)->config().kv_layer, (*other)->config().kv_layer);
  }
}

// FNV-1a of what is read, in the order of make_quantized_goldens.py.
TEST(DecoderFamiliesTest, QuantizedFoldersKeepThePublishedCodesAndScales) {
  int kept = 0;
  for (const FamilyGolden& golden : QuantizedGoldens()) {
    if (!KeepsCodes(golden)) continue;
    SCOPED_TRACE(golden.family);
    const auto checkpoint = OpenQuantized(golden);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    std::map<std::string, const model::StoredTensor*> matrices;
    for (const model::StoredTensor& tensor : checkpoint->tensors->tensors()) {
      if (tensor.dtype != tensor::DType::kF32) matrices[tensor.in_file] = &tensor;
    }
    std::string codes, scales;
    for (const auto& [name, tensor] : matrices) {
      std::vector<std::byte> bytes(tensor->bytes);
      ASSERT_TRUE(checkpoint->tensors->Read(*tensor, 0, bytes).ok());
      const size_t block_bytes = tensor::RowBytes(tensor->dtype, tensor::kBlock);
      for (size_t at = 0; at < bytes.size(); at += block_bytes) {
        uint16_t halves[2];
        std::memcpy(halves, &bytes[at], sizeof halves);
        const float scale = tensor::HalfToFloat(halves[0]);
        scales.append(reinterpret_cast<const char*>(&scale), sizeof scale);
        const bool points = tensor->dtype == tensor::DType::kQ4_1;
        const int zero =
            points ? static_cast<int>(std::lround(-tensor::HalfToFloat(halves[1]) / scale)) : 8;
        const std::byte* const stored = &bytes[at + (points ? 4 : 2)];
        for (size_t i = 0; i < tensor::kBlock; ++i) {
          if (tensor->dtype == tensor::DType::kQ8_0) {
            codes += static_cast<char>(stored[i]);
          } else {
            const int pair = static_cast<int>(stored[i % 16]);
            codes += static_cast<char>((i < 16 ? pair & 15 : pair >> 4) - zero);
          }
        }
      }
    }
    EXPECT_EQ(fmt::format("{:016x}", HashOfBytes(codes)),
              std::string(golden.entry.at("codes").as_string()));
    EXPECT_EQ(fmt::format("{:016x}", HashOfBytes(scales)),
              std::string(golden.entry.at("scales").as_string()));
    ++kept;
  }
  EXPECT_EQ(kept, 7);
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, DecoderFamilies, testing::ValuesIn(kernels::DetectIsas()),
                         [](const auto& isa) { return std::string(kernels::IsaName(isa.param)); });

}  // namespace
}  // namespace tutti::parity
