// Encode requests through the gateway: choice of the model, tokenization, early refusals, and
// results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/testing/fake_encoder_runner.h"
#include "gateway/gateway.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::gateway {
namespace {

using engine::testing::FakeEncoderRunner;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr TokenId kCls = 2, kSep = 3, kA = 5, kB = 6, kC = 7;

class EncodeTest : public ::testing::Test {
 protected:
  EncodeTest() : runner_(FakeEncoderRunner::DefaultLimits(), &clock_) {
    engine_ = std::make_shared<engine::EncoderEngine>(
        engine::EncoderOptions{},
        engine::EncoderDependencies{.runner = &runner_, .clock = &clock_});
    model_->info.id = "texts";
    model_->info.max_model_len = 6;
    model_->info.vocab_size = 8;
    model_->info.generates = false;
    api::EncoderInfo& info = model_->info.encoder.emplace();
    info.width = 4;
    info.cuts = info.pairs = true;
    info.labels = {"fits"};
    model_->tokenizer =
        tokenizer::testing::MustCreate(tokenizer::testing::WordPieceSpec({"a", "b", "c"}));
    encoder_->engine = engine_;
    encoder_->max_tokens = 6;
    encoder_->prompts = {{"query", "c "}};
    model_->encoder = encoder_;
  }

  void Serve() { gateway_.AddModel(model_); }

  static api::EncodeRequest Request(std::vector<api::EncodeInput> inputs) {
    api::EncodeRequest request;
    request.model = "texts";
    request.inputs = std::move(inputs);
    return request;
  }

  Result<api::EncodeResult> Run(api::EncodeRequest request) {
    ASSIGN_OR_RETURN(api::Encoding encoding, gateway_.Encode(std::move(request), nullptr));
    for (int i = 0; i < 2000 && !encoding.done(); ++i) {
      if (!engine_->RunOneStep()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!encoding.done()) return Internal("it did not end");
    return encoding.Take();
  }

  // The raw rows of items with these tokens.
  std::vector<float> RowOf(std::vector<TokenId> tokens, std::vector<uint8_t> types = {},
                           api::EncodeOutput output = api::EncodeOutput::kPooled) const {
    engine::TokenizedRequest request;
    request.lengths = {static_cast<int32_t>(tokens.size())};
    request.tokens = std::move(tokens);
    request.types = std::move(types);
    request.output = output;
    return runner_.Answer(request);
  }

  ManualClock clock_;
  FakeEncoderRunner runner_;
  FakeEncoderRunner chat_runner_{FakeEncoderRunner::DefaultLimits(), &clock_};  // of another model
  std::shared_ptr<engine::EncoderEngine> engine_;
  std::shared_ptr<ServedEncoder> encoder_ = std::make_shared<ServedEncoder>();
  std::shared_ptr<ServedModel> model_ = std::make_shared<ServedModel>();
  Gateway gateway_{{}, clock_};
};

TEST_F(EncodeTest, ATokenizerIsDescribedByItsSpecialTokens) {
  const auto info = DescribeTokenizer(*model_->tokenizer);
  const tokenizer::Vocabulary& vocabulary = model_->tokenizer->vocabulary();
  ASSERT_TRUE(vocabulary.Contains(vocabulary.special().unk));
  EXPECT_EQ(info->unk, vocabulary.Text(vocabulary.special().unk));
  EXPECT_EQ(info->chat_template, "");
}

TEST_F(EncodeTest, TextsAreFramedIdsAreUsedAsGiven) {
  Serve();
  const auto result = Run(Request({std::string("a b"), std::vector<TokenId>{kB, kA}}));
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<float> expected = RowOf({kCls, kA, kB, kSep});
  const std::vector<float> second = RowOf({kB, kA});
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(result->values, expected);
  EXPECT_THAT(result->tokens, ElementsAre(4, 2));
}

TEST_F(EncodeTest, PairsHaveTwoKindsOfTokensAlsoBesideNoPairs) {
  Serve();
  api::EncodeRequest request =
      Request({std::string("a"), api::TextPair{"a", "b c"}, std::string("b")});
  request.output = api::EncodeOutput::kScores;
  request.raw_scores = true;
  const auto result = Run(request);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto scores = api::EncodeOutput::kScores;
  EXPECT_THAT(result->values,
              ElementsAre(RowOf({kCls, kA, kSep}, {0, 0, 0}, scores)[0],
                          RowOf({kCls, kA, kSep, kB, kC, kSep}, {0, 0, 0, 1, 1, 1}, scores)[0],
                          RowOf({kCls, kB, kSep}, {0, 0, 0}, scores)[0]));
}

TEST_F(EncodeTest, ANamedPromptStandsBeforeTheText) {
  Serve();
  api::EncodeRequest request = Request({std::string("a")});
  request.prompt_name = "query";
  EXPECT_EQ(Run(request)->values, RowOf({kCls, kC, kA, kSep}));
  encoder_->default_prompt = "query";
  request.prompt_name.reset();
  EXPECT_EQ(Run(request)->values, RowOf({kCls, kC, kA, kSep})) << "the model's default";
  request.prompt_name = "other";
  const Status refused = Run(request).status();
  EXPECT_EQ(refused.param(), "prompt_name");
  EXPECT_THAT(refused.message(), HasSubstr("it has query"));
}

// A reranker over a decoder: the chat template writes the text of a pair.
TEST_F(EncodeTest, APairIsRenderedByItsTemplateAndCutInItsDocument) {
  const auto of = [](const char* role) {
    return std::string("messages | selectattr('role', 'eq', '") + role +
           "') | map(attribute='content') | first";
  };
  auto compiled =
      tokenizer::ChatTemplate::Compile("[CLS]{{ " + of("system") + " | default('a') }} {{ " +
                                           of("query") + " }} {{ " + of("document") + " }}[SEP]",
                                       {});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  encoder_->pair_template = *std::move(compiled);
  Serve();
  const auto scores = api::EncodeOutput::kScores;
  api::EncodeRequest request = Request({api::TextPair{"b", "c"}});
  request.output = scores;
  request.raw_scores = true;
  EXPECT_EQ(Run(request)->values, RowOf({kCls, kA, kB, kC, kSep}, {}, scores));
  request.prompt_name = "query";
  EXPECT_EQ(Run(request)->values, RowOf({kCls, kC, kB, kC, kSep}, {}, scores));
  request.prompt_name.reset();
  request.inputs = {api::TextPair{"b", "c b c b"}};
  EXPECT_EQ(Run(request).status().reason(), "context_length_exceeded");
  request.truncation = api::Truncation::kRight;
  EXPECT_EQ(Run(request)->values, RowOf({kCls, kA, kB, kC, kB, kSep}, {}, scores))
      << "what the template writes last stays";
  request.inputs = {api::TextPair{"b", "c"}, api::TextPair{"b c b c b c", "c"}};
  const Status full = Run(request).status();
  EXPECT_EQ(full.reason(), "context_length_exceeded") << "all documents would score the same";
  EXPECT_EQ(full.param(), "input[1]");
  EXPECT_THAT(full.message(), HasSubstr("leave none of 6 to the document"));
  request.inputs = {api::TextPair{"b", "c"}};
  request.truncate_tokens = 2;
  EXPECT_EQ(Run(request).status().reason(), "context_length_exceeded");
  request.truncate_tokens.reset();
  request.inputs = {std::string("b")};
  EXPECT_THAT(Run(request).status().message(), HasSubstr("reads pairs of texts alone"));
}

TEST_F(EncodeTest, TextsThatAreTooLongAreRefusedByNameOrCutAsAsked) {
  Serve();
  const std::string text = "a b c a b";
  const Status refused = Run(Request({std::string("a"), text})).status();
  EXPECT_EQ(refused.reason(), "context_length_exceeded");
  EXPECT_EQ(refused.param(), "input[1]");
  EXPECT_THAT(refused.message(), HasSubstr("7 tokens"));
  EXPECT_EQ(refused.excess(), (Status::Excess{7, 6}));
  api::EncodeRequest request = Request({text});
  request.truncation = api::Truncation::kRight;
  EXPECT_EQ(Run(request)->values, RowOf({kCls, kA, kB, kC, kA, kSep}));
  request.truncation = api::Truncation::kLeft;
  EXPECT_EQ(Run(request)->values, RowOf({kCls, kB, kC, kA, kB, kSep}));
  request = Request({text, std::vector<TokenId>{kA, kB, kC, kA}});
  request.truncate_tokens = 3;
  const auto cut = Run(request);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_THAT(cut->tokens, ElementsAre(3, 3)) << "special tokens are counted, and kept";
}

TEST_F(EncodeTest, ATokenWithoutARowIsRefusedInTextsAndPairs) {
  model_->info.vocab_size = kC;
  Serve();
  EXPECT_TRUE(Run(Request({std::string("a b")})).ok());
  const api::EncodeInput inputs[] = {std::string("a c"), api::TextPair{"a", "c"}};
  const size_t batches = runner_.batches().size();
  for (const api::EncodeInput& input : inputs) {
    const Status refused = Run(Request({std::string("a"), input})).status();
    EXPECT_EQ(refused.reason(), "token_out_of_range");
    EXPECT_EQ(refused.param(), "input[1]");
    EXPECT_THAT(refused.message(), HasSubstr("token 7 \"c\" has no row"));
  }
  EXPECT_EQ(runner_.batches().size(), batches) << "no forward";
}

TEST_F(EncodeTest, TokensOfAllInputsTogetherHaveABoundWhereOneIsAskedFor) {
  Serve();
  api::EncodeRequest request = Request({std::string("a b c"), std::vector<TokenId>{kA}});
  request.total_tokens = 6;
  EXPECT_TRUE(Run(request).ok());
  request.total_tokens = 5;
  const Status refused = Run(request).status();
  EXPECT_EQ(refused.reason(), "invalid_value");
  EXPECT_EQ(refused.param(), "input");
  request.truncate_tokens = 4;
  EXPECT_TRUE(Run(request).ok()) << "what is cut away does not count";
}

TEST_F(EncodeTest, WhatTheModelCannotGiveIsRefusedWithItsReason) {
  Serve();
  api::EncodeRequest request = Request({std::string("a")});
  request.dimensions = 5;
  EXPECT_EQ(Run(request).status().param(), "dimensions");
  request.dimensions = 0;
  EXPECT_EQ(Run(request).status().param(), "dimensions");
  request = Request({std::string("a")});
  request.tenant_weight = 0;
  EXPECT_EQ(Run(request).status().param(), "tenant_weight");
  EXPECT_EQ(Run(Request({})).status().param(), "input");
  EXPECT_EQ(Run(Request(std::vector<api::EncodeInput>(api::kMaxEncodeInputs + 1, std::string("a"))))
                .status()
                .param(),
            "input");
  const Status empty = Run(Request({std::string("a"), std::string()})).status();
  EXPECT_EQ(empty.reason(), "empty_prompt");
  EXPECT_EQ(empty.param(), "input[1]");
  const Status foreign = Run(Request({std::vector<TokenId>{kA, 8}})).status();
  EXPECT_EQ(foreign.reason(), "token_out_of_range");
  EXPECT_THAT(foreign.message(), HasSubstr("check_embedding_ctx_length=False"));
  EXPECT_EQ(Run(Request({std::string("\xff")})).status().reason(), "invalid_utf8");
  request = Request({api::TextPair{"a", "b"}});
  request.prompt_name = "query";
  EXPECT_EQ(Run(request).status().param(), "prompt_name");
  model_->info.encoder->pairs = false;
  EXPECT_EQ(Run(Request({api::TextPair{"a", "b"}})).status().param(), "input[0]");
  model_->info.encoder->labels.clear();
  request = Request({std::string("a")});
  request.output = api::EncodeOutput::kScores;
  EXPECT_THAT(Run(request).status().message(), HasSubstr("gives no scores"));
  model_->info.encoder->cuts = false;
  request = Request({std::string("a")});
  request.dimensions = 2;
  EXPECT_EQ(Run(request).status().param(), "dimensions");
  EXPECT_THAT(runner_.batches(), IsEmpty()) << "none of it reached the model";
}

TEST_F(EncodeTest, AcceptsDimensionsEqualToTheModelsOwn) {
  Serve();
  model_->info.encoder->cuts = false;
  api::EncodeRequest request = Request({std::string("a")});
  const auto plain = Run(request);
  request.dimensions = model_->info.encoder->width;
  const auto named = Run(request);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->values, plain->values);
  for (const int other : {-1, +1}) {
    request.dimensions = model_->info.encoder->width + other;
    EXPECT_EQ(Run(request).status().param(), "dimensions") << *request.dimensions;
  }
}

TEST_F(EncodeTest, RowsAreCutNormalisedAndSquashedForTheReader) {
  encoder_->normalize = true;
  encoder_->scale = ScoreScale::kSigmoid;
  Serve();
  api::EncodeRequest request = Request({std::string("a")});
  request.dimensions = 3;
  const auto result = Run(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->width, 3);
  double squares = 0;
  for (const float value : result->values) squares += static_cast<double>(value * value);
  EXPECT_NEAR(squares, 1, 1e-6);
  request = Request({api::TextPair{"a", "b"}});
  request.output = api::EncodeOutput::kScores;
  EXPECT_EQ(Run(request)->values, std::vector<float>{1.f}) << "the sigmoid of a large score";
}

TEST_F(EncodeTest, TheNameDecidesAndWithoutOneTheFirstModelThatGivesIt) {
  EXPECT_EQ(Run(Request({std::string("a")})).status().reason(), "model_loading");
  auto decoder = std::make_shared<ServedModel>();
  decoder->info.id = "chat";
  gateway_.AddModel(decoder);
  api::EncodeRequest request = Request({std::string("a")});
  request.model = "";
  EXPECT_THAT(Run(request).status().message(),
              HasSubstr("gives such vectors; --encode-decoders on lets one"));
  model_->info.encoder->labels.clear();
  Serve();
  EXPECT_TRUE(Run(request).ok());
  request.output = api::EncodeOutput::kScores;
  EXPECT_THAT(Run(request).status().message(),
              HasSubstr("none of the models here gives such scores"));
  request.output = api::EncodeOutput::kPooled;
  request.model = "chat";
  EXPECT_THAT(Run(request).status().message(), HasSubstr("gives no vectors"));
  request.model = "none";
  EXPECT_EQ(Run(request).status().reason(), "model_not_found");
  api::GenerateRequest generate;
  generate.model = "texts";
  generate.prompt = api::TextPrompt{.text = "a"};
  EXPECT_THAT(gateway_.Generate(generate, nullptr).status().message(),
              HasSubstr("generates no text"));
}

// Regression: the model was reported as not found as soon as another model was loaded.
TEST_F(EncodeTest, AModelThatIsStillBeingLoadedIsToBeAskedAgain) {
  gateway_.Expect({"chat", "texts"});
  auto decoder = std::make_shared<ServedModel>();
  decoder->info.id = "chat";
  gateway_.AddModel(decoder);
  api::EncodeRequest request = Request({std::string("a")});
  EXPECT_EQ(Run(request).status().reason(), "model_loading");
  EXPECT_EQ(Run(request).status().message(), "model texts is still being loaded");
  request.model = "";
  EXPECT_EQ(Run(request).status().reason(), "model_loading");
  request.model = "none";
  EXPECT_EQ(Run(request).status().reason(), "model_not_found");
  Serve();
  request.model = "texts";
  EXPECT_TRUE(Run(request).ok());
  request.output = api::EncodeOutput::kScores;
  request.model = "";
  model_->info.encoder->labels.clear();
  EXPECT_EQ(Run(request).status().reason(), "invalid_value") << "nothing is to come any more";
}

// Regression: a chat model that also embeds took the requests of a separately served encoder.
TEST_F(EncodeTest, WithoutANameAModelThatGeneratesTooIsNotTakenForAnEncoder) {
  auto embedder = std::make_shared<ServedEncoder>(*encoder_);
  embedder->engine = std::make_shared<engine::EncoderEngine>(
      engine::EncoderOptions{},
      engine::EncoderDependencies{.runner = &chat_runner_, .clock = &clock_});
  auto chat = std::make_shared<ServedModel>();
  chat->info = model_->info;
  chat->info.id = "chat";
  chat->info.generates = true;
  chat->tokenizer = model_->tokenizer;
  chat->encoder = embedder;
  gateway_.AddModel(chat);
  Serve();
  api::EncodeRequest request = Request({std::string("a")});
  request.model = "";
  EXPECT_TRUE(Run(request).ok());
  EXPECT_EQ(runner_.batches().size(), 1u);
  EXPECT_THAT(chat_runner_.batches(), IsEmpty());
}

// Regression: the tokenizer of the model that was added first was used, even of an encoder, which
// has no chat template.
TEST_F(EncodeTest, WithoutANameTheTokenizerIsThatOfTheModelThatGenerates) {
  Serve();
  auto chat = std::make_shared<ServedModel>();
  chat->info.id = "chat";
  chat->info.max_model_len = 100;
  chat->info.vocab_size = 8;
  chat->tokenizer =
      tokenizer::testing::MustCreate(tokenizer::testing::WordPieceSpec({"c", "b", "a"}));
  gateway_.AddModel(chat);
  const auto tokens = [&](const std::string& model) {
    api::TokenizeRequest request;
    request.model = model;
    request.prompt = api::TextPrompt{.text = "a", .add_special = false};
    return gateway_.Tokenize(request)->tokens;
  };
  EXPECT_THAT(tokens(""), ElementsAre(kC)) << "where it has its last word";
  EXPECT_THAT(tokens("texts"), ElementsAre(kA));
  EXPECT_EQ(*gateway_.Detokenize({.tokens = {kA}}), "c");
}

TEST_F(EncodeTest, LongTextsArePreparedElsewhereAndStillAnsweredOrRefused) {
  encoder_->max_tokens = 512;
  Serve();
  const std::vector<api::EncodeInput> many(100, std::string("a b c a b c a b c a b c a b c a b c "
                                                            "a b c a b c a b c a b c a b c a b c"));
  const auto result = Run(Request(many));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->tokens.size(), 100u);
  std::vector<api::EncodeInput> bad = many;
  bad[77] = std::string(5000, 'a');  // 5,000 letters are one token
  EXPECT_TRUE(Run(Request(bad)).ok());
  std::string words;
  for (int i = 0; i < 600; ++i) words += "a ";
  bad[77] = words;
  const Status refused = Run(Request(bad)).status();
  EXPECT_EQ(refused.reason(), "context_length_exceeded");
  EXPECT_EQ(refused.param(), "input[77]");
  EXPECT_EQ(engine_->stats().requests, 0) << "its place is given back";
}

TEST_F(EncodeTest, AnEncodingSaysWhenItsTextsAreRead) {
  struct CountingWaker final : Waker {
    void Wake() noexcept override { wakes.fetch_add(1); }
    std::atomic<int> wakes{0};
  };
  encoder_->max_tokens = 512;
  Serve();
  const auto waker = std::make_shared<CountingWaker>();
  const auto told = [&](int wakes) {
    for (int i = 0; i < 2000 && waker->wakes.load() < wakes; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return waker->wakes.load() == wakes;
  };
  // Short inputs are prepared when the call returns, without a wake-up.
  const auto small = gateway_.Encode(Request({std::string("a b")}), waker);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_TRUE(small->prepared());
  EXPECT_EQ(waker->wakes.load(), 0);
  // Long inputs are prepared on another thread, before any batch.
  const std::vector<api::EncodeInput> many(100, std::string(60, 'b'));
  const auto large = gateway_.Encode(Request(many), waker);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_TRUE(told(1));
  EXPECT_TRUE(large->prepared());
  EXPECT_FALSE(large->done());
  // Requests refused on the pool also count as prepared.
  std::vector<api::EncodeInput> bad = many;
  std::string words;
  for (int i = 0; i < 600; ++i) words += "a ";
  bad[77] = words;
  const auto refused = gateway_.Encode(Request(bad), waker);
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_TRUE(told(2));
  EXPECT_TRUE(refused->done() && refused->prepared());
}

TEST_F(EncodeTest, WhatForwardPassesDidIsCounted) {
  Serve();
  ASSERT_TRUE(Run(Request({std::string("a"), std::string("b")})).ok());
  const auto statistics = gateway_.Statistics("texts");
  ASSERT_TRUE(statistics.ok());
  EXPECT_EQ(statistics->executions, 1u);
  EXPECT_EQ(statistics->items, 2u);
  EXPECT_EQ(gateway_.Statistics("none").status().reason(), "model_not_found");
}

}  // namespace
}  // namespace tutti::gateway
