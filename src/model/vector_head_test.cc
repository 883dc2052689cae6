#include "model/vector_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gguf/testing/checkpoint.h"
#include "model/decoder_checkpoint.h"
#include "model/pack_model.h"
#include "model/weights.h"
#include "packed/file.h"

namespace tutti::model {
namespace {

using gguf::testing::Writer;
using tensor::DType;
using ::testing::HasSubstr;

constexpr const char* kRerank = "<|im_start|>a\n{query} b {document}<|im_end|>\n\n";

// A llama whose rows are `width` wide, with what `add` writes.
Result<DecoderCheckpoint> Open(const std::function<void(Writer&, size_t width)>& add) {
  const gguf::testing::CheckpointSpec spec;
  Writer writer = gguf::testing::MakeCheckpoint(spec);
  add(writer, static_cast<size_t>(spec.width));
  ASSIGN_OR_RETURN(auto file, gguf::File::FromSource(gguf::MemorySource(writer.Build())));
  return DecoderCheckpoint::FromGguf(std::move(file));
}

void AddDense(Writer& writer, size_t in, size_t out, float value) {
  writer.U32("llama.dense_2_feat_in", static_cast<uint32_t>(in))
      .U32("llama.dense_2_feat_out", static_cast<uint32_t>(out));
  std::vector<float> rows(in * out, 0);
  rows[in + 2] = value;  // output 1 is value times input 2
  writer.Tensor("dense_2.weight", DType::kF32, {in, out}, rows);
}

void AddScore(Writer& writer, size_t width, float no = 2) {
  std::vector<float> rows(width, 1);
  rows.insert(rows.end(), width, no);
  writer.U32("llama.pooling_type", 4)
      .Strings("llama.classifier.output_labels", std::vector<std::string>{"yes", "no"})
      .String("tokenizer.chat_template.rerank", kRerank)
      .Tensor("cls.output.weight", DType::kF32, {width, 2}, rows);
}

TEST(VectorHead, AGgufWithPoolingGivesVectorsAlone) {
  const auto plain = Open([](Writer&, size_t) {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_FALSE(plain->encodes());
  const std::pair<uint32_t, Pooling> poolings[] = {
      {1, Pooling::kMean}, {2, Pooling::kCls}, {3, Pooling::kLast}};
  for (const auto& [number, pooling] : poolings) {
    const auto opened = Open([&, number = number](Writer& writer, size_t width) {
      writer.U32("llama.pooling_type", number);
      AddDense(writer, width, 8, 0.5F);
    });
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(opened->encodes());
    EXPECT_EQ(opened->vectors->pooling, pooling);
    EXPECT_TRUE(opened->vectors->normalize);
    EXPECT_TRUE(Weights::Check(*opened).ok()) << "its module is no part of a layer";
    ASSERT_EQ(opened->head.dense.size(), 1U);
    EXPECT_EQ(opened->head.dense[0].columns, 8U);
    EXPECT_EQ(opened->head.dense[0].weight[2 * 8 + 1], 0.5F);
  }
}

TEST(VectorHead, AGgufWithTwoRowsScoresByItsPrompt) {
  const auto opened = Open([](Writer& writer, size_t width) { AddScore(writer, width); });
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(opened->encodes());
  EXPECT_EQ(opened->head.yes[0], 1);
  EXPECT_EQ(opened->head.no[0], 2);
  EXPECT_TRUE(RendersPairs(opened->tokenizer.chat_template));
  EXPECT_EQ(RerankTextOf(opened->tokenizer.chat_template), kRerank);
  EXPECT_EQ(opened->remarks, std::vector<std::string>());
}

TEST(VectorHead, APackedFileKeepsItsHead) {
  const gguf::testing::CheckpointSpec spec;
  for (const bool scores : {false, true}) {
    Writer writer = gguf::testing::MakeCheckpoint(spec);
    const auto width = static_cast<size_t>(spec.width);
    if (scores) {
      AddScore(writer, width);
    } else {
      writer.U32("llama.pooling_type", 1);
      AddDense(writer, width, 8, 0.5F);
    }
    const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
    ASSERT_TRUE(file.ok()) << file.status();
    const auto made = PackModel(**file, {});
    ASSERT_TRUE(made.ok()) << made.status();
    std::vector<std::byte> bytes = made->front;
    bytes.insert(bytes.end(), made->weights->data(),
                 made->weights->data() + made->weights->bytes());
    const auto packed = packed::File::FromSource(files::MemorySource(bytes, packed::kTruncated));
    ASSERT_TRUE(packed.ok()) << packed.status();
    const auto opened = DecoderCheckpoint::FromPacked(*packed);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(opened->encodes());
    if (scores) {
      EXPECT_EQ(opened->head.no, std::vector<float>(width, 2));
    } else {
      EXPECT_EQ(opened->head.dense[0].weight[2 * 8 + 1], 0.5F);
    }
    EXPECT_TRUE(Weights::Load(*opened, {}).ok());
  }
}

TEST(VectorHead, AGgufThatContradictsItselfIsRefusedByName) {
  using Add = std::function<void(Writer&, size_t)>;
  const auto pooled = [](const Add& add) {
    return [add](Writer& writer, size_t width) {
      writer.U32("llama.pooling_type", 1);
      add(writer, width);
    };
  };
  const std::pair<Add, const char*> cases[] = {
      {[](Writer& w, size_t) { w.U32("llama.pooling_type", 5); }, "pooling_type"},
      {[](Writer& w, size_t) { w.U32("llama.pooling_type", 4); }, "cls.output.weight"},
      {[](Writer& w, size_t width) {
         w.U32("llama.pooling_type", 4)
             .Tensor("cls.output.weight", DType::kF32, {width}, std::vector<float>(width, 1));
       },
       "cls.output.weight"},
      {[](Writer& w, size_t width) {
         AddScore(w, width);
         w.Without("llama.classifier.output_labels")
             .Strings("llama.classifier.output_labels", std::vector<std::string>{"no", "yes"});
       },
       "output_labels"},
      {[](Writer& w, size_t width) { AddScore(w, width, NAN); }, "not finite"},
      {[](Writer& w, size_t width) {
         AddScore(w, width);
         w.Without("tokenizer.chat_template.rerank");
       },
       "tokenizer.chat_template.rerank"},
      {[](Writer& w, size_t width) {
         AddScore(w, width);
         w.Without("tokenizer.chat_template.rerank")
             .String("tokenizer.chat_template.rerank", "{query} alone");
       },
       "{document}"},
      {[](Writer& w, size_t width) {
         AddScore(w, width);
         w.Without("tokenizer.chat_template.rerank")
             .String("tokenizer.chat_template.rerank", "{{ messages }}{query}{document}");
       },
       "chat_template.rerank"},
      {pooled([](Writer& w, size_t width) {
         w.U32("llama.dense_2_feat_in", static_cast<uint32_t>(width));
       }),
       "dense_2_feat_out"},
      {pooled([](Writer& w, size_t) {
         w.U32("llama.dense_2_feat_in", 32).U32("llama.dense_2_feat_out", 8);
       }),
       "dense_2_feat_in"},
      {pooled([](Writer& w, size_t width) {
         w.U32("llama.dense_2_feat_in", static_cast<uint32_t>(width))
             .U32("llama.dense_2_feat_out", 8);
       }),
       "dense_2.weight"},
      {pooled([](Writer& w, size_t width) { AddDense(w, width, 8, INFINITY); }), "dense_2.weight"},
      {pooled([](Writer& w, size_t width) {
         AddDense(w, width, 8, 1);
         w.Without("llama.dense_2_feat_out").U32("llama.dense_2_feat_out", 16);
       }),
       "dense_2.weight"},
  };
  for (const auto& [add, named] : cases) {
    const auto opened = Open(add);
    ASSERT_FALSE(opened.ok()) << named;
    EXPECT_THAT(opened.status().message(), HasSubstr(named));
  }
  const auto stray = Open([](Writer& w, size_t width) {
    w.U32("llama.pooling_type", 1)
        .Tensor("dense_2.weight", DType::kF32, {width, 8}, std::vector<float>(width * 8, 1));
  });
  ASSERT_TRUE(stray.ok()) << stray.status();
  EXPECT_THAT(Weights::Check(*stray).message(), HasSubstr("dense_2.weight")) << "without its keys";
}

TEST(VectorHead, AGgufMayHavePrompts) {
  const auto open = [](const std::vector<std::string>& names, const std::vector<std::string>& texts,
                       const char* chosen) {
    return Open([&](Writer& writer, size_t) {
      writer.U32("llama.pooling_type", 1)
          .Strings("tutti.prompt_names", names)
          .Strings("tutti.prompt_texts", texts);
      if (chosen != nullptr) writer.String("tutti.default_prompt", chosen);
    });
  };
  const auto opened = open({"a", "b"}, {"A: ", "B: "}, "b");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->vectors->prompts.at("a"), "A: ");
  EXPECT_EQ(opened->vectors->default_prompt, "b");
  EXPECT_EQ(open({"a"}, {"A: "}, nullptr)->vectors->default_prompt, std::nullopt);
  const auto fault = [&](const std::vector<std::string>& names,
                         const std::vector<std::string>& texts, const char* chosen) {
    return open(names, texts, chosen).status().message();
  };
  EXPECT_THAT(fault({"a", "b"}, {"A: "}, nullptr), HasSubstr("tutti.prompt_names names 2 prompts"));
  EXPECT_THAT(fault({"a"}, {std::string(kMaxPromptBytes + 1, 'x')}, nullptr),
              HasSubstr("tutti.prompt_texts holds a text of 4097 bytes"));
  EXPECT_THAT(fault({"a"}, {"A: "}, "b"), HasSubstr("tutti.default_prompt is not among"));
}

TEST(VectorHead, ATemplateWritesBothTextsOfAPair) {
  EXPECT_FALSE(RendersPairs(""));
  EXPECT_FALSE(RendersPairs("{{ messages[0]['content'] }}"));
  EXPECT_FALSE(RendersPairs("{{ broken"));
  EXPECT_FALSE(RendersPairs("{{ raise_exception('no') }}"));
  EXPECT_TRUE(RendersPairs("{% for m in messages %}{{ m['content'] }}{% endfor %}"));
}

}  // namespace
}  // namespace tutti::model
