#include "model/model_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/testing/checkpoint.h"
#include "model/decoder_checkpoint.h"
#include "model/encoder_checkpoint.h"
#include "model/pack_model.h"
#include "safetensors/testing/writer.h"
#include "temp_folder.h"

namespace tutti::model {
namespace {

using Form = ModelFiles::Form;
using Holds = ModelFiles::Holds;
using gguf::testing::TempFile;

gguf::testing::CheckpointSpec Small(bool tensors = true) {
  gguf::testing::CheckpointSpec spec;
  spec.layers = 1;
  spec.tensors = tensors;
  return spec;
}

class ModelFilesTest : public ::testing::Test {
 protected:
  // A folder of this config.json alone.
  std::string FolderOf(const std::string& name, std::string_view config) const {
    const std::string path = folder_.File(name);
    std::filesystem::create_directories(path);
    safetensors::testing::WriteFile(path + "/config.json", config);
    return path;
  }
  static void ExpectSound(const std::string& path, Form form, Holds holds) {
    const ModelFiles files = ModelFiles::At(path);
    EXPECT_EQ(files.path, path);
    EXPECT_EQ(files.form, form) << path;
    EXPECT_EQ(files.holds, holds) << path;
    EXPECT_TRUE(files.fault.ok()) << files.fault;
    EXPECT_EQ(files.gguf != nullptr, form == Form::kGguf) << path;
  }
  // Opening it as a checkpoint gives the same error.
  static void ExpectNothing(const std::string& path, Form form, std::string_view reason) {
    const ModelFiles files = ModelFiles::At(path);
    EXPECT_EQ(files.form, form) << path;
    EXPECT_EQ(files.holds, Holds::kNothing) << path;
    EXPECT_EQ(files.fault.reason(), reason) << path;
    EXPECT_EQ(files.gguf, nullptr) << path;
    EXPECT_EQ(DecoderCheckpoint::FromFiles(files).status().reason(), reason) << path;
    EXPECT_EQ(EncoderCheckpoint::FromFiles(files).status().reason(), reason) << path;
  }

  support::TempFolder folder_;
};

TEST_F(ModelFilesTest, AFolderIsADecodersByItsFamilyOrByWhatItSaysOfItself) {
  ExpectSound(FolderOf("llama", R"({"model_type":"llama"})"), Form::kFolder, Holds::kDecoder);
  // A family that is not supported is still a decoder; opening it is refused.
  ExpectSound(FolderOf("mamba", R"({"model_type":"mamba","architectures":["MambaForCausalLM"]})"),
              Form::kFolder, Holds::kDecoder);
}

TEST_F(ModelFilesTest, AFolderOfAnythingElseIsAnEncoders) {
  ExpectSound(FolderOf("bert", R"({"model_type":"bert","architectures":["BertModel"]})"),
              Form::kFolder, Holds::kEncoder);
  ExpectSound(FolderOf("unknown", "{}"), Form::kFolder, Holds::kEncoder);
}

// DeBERTa's tokenizers mark the second text of a pair, and its models have no token types.
TEST_F(ModelFilesTest, PairsHaveNoTypesInAModelWithoutThem) {
  for (const int types : {0, 2}) {
    const std::string path = FolderOf(
        "types" + std::to_string(types),
        R"({"model_type":"bert","hidden_size":32,"intermediate_size":32,"num_hidden_layers":1,
            "num_attention_heads":2,"vocab_size":4,"max_position_embeddings":16,
            "type_vocab_size":)" +
            std::to_string(types) + "}");
    safetensors::testing::WriteFile(
        path + "/tokenizer.json",
        R"({"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",
            "max_input_chars_per_word":100,"vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"a":3}},
            "added_tokens":[{"id":1,"content":"[CLS]","special":true},
                            {"id":2,"content":"[SEP]","special":true}],
            "pre_tokenizer":{"type":"Whitespace"},
            "post_processor":{"type":"BertProcessing","cls":["[CLS]",1],"sep":["[SEP]",2]}})");
    safetensors::testing::Writer writer;
    const std::vector<float> values(128);
    writer.Floats("embeddings.word_embeddings.weight", {4, 32}, values);
    const auto bytes = writer.Build();
    safetensors::testing::WriteFile(
        path + "/model.safetensors",
        std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    const auto opened = EncoderCheckpoint::Open(path);
    ASSERT_TRUE(opened.ok()) << opened.status();
    const auto pair = opened->tokenizer->EncodePair("a", "a a", {});
    EXPECT_EQ(pair.ids, (std::vector<TokenId>{1, 3, 2, 3, 3, 2}));
    const uint8_t second = types == 0 ? 0 : 1;
    std::vector<uint8_t> kinds = pair.types;
    kinds.resize(6);  // none: all 0
    EXPECT_EQ(kinds, (std::vector<uint8_t>{0, 0, 0, second, second, second}));
  }
}

TEST_F(ModelFilesTest, AGgufIsAnEncodersByItsArchitecture) {
  const TempFile decoder(gguf::testing::MakeCheckpoint(Small()).Build());
  ExpectSound(decoder.path(), Form::kGguf, Holds::kDecoder);
  EXPECT_TRUE(DecoderCheckpoint::FromFiles(ModelFiles::At(decoder.path())).ok());
  EXPECT_EQ(EncoderCheckpoint::FromFiles(ModelFiles::At(decoder.path())).status().reason(),
            "model_path");
  const TempFile vocabulary(gguf::testing::MakeCheckpoint(Small(false)).Build());
  ExpectSound(vocabulary.path(), Form::kGguf, Holds::kDecoder);
  for (const char* architecture : {"bert", "nomic-bert"}) {
    gguf::testing::Writer writer;
    writer.String("general.architecture", architecture);
    const TempFile encoder(writer.Build());
    ExpectSound(encoder.path(), Form::kGguf, Holds::kEncoder);
    EXPECT_EQ(EncoderCheckpoint::FromFiles(ModelFiles::At(encoder.path())).status().reason(),
              "model_hparam");
  }
}

TEST_F(ModelFilesTest, APackedFileIsADecodersWhateverItIsCalled) {
  auto source =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(Small()).Build()));
  ASSERT_TRUE(source.ok()) << source.status();
  const auto packed = PackModel(**source, {});
  ASSERT_TRUE(packed.ok()) << packed.status();
  std::vector<std::byte> bytes = packed->front;
  bytes.insert(bytes.end(), packed->weights->data(),
               packed->weights->data() + packed->weights->bytes());
  const TempFile file(bytes, ".gguf");
  ExpectSound(file.path(), Form::kPacked, Holds::kDecoder);
  const auto checkpoint = DecoderCheckpoint::FromFiles(ModelFiles::At(file.path()));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_NE(checkpoint->packed, nullptr);
  EXPECT_EQ(EncoderCheckpoint::FromFiles(ModelFiles::At(file.path())).status().reason(),
            "model_path");
}

TEST_F(ModelFilesTest, AFolderWithoutAModelIsAnsweredWithWhatToGiveInstead) {
  const auto answer = [&](const std::string& name, std::initializer_list<const char*> files) {
    for (const char* const file : files) {
      const std::filesystem::path path = folder_.File(name) + "/" + file;
      std::filesystem::create_directories(path.parent_path());
      safetensors::testing::WriteFile(path.string(), "x");
    }
    const Status fault = ModelFiles::At(folder_.File(name)).fault;
    EXPECT_EQ(fault.reason(), "model_not_found");
    return std::string(fault.message());
  };
  const std::string none = "the folder has no config.json: ";
  EXPECT_EQ(answer("other", {"notes.txt"}),
            "the folder has no config.json; a model's folder has it with tokenizer.json and the "
            "safetensors files");
  EXPECT_EQ(answer("adapter", {"adapter_config.json", "adapter_model.safetensors"}),
            none + "it holds an adapter; give its base as the model, and it by --lora NAME=PATH");
  EXPECT_EQ(answer("file", {"m-q4.gguf", "README.md"}), none + "give \"m-q4.gguf\" in it");
  EXPECT_EQ(answer("files", {"b.gguf", "a.gguf"}),
            none + "give one of the 2 like \"a.gguf\" in it");
  EXPECT_EQ(answer("models--a--b", {"snapshots/0a1b/config.json", "refs/main"}),
            none + "give \"snapshots/0a1b\" in it");
}

TEST_F(ModelFilesTest, AFolderOfLinksIsWhatTheyLeadTo) {
  const std::string linked = folder_.File("linked");
  std::filesystem::create_directories(linked);
  std::filesystem::create_symlink("../bert.json", linked + "/config.json");
  safetensors::testing::WriteFile(folder_.File("bert.json"), R"({"model_type":"bert"})");
  EXPECT_EQ(ModelFiles::At(linked).holds, ModelFiles::Holds::kEncoder);
}

TEST_F(ModelFilesTest, WhatIsNoneOfThemHasAFault) {
  ExpectNothing(folder_.File("missing"), Form::kGguf, "model_not_found");
  ExpectNothing(folder_.path(), Form::kFolder, "model_not_found");
  ExpectNothing(FolderOf("empty", ""), Form::kFolder, "model_hparam");
  ExpectNothing(FolderOf("torn", "["), Form::kFolder, "model_hparam");
  ExpectNothing(FolderOf("large", std::string((1 << 20) + 1, ' ')), Form::kFolder, "model_hparam");
  const std::string text = folder_.File("notes.gguf");
  safetensors::testing::WriteFile(text, "not a model at all, but long enough to be looked at");
  ExpectNothing(text, Form::kGguf, "gguf_magic");
  const std::string nothing = folder_.File("nothing.gguf");
  safetensors::testing::WriteFile(nothing, "");
  ExpectNothing(nothing, Form::kGguf, "gguf_truncated");
  const std::string pipe = folder_.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);  // opening it must not wait for a writer
  ExpectNothing(pipe, Form::kGguf, "model_path");
}

}  // namespace
}  // namespace tutti::model
