// Errors of the commands that take a model, for wrong files, options and names.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"
#include "model/testing/generated_encoder.h"
#include "temp_folder.h"

namespace tutti::cli {
namespace {

using gguf::testing::Bytes;
using gguf::testing::CheckpointSpec;
using gguf::testing::MakeCheckpoint;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Said {
  int status = 0;
  std::string out, err;
};

Said Tutti(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tutti");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Said said;
  said.status = Main(static_cast<int>(arguments.size()), argv.data());
  said.out = ::testing::internal::GetCapturedStdout();
  said.err = ::testing::internal::GetCapturedStderr();
  return said;
}

class ModelCommandsTest : public ::testing::Test {
 protected:
  // One layer, so that each command takes some hundredths of a second.
  static CheckpointSpec Small() {
    CheckpointSpec spec;
    spec.layers = 1;
    return spec;
  }

  std::string Put(const std::string& name, const Bytes& bytes) const {
    std::ofstream file(folder_.File(name), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return folder_.File(name);
  }
  std::string Put(const std::string& name, const CheckpointSpec& spec) const {
    return Put(name, MakeCheckpoint(spec).Build());
  }

  // A BERT of two layers with its tokenizer.
  std::string PutEncoder(const std::string& name) const {
    const std::string folder = folder_.File(name);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/config.json")
        << R"({"model_type":"bert","hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,
               "num_attention_heads":4,"vocab_size":50,"max_position_embeddings":80,
               "type_vocab_size":2,"layer_norm_eps":1e-12,"hidden_act":"gelu"})";
    std::string vocabulary = R"("[UNK]":0,"[CLS]":1,"[SEP]":2)";
    for (int id = 3; id < 50; ++id)
      vocabulary += ",\"" + std::string(1, static_cast<char>('a' + id % 26)) +
                    std::string(static_cast<size_t>(id / 26), 'x') + "\":" + std::to_string(id);
    std::ofstream(folder + "/tokenizer.json")
        << R"({"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",
               "max_input_chars_per_word":100,"vocab":{)"
        << vocabulary << R"(}},"added_tokens":[{"id":1,"content":"[CLS]","special":true},
               {"id":2,"content":"[SEP]","special":true}],"pre_tokenizer":{"type":"Whitespace"},
               "post_processor":{"type":"BertProcessing","cls":["[CLS]",1],"sep":["[SEP]",2]}})";
    const Bytes weights = model::testing::GenerateEncoder().writer.Build();
    std::ofstream(folder + "/model.safetensors", std::ios::binary)
        .write(reinterpret_cast<const char*>(weights.data()),
               static_cast<std::streamsize>(weights.size()));
    return folder;
  }

  // Replaces every `text` by `other`, of the same length.
  static void Replace(Bytes& bytes, std::string_view text, std::string_view other) {
    ASSERT_EQ(text.size(), other.size());
    const auto* pattern = reinterpret_cast<const std::byte*>(text.data());
    int found = 0;
    for (auto at = bytes.begin();; ++found) {
      at = std::search(at, bytes.end(), pattern, pattern + text.size());
      if (at == bytes.end()) break;
      std::memcpy(&*at, other.data(), other.size());
    }
    ASSERT_GT(found, 0);
  }

  static Said Run(const std::string& model, const std::string& dtype = "int8",
                  const std::string& cache = "8MiB", const std::string& threads = "1") {
    return Tutti({"run", model, "--raw", "-p", "Hi", "-n", "1", "--dtype", dtype,
                  "--kv-cache-bytes", cache, "--threads", threads});
  }

  support::TempFolder folder_;
};

TEST_F(ModelCommandsTest, AFaultOfAFileNamesTheFileAndTheTensor) {
  // Not a number in a row of a matrix that is packed together with another.
  const std::string nan = Put("nan.gguf", Small());
  {
    const auto file = gguf::File::Open(nan).value();
    const gguf::TensorInfo* tensor = file->FindTensor("blk.0.ffn_up.weight");
    ASSERT_NE(tensor, nullptr);
    const float value = std::numeric_limits<float>::quiet_NaN();
    std::fstream bytes(nan, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekp(static_cast<std::streamoff>(tensor->file_offset + 3 * 256 * sizeof(float)));
    bytes.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
  const std::string place = nan + ": tensor blk.0.ffn_up.weight, row 3: ";
  EXPECT_THAT(Run(nan).err, StartsWith("tutti: model_nonfinite: " + place));
  EXPECT_THAT(Tutti({"inspect", nan}).err, StartsWith("tutti: model_nonfinite: " + nan));
  EXPECT_THAT(Tutti({"pack", nan, folder_.File("nan.tutti")}).err, HasSubstr(nan));
  EXPECT_THAT(Tutti({"quantize", nan, folder_.File("q.gguf"), "--type", "q8_0"}).err,
              HasSubstr(nan));
  EXPECT_THAT(Tutti({"bench", "engine", nan, "--prompt", "4", "--gen", "1", "--batch", "1"}).err,
              HasSubstr(place));

  Bytes bytes = MakeCheckpoint(Small()).Build();
  Replace(bytes, "blk.0.ffn_up.weight", "blk.0.ffn_xx.weight");
  const std::string missing = Put("missing.gguf", bytes);
  for (const Said& said : {Run(missing), Tutti({"inspect", missing}),
                           Tutti({"bench", "engine", missing, "--batch", "1"})}) {
    EXPECT_EQ(said.status, kExitFailed);
    EXPECT_THAT(said.err, StartsWith("tutti: model_tensor_missing: " + missing + ": "));
    EXPECT_THAT(said.err, HasSubstr("blk.0.ffn_up.weight"));
  }

  const std::string none = Put("none.gguf", Bytes(64, std::byte{'x'}));
  const std::string text = Tutti({"tokenize", none}).err;
  EXPECT_THAT(text, StartsWith("tutti: gguf_magic: " + none + ": "));
}

TEST_F(ModelCommandsTest, APackedFileThatIsDamagedIsNamed) {
  const std::string packed = folder_.File("m.tutti");
  ASSERT_EQ(Tutti({"pack", Put("m.gguf", Small()), packed, "--dtype", "FP32"}).status, kExitOk);
  ASSERT_EQ(Run(packed, "F32").status, kExitOk) << "in any spelling";
  {
    std::fstream file(packed, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1000, std::ios::end);
    file.put('\x55');
    file.put('\x2a');
  }
  for (const Said& said : {Run(packed, "f32"), Tutti({"inspect", packed})}) {
    EXPECT_EQ(said.status, kExitFailed);
    EXPECT_THAT(said.err, StartsWith("tutti: packed_checksum: " + packed + ": "));
  }
}

// With --json a GGUF's fault had no path, and a packed file's stood nowhere but in the object.
TEST_F(ModelCommandsTest, InspectTellsAFaultInOneWay) {
  Bytes bytes = MakeCheckpoint(Small()).Build();
  const std::string packed = folder_.File("m.tutti");
  ASSERT_EQ(Tutti({"pack", Put("m.gguf", bytes), packed}).status, kExitOk);
  std::filesystem::resize_file(packed, std::filesystem::file_size(packed) - 1);
  Replace(bytes, "blk.0.ffn_up.weight", "blk.0.ffn_xx.weight");
  const std::string missing = Put("missing.gguf", bytes), folder = folder_.File("folder");
  std::filesystem::create_directory(folder);
  for (const auto& [code, path] : {std::pair<std::string, std::string>{"packed_truncated", packed},
                                   {"model_tensor_missing", missing},
                                   {"model_not_found", folder}}) {
    const Said said = Tutti({"inspect", path}), json = Tutti({"inspect", path, "--json"});
    EXPECT_EQ(said.status, kExitFailed);
    EXPECT_THAT(said.err, StartsWith("tutti: " + code + ": " + path + ": "));
    EXPECT_EQ(json.status, kExitFailed);
    EXPECT_EQ(json.err, said.err);
    EXPECT_THAT(json.out, HasSubstr("\"verdict\":\"" + code + ": "));
  }
}

// A Q4_K_M file was introduced by its commonest type.
TEST_F(ModelCommandsTest, AFileIsIntroducedByItsTypeAndItsMixture) {
  CheckpointSpec spec = Small();
  spec.type = tensor::DType::kQ5_0;
  spec.embedding_type = tensor::DType::kQ8_0;
  gguf::testing::Writer writer = MakeCheckpoint(spec);
  writer.U32("general.file_type", 15);
  const std::string mixed = Put("mixed.gguf", writer.Build());
  const Said said = Tutti({"inspect", mixed});
  EXPECT_EQ(said.status, kExitOk) << said.err;
  EXPECT_THAT(said.out, StartsWith("ok: llama, "));
  EXPECT_THAT(said.out, HasSubstr(" MiB as Q4_K_M (Q5_0 "));
  EXPECT_THAT(said.out, HasSubstr(" %, Q8_0 "));
  EXPECT_THAT(Tutti({"inspect", mixed, "--json"}).out, HasSubstr("\"file_type\":\"Q4_K_M\""));
  const std::string packed = folder_.File("mixed.tutti");
  ASSERT_EQ(Tutti({"pack", mixed, packed}).status, kExitOk);
  EXPECT_THAT(Tutti({"inspect", packed}).out, HasSubstr(" MiB as Q4_K_M (Q5_0 "));
}

// Regression: if both streams went to one file, the remark was inside the answer and the error
// inside the table.
TEST_F(ModelCommandsTest, WhatIsSaidOfAResultStandsBehindIt) {
  const auto together = [&](std::vector<std::string> arguments) {
    const std::string path = folder_.File("said.txt");
    std::fflush(stdout);
    std::fflush(stderr);
    const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_APPEND | O_WRONLY, 0600);
    const int out = dup(1), err = dup(2);
    dup2(file, 1);
    dup2(file, 2);
    arguments.insert(arguments.begin(), "tutti");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    Main(static_cast<int>(arguments.size()), argv.data());
    std::fflush(stdout);
    dup2(out, 1);
    dup2(err, 2);
    for (const int fd : {file, out, err}) close(fd);
    std::ifstream said(path);
    return std::string(std::istreambuf_iterator<char>(said), {});
  };
  Bytes bytes = MakeCheckpoint(Small()).Build();
  const std::string whole = Put("whole.gguf", bytes);
  EXPECT_THAT(together({"run", whole, "--raw", "-p", "Hi", "-n", "1", "--kv-cache-bytes", "8MiB"}),
              EndsWith("\ntutti: cut after 1 tokens\n"));
  bytes.resize(bytes.size() - 100);
  const std::string cut = Put("cut.gguf", bytes);
  for (const bool json : {false, true}) {
    std::vector<std::string> arguments = {"inspect", cut};
    if (json) arguments.emplace_back("--json");
    const std::string said = together(arguments);
    const size_t fault = said.find("gguf_tensor_extent: ", said.rfind('\n', said.size() - 2));
    EXPECT_NE(fault, std::string::npos) << said;
  }
}

TEST_F(ModelCommandsTest, WhatWasChangedOrNotReadIsToldInALineEach) {
  Bytes bytes = MakeCheckpoint(Small()).Build();
  EXPECT_EQ(Run(Put("plain.gguf", bytes)).err, "tutti: cut after 1 tokens\n");
  bytes.resize(bytes.size() + 5000);
  const std::string longer = Put("longer.gguf", bytes);
  const Said junk = Run(longer);
  EXPECT_EQ(junk.status, kExitOk);
  EXPECT_THAT(junk.err,
              HasSubstr("tutti: " + longer + ": 5000 bytes behind the last tensor are not read\n"));
  const Said inspected = Tutti({"inspect", longer});
  EXPECT_EQ(inspected.status, kExitOk);
  EXPECT_THAT(inspected.out,
              HasSubstr("warning: 5000 bytes behind the last tensor are not read\n"));
  EXPECT_THAT(Tutti({"inspect", longer, "--json"}).out, HasSubstr("\"unread_bytes\":5000"));

  CheckpointSpec wide = Small();
  wide.layers = 3;
  const Said lowered = Run(Put("wide.gguf", wide), "f32", "1MiB");
  EXPECT_EQ(lowered.status, kExitOk) << lowered.err;
  EXPECT_THAT(lowered.err, HasSubstr("tutti: context lowered from 2048 to "));
  EXPECT_THAT(Run(folder_.File("plain.gguf"), "int8", "8MiB", "900").err,
              HasSubstr("tutti: --threads 900 is more than the "));
}

TEST_F(ModelCommandsTest, AModelWithoutAChatTemplateIsAnsweredWithRaw) {
  Bytes bytes = MakeCheckpoint(Small()).Build();
  Replace(bytes, "tokenizer.chat_template", "tokenizer.chat_tomplate");
  const std::string base = Put("base.gguf", bytes);
  const std::string hint = "`tutti run " + base + " --raw -p TEXT`";
  const Said run = Tutti({"run", base, "-p", "Hi", "--kv-cache-bytes", "8MiB"});
  EXPECT_EQ(run.status, kExitConfig);
  EXPECT_THAT(run.err, HasSubstr(hint));
  EXPECT_THAT(Tutti({"chat", base, "--kv-cache-bytes", "8MiB"}).err, HasSubstr(hint));
  EXPECT_EQ(Run(base).status, kExitOk);
}

// Regression: settings came from the environment only.
TEST_F(ModelCommandsTest, MemoryIsToldForTheOptionsOfServe) {
  const std::string model = Put("m.gguf", Small());
  const auto memory = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"inspect", model, "--memory", "--threads", "1"});
    return Tutti(more);
  };
  const Said half = memory({"--kv-cache-bytes", "16MiB", "--kv-dtype", "F16", "--context", "512",
                            "--max-num-seqs", "4"});
  EXPECT_EQ(half.status, kExitOk) << half.err;
  EXPECT_THAT(half.out, HasSubstr("KV cache       16.0 MiB"));
  EXPECT_THAT(half.out, HasSubstr(" in fp16 "));
  EXPECT_THAT(half.out, HasSubstr("all 4 sequences at the context of 512 tokens"));
  const std::string draft = Put("draft.gguf", Small());
  const Said both = memory({"--kv-cache-bytes", "16MiB", "--draft", draft, "--dtype", "f32"});
  EXPECT_THAT(both.out, HasSubstr("draft "));
  EXPECT_THAT(both.out, HasSubstr(" in fp32 "));
  EXPECT_THAT(memory({"--kv-cache-bytes", "1MiB", "--dtype", "f32"}).err,
              HasSubstr("context lowered from 2048 to "));
  EXPECT_THAT(memory({"--kv-cache-bytes", "1MiB", "--context", "2048", "--dtype", "f32"}).err,
              HasSubstr("context of 2048 tokens needs "));
  const Said alone = Tutti({"inspect", model, "--kv-dtype", "fp16"});
  EXPECT_EQ(alone.status, kExitUsage);
  EXPECT_THAT(alone.err, HasSubstr("--memory"));
}

// Row R14: layers with a window hold the blocks of their windows, whatever the context is.
TEST_F(ModelCommandsTest, MemoryCountsTheBlocksOfWindows) {
  gguf::testing::Writer writer = MakeCheckpoint(Small());
  writer.U32("llama.attention.sliding_window", 40);
  const std::string model = Put("window.gguf", writer.Build());
  const auto memory = [&](const std::string& budget, const std::string& sequences, bool json) {
    std::vector<std::string> args = {"inspect",          model,     "--memory",
                                     "--kv-cache-bytes", budget,    "--max-num-seqs",
                                     sequences,          "--dtype", "f32"};
    if (json) args.emplace_back("--json");
    return Tutti(args);
  };
  // A block of one layer: 32 tokens, keys and values of 2 heads of 64 floats.
  const std::string block = std::to_string(3 * 32 * 2 * 2 * 64 * 4);
  const Said ample = memory("16MiB", "4", /*json=*/true);
  EXPECT_EQ(ample.status, kExitOk) << ample.err;
  EXPECT_THAT(ample.out, HasSubstr("\"kv_token_bytes\":0,"));
  EXPECT_THAT(ample.out, HasSubstr("\"sequence_window_bytes\":" + block + ","));
  EXPECT_THAT(ample.out, HasSubstr("\"sequence_bytes\":" + block + ","));
  EXPECT_THAT(memory("16MiB", "4", /*json=*/false).out,
              HasSubstr("of it for layers with a window, of which a sequence holds 0.1 MiB"));
  const Said few = memory("1MiB", "4", /*json=*/false);
  EXPECT_THAT(
      few.err,
      HasSubstr("--kv-cache-bytes 1MiB holds the windows of 1 of 4 long sequences at once"));
  const Said run = Run(model);
  EXPECT_EQ(run.status, kExitOk) << run.err;
}

// Regression: if the weights did not fit into memory, the command printed only that, after reading
// and packing them.
TEST_F(ModelCommandsTest, MemoryIsToldWithoutAWeightBeingRead) {
  const std::string sound = Put("sound.gguf", Small()), nan = Put("nan.gguf", Small());
  std::fstream bytes(nan, std::ios::binary | std::ios::in | std::ios::out);
  bytes.seekp(-4096, std::ios::end);  // in the last tensor
  bytes.write("\xff\xff\xff\xff", 4);
  bytes.close();
  ASSERT_THAT(Tutti({"inspect", nan}).err, StartsWith("tutti: model_nonfinite: "));
  const auto memory = [](const std::string& model) {
    return Tutti({"inspect", model, "--memory", "--kv-cache-bytes", "16MiB", "--json"});
  };
  EXPECT_EQ(memory(nan).status, kExitOk) << memory(nan).err;
  EXPECT_EQ(memory(nan).out, memory(sound).out);
}

TEST_F(ModelCommandsTest, MemoryOfAnEncoderIsItsWeightsAndActivations) {
  const std::string folder = PutEncoder("encoder");
  const auto memory = [&](const char* dtype, const char* threads) {
    const Said said =
        Tutti({"inspect", folder, "--memory", "--json", "--dtype", dtype, "--threads", threads});
    EXPECT_EQ(said.status, kExitOk) << said.err;
    return said.status == kExitOk ? boost::json::parse(said.out).as_object()
                                  : boost::json::object();
  };
  const boost::json::object floats = memory("f32", "1"), bytes = memory("int8", "1"),
                            two = memory("f32", "2");
  const auto number = [](const boost::json::object& object, const char* key) {
    return object.at(key).to_number<double>();
  };
  size_t elements = 0;
  for (const auto& [name, values] : model::testing::GenerateEncoder().tensors)
    elements += values.size();
  const auto plain = static_cast<double>(elements * sizeof(float));
  EXPECT_GE(number(floats, "weights_bytes"), plain);
  EXPECT_LT(number(floats, "weights_bytes"), 1.2 * plain);
  EXPECT_LT(number(bytes, "weights_bytes"), 0.7 * plain);
  EXPECT_EQ(bytes.at("dtype"), "int8");
  // A batch has at least the rows of the longest text.
  const double rows = number(floats, "batch_tokens");
  EXPECT_GE(rows, 80);
  EXPECT_GT(number(floats, "activations_bytes"), rows * (6 * 64 + 96) * sizeof(float));
  EXPECT_GT(number(two, "activations_bytes"), number(floats, "activations_bytes"));
  EXPECT_THAT(Tutti({"inspect", folder, "--memory"}).out, HasSubstr("activations "));
}

TEST_F(ModelCommandsTest, MemoryOfAnEmbedderIsRefusedByName) {
  gguf::testing::Writer writer = MakeCheckpoint(Small());
  writer.U32("llama.pooling_type", 3);
  const Said said = Tutti({"inspect", Put("embedder.gguf", writer.Build()), "--memory"});
  EXPECT_EQ(said.status, kExitConfig);
  EXPECT_THAT(said.err, HasSubstr("gives embeddings or scores alone; --memory describes"));
}

// Regression: it was described by its chat template, ends and sampling.
TEST_F(ModelCommandsTest, AnEmbeddersGgufIsDescribedByWhatItGives) {
  gguf::testing::Writer writer = MakeCheckpoint(Small());
  writer.U32("llama.pooling_type", 3)
      .Strings("tutti.prompt_names", std::vector<std::string>{"query"})
      .Strings("tutti.prompt_texts", std::vector<std::string>{"Find: "});
  const std::string model = Put("embedder.gguf", writer.Build());
  const Said said = Tutti({"inspect", model});
  EXPECT_EQ(said.status, kExitOk) << said.err;
  EXPECT_THAT(said.out, HasSubstr("256 floats by last pooling, of length 1"));
  EXPECT_THAT(said.out, HasSubstr("prompt \"query\":"));
  for (const char* other : {"chat template:", "ends:", "sampling:"})
    EXPECT_THAT(said.out, Not(HasSubstr(other)));
  const Said plain = Tutti({"inspect", Put("plain.gguf", Small())});
  EXPECT_THAT(plain.out, HasSubstr("chat template:"));
  EXPECT_THAT(plain.out, HasSubstr("digest: "));
  EXPECT_THAT(plain.out, Not(HasSubstr("pooling")));
}

// Regression: weights were counted at their size in the file, which is an eighth of that in f32.
TEST_F(ModelCommandsTest, MemoryOfASecondModelIsThatOfItsArithmetic) {
  CheckpointSpec spec = Small();
  const std::string model = Put("m.gguf", spec);
  const auto memory = [&](const std::string& draft, const std::string& dtype) {
    return Tutti({"inspect", model, "--memory", "--kv-cache-bytes", "16MiB", "--json", "--dtype",
                  dtype, "--draft", draft})
        .out;
  };
  const std::string floats = Put("floats.gguf", spec);
  spec.type = tensor::DType::kQ4_0;
  spec.embedding_type = tensor::DType::kQ4_0;
  const std::string nibbles = Put("nibbles.gguf", spec);
  EXPECT_THAT(memory(floats, "f32"), HasSubstr("\"draft_bytes\":"));
  EXPECT_EQ(memory(nibbles, "f32"), memory(floats, "f32"));
  EXPECT_NE(memory(nibbles, "int8"), memory(floats, "int8"));
}

TEST_F(ModelCommandsTest, QuantizeWarnsOfWhatCannotGainAndRefusesWhatItCannotRead) {
  CheckpointSpec spec = Small();
  spec.type = tensor::DType::kQ4_0;
  const std::string small = Put("q4.gguf", spec);
  const auto quantize = [&](const std::string& in, const std::string& type) {
    return Tutti({"quantize", in, folder_.File("out.gguf"), "--type", type, "--dry-run"});
  };
  const Said again = quantize(small, "Q8_0");
  EXPECT_EQ(again.status, kExitOk);
  EXPECT_THAT(again.err, HasSubstr("is quantised already (Q4_0): what it lost stays lost, and "));
  EXPECT_EQ(quantize(small, "q4_0").err.find("gains nothing"), std::string::npos);

  spec.type = tensor::DType::kF16;
  const std::string half = Put("f16.gguf", spec);
  EXPECT_THAT(quantize(half, "FP32").err, HasSubstr(" MiB and gains nothing"));
  EXPECT_EQ(quantize(half, "fp16").err, "");
  EXPECT_EQ(quantize(half, "Q8_0").err, "");
  EXPECT_THAT(quantize(half, "Q9").err, HasSubstr("it must be one of F32, BF16, F16, Q8_0"));

  Bytes bytes = MakeCheckpoint(spec).Build();
  Replace(bytes, "llama", "lhama");
  const Said foreign = quantize(Put("lhama.gguf", bytes), "Q8_0");
  EXPECT_EQ(foreign.status, kExitOk) << "other programs may read it";
  EXPECT_THAT(foreign.err, HasSubstr("will not be served by tutti"));
  EXPECT_THAT(foreign.err, HasSubstr("\"lhama\""));
  EXPECT_THAT(foreign.err, HasSubstr("qwen3"));

  std::filesystem::create_directory(folder_.File("empty"));
  const Said empty = quantize(folder_.File("empty"), "Q8_0");
  EXPECT_EQ(empty.status, kExitFailed);
  EXPECT_THAT(empty.err, HasSubstr("no config.json"));
  EXPECT_THAT(empty.err, Not(HasSubstr("Encoders")));
}

// Regression: the report overwrote its own model.
TEST_F(ModelCommandsTest, AReportTakesThePlaceOfNoModel) {
  const std::string model = Put("m.gguf", Small()), out = folder_.File("out.gguf");
  const auto size = std::filesystem::file_size(model);
  std::filesystem::create_symlink(model, folder_.File("link"));
  const auto quantize = [&](const std::string& report) {
    return Tutti({"quantize", model, out, "--type", "Q8_0", "--json", report});
  };
  for (const std::string& report : {model, folder_.File("link"), out, folder_.File("./out.gguf")}) {
    const Said said = quantize(report);
    EXPECT_EQ(said.status, kExitConfig);
    EXPECT_THAT(said.err, HasSubstr("--json: the report would take the place of "));
  }
  EXPECT_THAT(quantize(folder_.File("none/report.json")).err, HasSubstr("--json: cannot write "));
  EXPECT_THAT(Tutti({"bench", "engine", model, "--batch", "1", "--json", model}).err,
              HasSubstr("--json: the report would take the place of "));
  EXPECT_FALSE(std::filesystem::exists(out)) << "nothing was made before";
  EXPECT_EQ(std::filesystem::file_size(model), size);
  EXPECT_EQ(quantize(folder_.File("report.json")).status, kExitOk);
  EXPECT_GT(std::filesystem::file_size(folder_.File("report.json")), 100u);
}

TEST_F(ModelCommandsTest, ABenchSaysBeforeItReadsWeightsWhatItWouldSayBehindThem) {
  const std::string model = Put("m.gguf", Small());
  const std::string text = folder_.File("text.txt");
  std::ofstream(text) << "";
  const auto perplexity = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", "perplexity", model, "--text", text});
    return Tutti(more);
  };
  EXPECT_THAT(perplexity({}).err, HasSubstr(text + "\" is empty"));
  std::ofstream(text) << "A text of some words.";
  const Said window = perplexity({"--window", "4000"});
  EXPECT_THAT(window.err,
              HasSubstr("4000 tokens of one sequence are more than the context of 2048"));
  const Said other = perplexity({"--against", folder_.File("none.gguf"), "--window", "8"});
  EXPECT_THAT(other.err, HasSubstr("no file "));
  const Said late = perplexity({"--window", "8", "--json", folder_.File("none/figures.json")});
  EXPECT_THAT(late.err, HasSubstr("--json: cannot write "));
  const Said engine = Tutti({"bench", "engine", model, "--prompt", "4000", "--batch", "1"});
  EXPECT_THAT(engine.err, HasSubstr("are more than the context of 2048"));
  const Said draft = Tutti({"bench", "speculation", model, "--draft", "nothing"});
  EXPECT_THAT(draft.err, HasSubstr("--draft: no file nothing"));
  for (const Said& said : {window, other, late, engine, draft}) {
    EXPECT_NE(said.status, kExitOk);
    EXPECT_EQ(said.out, "") << "no model was measured before";
  }
  const std::string figures = folder_.File("figures.json");
  EXPECT_NE(perplexity({"--window", "4000", "--json", figures}).status, kExitOk);
  EXPECT_FALSE(std::filesystem::exists(figures)) << "what failed leaves no file";
}

}  // namespace
}  // namespace tutti::cli
