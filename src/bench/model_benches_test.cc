// The benches that run a model, end to end on a small generated checkpoint: figures are present,
// answers are compared, and the verdicts of gates and limits follow from their inputs.
#include <gmock/gmock.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <optional>
#include <span>
#include <string>

#include "bench/concurrency.h"
#include "bench/constrained.h"
#include "bench/decisions.h"
#include "bench/forward.h"
#include "bench/kernels_report.h"
#include "bench/perplexity.h"
#include "bench/speculation.h"
#include "bench/strategies.h"
#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"

namespace tutti::bench {
namespace {

class ModelBenchesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    gguf::testing::CheckpointSpec spec;
    spec.type = tensor::DType::kQ4_1;
    file_ = new gguf::testing::TempFile(gguf::testing::MakeCheckpoint(spec).Build());
  }
  static void TearDownTestSuite() { delete file_; }
  static Flags SmallFlags() {
    return {{"threads", "2"}, {"kv-cache-bytes", "16MiB"}, {"context", "256"}};
  }
  static gguf::testing::TempFile* file_;
};
gguf::testing::TempFile* ModelBenchesTest::file_ = nullptr;

TEST_F(ModelBenchesTest, TheEngineBenchReportsEveryBatchWithEqualAnswers) {
  ForwardOptions options;
  options.model = file_->path();
  options.flags = SmallFlags();
  options.prompt_tokens = 20;
  options.new_tokens = 6;
  options.batches = {1, 3};
  options.repeats = 1;
  options.calibrate = false;
  std::vector<std::string> lines;
  const auto report =
      BenchForward(options, [&](const std::string& line) { lines.push_back(line); });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->failures.empty());
  ASSERT_EQ(lines.size(), 7u);  // model, regions, head, two rows, machine, meaning of %
  EXPECT_EQ(lines[1], "parallel regions per layer: 6 at 1 row, 9 at 512 rows");
  EXPECT_EQ(report->json.at("schema"), "tutti.bench.engine.v1");
  const auto& rows = report->json.at("rows").as_array();
  ASSERT_EQ(rows.size(), 2u);
  for (const boost::json::value& row : rows) {
    EXPECT_TRUE(row.at("equal").as_bool());
    EXPECT_EQ(row.at("prompt_tokens").as_int64(), 20);
    for (const char* key :
         {"prefill_tok_s", "decode_tok_s", "prefill_ms", "decode_ms", "ttft_ms"}) {
      EXPECT_GT(row.at(key).as_double(), 0) << key;
    }
    EXPECT_LE(row.at("decode_tok_s_min").as_double(), row.at("decode_tok_s").as_double());
    EXPECT_GE(row.at("decode_tok_s_max").as_double(), row.at("decode_tok_s").as_double());
    EXPECT_GT(row.at("fraction_of_limit").as_double(), 0);
    EXPECT_LT(row.at("fraction_of_limit").as_double(), 15);  // others may run while it measures
  }
}

TEST_F(ModelBenchesTest, TheEngineBenchComparesFusedLayersWithOneOperationAtATime) {
  ForwardOptions options;
  options.model = file_->path();
  options.flags = SmallFlags();
  options.flags["dtype"] = "f32";
  options.prompt_tokens = 20;
  options.new_tokens = 6;
  options.batches = {1, 3};
  options.repeats = 1;
  options.calibrate = false;
  options.fusion = true;
  const auto report = BenchForward(options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, testing::IsEmpty());
  EXPECT_THAT(report->text, testing::HasSubstr("18 one operation at a time"));
  for (const boost::json::value& row : report->json.at("rows").as_array()) {
    const boost::json::value& fusion = row.at("fusion");
    EXPECT_GT(fusion.at("decode_ratio").as_double(), 0);
    EXPECT_GT(fusion.at("outputs").as_int64(), 0);
    EXPECT_EQ(fusion.at("outputs_equal"), fusion.at("outputs"));
    EXPECT_LT(row.at("regions_per_layer").as_int64(), fusion.at("regions_per_layer").as_int64());
  }
  options.batches = {1};
  options.least_fusion = 1e6;
  const auto short_of_it = BenchForward(options, nullptr);
  ASSERT_TRUE(short_of_it.ok()) << short_of_it.status();
  EXPECT_THAT(short_of_it->failures,
              testing::ElementsAre(testing::HasSubstr("at least 1000000 was asked for")));
}

TEST_F(ModelBenchesTest, TwoPhasesPrefillEverythingOnceAndThenDecodeAllTogether) {
  Flags flags = SmallFlags();
  flags["max-num-seqs"] = "4";
  const auto session = Session::Load(file_->path(), flags);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto prompts = RandomPrompts((*session)->vocabulary(), 4, 30, 1);
  const auto before = (*session)->engine().stats();
  const auto phases = (*session)->PrefillThenDecode(prompts, 8);
  ASSERT_TRUE(phases.ok()) << phases.status();
  const auto after = (*session)->engine().stats();
  EXPECT_EQ(after.prompt_tokens_computed - before.prompt_tokens_computed, 4u * 30u);
  EXPECT_EQ(after.preemptions, before.preemptions);
  EXPECT_LE(after.steps - before.steps,
            1u + 8u);  // one for the prompts, one for each further token of all four
  for (const ServedRequest& request : phases->requests) {
    EXPECT_EQ(request.output.size(), 9u);
    EXPECT_LE(request.first_token_s, phases->prefill_s);
    EXPECT_GT(request.end_s, phases->prefill_s);
  }
  // The same answers as when served together.
  const auto served = (*session)->Serve(prompts, 9);
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(Fingerprint(*served), Fingerprint(phases->requests));
}

TEST_F(ModelBenchesTest, StrategiesAnswerAlikeAndAreAllReported) {
  StrategiesOptions options;
  options.model = file_->path();
  options.flags = SmallFlags();
  options.shapes = {{1, 6, 0.95}, {4, 6, 2.0}};
  options.rounds = 1;
  options.calibrate = false;
  options.max_num_seqs = 4;
  options.gated = false;
  const auto report = BenchStrategies(options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, testing::IsEmpty());
  const auto& shapes = report->json.at("shapes").as_array();
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_TRUE(shapes[1].at("equal").as_bool());
  for (const char* strategy : {"blocking", "interleaved", "continuous"}) {
    EXPECT_GT(shapes[1].at("strategies").at(strategy).at("tok_s").as_double(), 0) << strategy;
  }
  EXPECT_GT(shapes[1].at("allowed").as_double(),
            0.99);  // 1 if multiplying is slower than reading
  EXPECT_LE(shapes[1].at("allowed").as_double(), 4.0);
  EXPECT_EQ(report->json.at("gates").as_array().size(),
            3u);  // two shapes, and blocking against the engine alone
}

TEST_F(ModelBenchesTest, ProposedTokensChangeNoAnswerAndAreReported) {
  SpeculationOptions options;
  options.model = file_->path();
  options.flags = SmallFlags();
  options.new_tokens = 24;
  options.passage_words = 6;
  options.max_num_seqs = {1, 3};
  options.rounds = 1;
  options.calibrate = false;
  options.gated = false;
  const auto report = BenchSpeculation(options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, testing::IsEmpty());
  const auto& rows = report->json.at("rows").as_array();
  ASSERT_EQ(rows.size(), 6u);
  uint64_t proposed = 0;
  for (const auto& row : rows) {
    EXPECT_TRUE(row.at("equal").as_bool());
    EXPECT_GT(row.at("ratio").as_double(), 0);
    EXPECT_LE(row.at("accepted").to_number<uint64_t>(), row.at("proposed").to_number<uint64_t>());
    proposed += row.at("proposed").to_number<uint64_t>();
  }
  EXPECT_GT(proposed, 0u);
}

TEST_F(ModelBenchesTest, ADraftModelsProposalsAreReportedToo) {
  SpeculationOptions options;
  options.model = file_->path();
  options.flags = SmallFlags();
  options.flags["draft"] = file_->path();
  options.new_tokens = 24;
  options.passage_words = 6;
  options.max_num_seqs = {2};
  options.rounds = 1;
  options.calibrate = false;
  options.gated = false;
  testing::internal::CaptureStderr();
  const auto report = BenchSpeculation(options, nullptr);
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, testing::IsEmpty());
  EXPECT_THAT(report->text, testing::HasSubstr("; draft llama"));
  // Regression: the warning about --draft was printed for the half of the bench without a draft
  // model.
  EXPECT_THAT(said, testing::Not(testing::HasSubstr("--draft")));
}

TEST_F(ModelBenchesTest, AGateOutOfReachFailsTheStrategyBench) {
  StrategiesOptions options;
  options.model = file_->path();
  options.flags = SmallFlags();
  options.shapes = {{1, 4, 1e6}};
  options.rounds = 1;
  options.calibrate = false;
  const auto report = BenchStrategies(options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_FALSE(report->failures.empty());
  EXPECT_THAT(report->failures[0], testing::HasSubstr("continuous / blocking at 1 x 4"));
  EXPECT_FALSE(report->json.at("passed").as_bool());
}

TEST_F(ModelBenchesTest, SampledTextsAreTheSameForOneClientAndFour) {
  ConcurrencyOptions options;
  options.model = file_->path();
  options.flags = SmallFlags();
  options.requests = 12;
  options.new_tokens = 10;
  options.warmup_requests = 2;
  options.levels = {1, 4};
  options.gated = false;
  const auto report = BenchConcurrency(options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, testing::IsEmpty());
  const auto& rows = report->json.at("rows").as_array();
  ASSERT_EQ(rows.size(), 2u);
  for (const boost::json::value& row : rows) {
    EXPECT_EQ(row.at("completed").as_int64(), 12);
    EXPECT_EQ(row.at("output_tokens").as_int64(), 120);
    EXPECT_TRUE(row.at("equal").as_bool());
  }
}

TEST_F(ModelBenchesTest, DecisionsAreEqualAloneAndShareTheirText) {
  DecisionsOptions options;
  options.model = file_->path();
  options.flags = SmallFlags();
  options.tokens = 40;
  options.labels = 3;
  options.questions = {1, 4};
  options.clients = 3;
  options.decisions = 16;
  options.calibrate = false;
  const auto report = BenchDecisions(options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, testing::IsEmpty());
  EXPECT_THAT(report->text, testing::HasSubstr("goal: 1000 decisions/s"));
  const auto& rows = report->json.at("rows").as_array();
  ASSERT_EQ(rows.size(), 2u);
  for (const boost::json::value& row : rows) {
    EXPECT_EQ(row.at("decisions").as_int64(), 16);
    EXPECT_TRUE(row.at("equal").as_bool());
    EXPECT_GT(row.at("decisions_s").as_double(), 0);
    EXPECT_GT(row.at("limit_decisions_s").as_double(), 0);
    EXPECT_GE(row.at("prompt_tokens").as_int64(), 16 * 40);
  }
  // Clients at once preempt each other where the cache is small, and then compute texts again. A
  // question waits for another one of its text only where it saves 64 tokens.
  options.clients = 1;
  options.tokens = 160;
  const auto alone = BenchDecisions(options, nullptr);
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto computed = [&](size_t row) {
    return alone->json.at("rows").as_array()[row].at("computed_tokens").as_uint64();
  };
  EXPECT_LT(computed(1), computed(0)) << "the text is computed once for four questions";
  options.questions = {1};
  options.least_rate = 1e9;
  const auto slow = BenchDecisions(options, nullptr);
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_THAT(slow->failures, testing::ElementsAre(testing::HasSubstr("below 1000000000.0")));
  options.tokens = 4000;
  EXPECT_EQ(BenchDecisions(options, nullptr).status().reason(), "context_length_exceeded");
}

TEST_F(ModelBenchesTest, ModelsThatCannotBeLoadedAreErrors) {
  ForwardOptions options;
  options.model = "/nonexistent/model.gguf";
  EXPECT_FALSE(BenchForward(options, nullptr).ok());
  options.model = file_->path();
  options.flags = {{"isa", "abacus"}};
  EXPECT_EQ(BenchForward(options, nullptr).status().reason(), "invalid_value");
}

TEST_F(ModelBenchesTest, AModelsCostCountsWhatAStepReadsAndMultiplies) {
  const auto kernels = kernels::SelectKernels();
  ASSERT_TRUE(kernels.ok());
  const auto checkpoint = model::DecoderCheckpoint::FromFiles(model::ModelFiles::At(file_->path()));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto planned = model::Weights::Plan(*checkpoint, {});
  ASSERT_TRUE(planned.ok()) << planned.status();
  const std::optional cost = ModelCost::Of(**planned, **kernels);
  // 2 layers of width 256, 4 heads and 2 KV heads of 64, feed-forward 512: weights by hand.
  const double layer = 256.0 * 256 * 2 + 2 * 128.0 * 256 + 3 * 256.0 * 512;
  EXPECT_DOUBLE_EQ(cost->body_int8_ops, 2 * 2 * layer);
  EXPECT_DOUBLE_EQ(cost->attention_ops_per_key, 4.0 * 256 * 2);
  // Q4_1: 20 bytes per 32. The head's rows fill whole panels in memory.
  const double head_rows = std::ceil(cost->head_int8_ops / 2 / 256 / 32) * 32;
  EXPECT_DOUBLE_EQ(cost->weight_bytes, (2 * layer + head_rows * 256) * 20 / 32);

  const kernels::MachineLimits limits{(*kernels)->isa, 1, 1e9, 1e12, 1e11, 0};
  EXPECT_NEAR(cost->DecodeSeconds(limits, 1, 0), cost->weight_bytes / 1e9,
              1e-12);  // slow memory: reads dominate
  const kernels::MachineLimits slow{(*kernels)->isa, 1, 1e15, 1e9, 1e9, 0};
  EXPECT_NEAR(cost->DecodeSeconds(slow, 2, 0),
              2 * (cost->body_int8_ops + cost->head_int8_ops) / 1e9, 1e-9);
  EXPECT_GT(cost->PrefillSeconds(slow, 1, 100), 100 * cost->body_int8_ops / 1e9);
  // Batching helps while reads dominate, and not if multiplication does.
  const StrategyShape shape{8, 20, 0};
  EXPECT_GT(BlockingLimitSeconds(*cost, limits, shape, 10) /
                ContinuousLimitSeconds(*cost, limits, shape, 10),
            6);
  EXPECT_NEAR(
      BlockingLimitSeconds(*cost, slow, shape, 10) / ContinuousLimitSeconds(*cost, slow, shape, 10),
      1, 0.01);
}

// Regression: 16-bit weights were counted as pairs of bfloat16 for any compute type, and all others
// at their size in the file, so the limit was too high.
TEST(ModelCostTest, CountsWeightsAsTheyLieInMemory) {
  gguf::testing::CheckpointSpec spec;
  spec.type = tensor::DType::kF16;
  const auto file =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(spec).Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto checkpoint = model::DecoderCheckpoint::FromGguf(**file);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto kernels = kernels::SelectKernels();
  ASSERT_TRUE(kernels.ok());
  const auto cost = [&](model::WeightMode mode, bool bf16_pairs) {
    const auto planned =
        model::Weights::Plan(*checkpoint, {.mode = mode, .bf16_pairs = bf16_pairs});
    EXPECT_TRUE(planned.ok()) << planned.status();
    return ModelCost::Of(**planned, **kernels);
  };
  const double body = 2 * (256.0 * 256 * 2 + 2 * 128.0 * 256 + 3 * 256.0 * 512);
  const ModelCost pairs = cost(model::WeightMode::kInt8, true);
  EXPECT_DOUBLE_EQ(pairs.body_bf16_ops, 2 * body);
  EXPECT_DOUBLE_EQ(pairs.body_float_ops, 0);
  const ModelCost floats = cost(model::WeightMode::kF16, true);  // as packed files are, too
  EXPECT_DOUBLE_EQ(floats.body_float_ops, 2 * body);
  EXPECT_DOUBLE_EQ(floats.body_bf16_ops, 0);
  EXPECT_DOUBLE_EQ(floats.head_bf16_ops, 0);
  EXPECT_GE(pairs.weight_bytes, 2 * (body + pairs.head_bf16_ops / 2));
  EXPECT_DOUBLE_EQ(floats.weight_bytes, pairs.weight_bytes);
  EXPECT_DOUBLE_EQ(cost(model::WeightMode::kF32, true).weight_bytes, 2 * pairs.weight_bytes);
  EXPECT_DOUBLE_EQ(cost(model::WeightMode::kF32, true).body_float_ops, 2 * body);
  EXPECT_DOUBLE_EQ(cost(model::WeightMode::kInt8, false).body_float_ops, 2 * body);
}

TEST(KernelsReportTest, EveryKindOfKernelHasFigures) {
  KernelsOptions options;
  options.threads = 2;
  options.quick = true;
  const auto report = BenchKernels(options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->json.at("gemm").as_array().size(), 4u);
  EXPECT_EQ(report->json.at("attention").as_array().size(), 4u);
  EXPECT_EQ(report->json.at("norm").as_array().size(), 4u);
  for (const auto& row : report->json.at("gemm").as_array())
    EXPECT_GT(row.at("gops").as_double(), 0);
}

// Regression: --quick knew only two formats, and an unknown one was refused only after the machine
// was measured.
TEST(KernelsReportTest, TheFormatsOfProductsAreChosenByTheirNames) {
  KernelsOptions options;
  options.threads = 1;
  options.quick = true;
  options.formats = {"q6", "Q4_0"};
  const auto report = BenchKernels(options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  const auto& rows = report->json.at("gemm").as_array();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].at("format").as_string(), "Q6");
  EXPECT_EQ(rows[3].at("format").as_string(), "Q4_0");
  options.formats = {"Q9"};
  const Status refused = BenchKernels(options, nullptr).status();
  EXPECT_EQ(refused.reason(), "invalid_value");
  EXPECT_NE(refused.message().find("Q8_0"), std::string::npos) << refused.message();
}

// Regression: one bench did not know avx512, which servers accept.
TEST(KernelsReportTest, AnInstructionSetHasTheNamesThatAServerTakes) {
  KernelsOptions options;
  options.threads = 1;
  options.quick = true;
  options.isa = "avx512vnni";
  const auto whole = BenchKernels(options, nullptr);
  options.isa = "avx512";
  const auto alias = BenchKernels(options, nullptr);
  ASSERT_EQ(alias.ok(), whole.ok()) << alias.status() << whole.status();
  if (alias.ok()) {
    EXPECT_EQ(alias->json.at("machine").at("isa").as_string(), "avx512vnni");
  } else {
    EXPECT_EQ(alias.status(), whole.status()) << "not by its name";
  }
}

TEST_F(ModelBenchesTest, PerplexityIsThatOfTheWindowsAndComparesTwoForms) {
  const std::string sentence = "The world is in the hand of another, and that is all. ";
  std::string text;
  for (int i = 0; i < 6; ++i) text += sentence;
  const gguf::testing::TempFile page(std::as_bytes(std::span(text)), ".txt");
  PerplexityOptions options;
  options.model = file_->path();
  options.flags = SmallFlags();
  options.text = page.path();
  options.window = 32;
  options.tokens = 90;
  options.against = "f32";
  const auto report = BenchPerplexity(options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->failures.empty());
  EXPECT_EQ(report->json.at("tokens_scored").as_uint64(), 87u);  // 32, 32 and 26, less one each
  const double perplexity = report->json.at("perplexity").as_double();
  EXPECT_GT(perplexity, 50);  // random weights: nearly uniform over 306 tokens
  EXPECT_LT(perplexity, 3000);
  const auto& against = report->json.at("against").as_object();
  EXPECT_NEAR(against.at("perplexity_ratio").as_double(), 1.0, 0.05);
  EXPECT_GT(against.at("mean_abs_delta_logprob").as_double(), 0);
  EXPECT_LT(against.at("mean_abs_delta_logprob").as_double(), 0.2);

  // --kv-dtype applies to the first model only. The second keeps its own cache type, so that the
  // comparison includes the loss through the cache.
  options.flags["kv-dtype"] = "fp16";
  const auto halves = BenchPerplexity(options, nullptr);
  ASSERT_TRUE(halves.ok()) << halves.status();
  const auto summary_of = [](const boost::json::value& of) {
    return std::string(of.at("summary").as_string());
  };
  EXPECT_THAT(summary_of(report->json.at("against")), testing::EndsWith("of fp32"));
  EXPECT_EQ(summary_of(halves->json.at("against")), summary_of(report->json.at("against")));
  EXPECT_NE(summary_of(halves->json), summary_of(report->json));
  options.flags.erase("kv-dtype");

  // Gates: a file compared with itself shows no difference.
  options.against = file_->path();
  options.max_ratio = 1.0;
  options.least_agreement = 100;
  const auto same = BenchPerplexity(options, nullptr);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_TRUE(same->failures.empty());
  EXPECT_EQ(same->json.at("against").at("mean_abs_delta_logprob").as_double(), 0);
  options.max_ratio = 0.5;
  EXPECT_EQ(BenchPerplexity(options, nullptr)->failures.size(), 1u);

  options.window = 1000;
  EXPECT_EQ(BenchPerplexity(options, nullptr).status().reason(), "invalid_value");

  // Regression: windows without BOS made Gemma's perplexity far too high.
  gguf::testing::CheckpointSpec spec;
  spec.add_bos = true;
  const gguf::testing::TempFile with_bos(gguf::testing::MakeCheckpoint(spec).Build());
  options.model = with_bos.path();
  options.against.clear();
  options.window = 89;  // the last token has a window of its own
  const auto begun = BenchPerplexity(options, nullptr);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_TRUE(begun->json.at("bos").as_bool());
  EXPECT_FALSE(report->json.at("bos").as_bool());
  EXPECT_EQ(begun->json.at("tokens_scored").as_uint64(), 90u);
  options.window = 256;  // one more exceeds the context
  EXPECT_EQ(BenchPerplexity(options, nullptr).status().reason(), "invalid_value");
  options.text = page.path() + "none";
  EXPECT_EQ(BenchPerplexity(options, nullptr).status().reason(), "model_path");
}

TEST_F(ModelBenchesTest, AnAnswerThatIsNoRecordFailsTheConstrainedBench) {
  ConstrainedOptions options;
  options.model = file_->path();
  options.flags = {{"threads", "2"}, {"kv-cache-bytes", "64MiB"}, {"context", "2048"}};
  options.sequences = {1, 8};
  options.free_tokens = 8;
  options.max_tokens = 100;  // each character is a token here: all answers are cut
  options.rounds = 1;
  options.made_vocabulary = 2'000;
  options.calibrate = false;
  options.gated = false;
  const auto report = BenchConstrained(options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, testing::Each(testing::HasSubstr("is no such record")));
  EXPECT_EQ(report->failures.size(), 2u);
  EXPECT_EQ(report->json.at("rates").as_array().size(), 2u);
  ASSERT_EQ(report->json.at("masks").as_array().size(), 4u);
  for (const boost::json::value& row : report->json.at("masks").as_array())
    EXPECT_GT(row.at("steps").to_number<int>(), 0);
}

}  // namespace
}  // namespace tutti::bench
