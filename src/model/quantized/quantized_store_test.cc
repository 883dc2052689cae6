#include "model/quantized/quantized_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "files/source.h"
#include "model/quantized/ignore_list.h"
#include "safetensors/checkpoint.h"
#include "safetensors/testing/writer.h"
#include "tensor/blocks.h"

namespace tutti::model {
namespace {

using quantized::IgnoreList;
using safetensors::testing::BytesOf;
using ::testing::HasSubstr;
namespace json = boost::json;

constexpr const char* kModule = "model.layers.0.mlp.up_proj";

struct QuantizedFolder {
  safetensors::testing::Writer writer;
  std::string config;
  std::vector<std::string> remarks, notes;

  Result<std::unique_ptr<TensorStore>> Open() {
    ASSIGN_OR_RETURN(const auto file, safetensors::File::FromSource(
                                          files::MemorySource(writer.Build(), "st_offsets")));
    ASSIGN_OR_RETURN(const JsonFile parsed, JsonFile::Parse(config, "config.json"));
    return MakeQuantizedStore(MakeTensorStore(safetensors::Checkpoint::Of(file)), parsed, remarks,
                              notes);
  }
};

int8_t Code8(size_t i) { return static_cast<int8_t>(static_cast<int>(i * 37 % 256) - 128); }

// 8 outputs of 64 columns in int8 with a scale for each output.
QuantizedFolder Int8Folder(const std::string& module = kModule) {
  QuantizedFolder folder;
  std::vector<int8_t> codes(8 * 64);
  std::vector<float> scales(8);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = Code8(i);
  for (size_t i = 0; i < 8; ++i) scales[i] = 0.25F + static_cast<float>(i) / 64;
  folder.writer.Tensor(module + ".weight", "I8", {8, 64}, BytesOf(codes));
  folder.writer.Floats(module + ".weight_scale", {8, 1}, scales);
  folder.config =
      R"({"quant_method":"compressed-tensors","format":"int-quantized","ignore":["lm_head"],
"config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"strategy":"channel"}}}})";
  return folder;
}

// 8 outputs of 64 columns in GPTQ's layout; code i of output r is (i + r) % 16.
QuantizedFolder GptqFolder(uint32_t zeros = 0x77777777, const std::string& more = "",
                           float scale = 0.5F, bool halves = false) {
  QuantizedFolder folder;
  std::vector<uint32_t> words(8 * 8);
  for (size_t k = 0; k < 64; ++k)
    for (size_t r = 0; r < 8; ++r)
      words[k / 8 * 8 + r] |= static_cast<uint32_t>((k + r) % 16) << (k % 8 * 4);
  const std::string module = kModule;
  folder.writer.Tensor(module + ".qweight", "I32", {8, 8}, BytesOf(words));
  folder.writer.Tensor(module + ".qzeros", "I32", {2, 1},
                       BytesOf(std::vector<uint32_t>{zeros, zeros}));
  if (halves) {
    folder.writer.Tensor(module + ".scales", "F16", {2, 8},
                         BytesOf(std::vector<uint16_t>(16, tensor::FloatToHalf(scale))));
  } else {
    folder.writer.Floats(module + ".scales", {2, 8}, std::vector<float>(16, scale));
  }
  folder.config = R"({"quant_method":"gptq","bits":4,"group_size":32)" + more + "}";
  return folder;
}

// 8 outputs of 64 columns of FP8 with one scale.
QuantizedFolder Fp8Folder(const std::string& more = "", uint8_t first = 0) {
  QuantizedFolder folder;
  std::vector<uint8_t> codes(8 * 64);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 29 % 0x7F);
  if (first != 0) codes[0] = first;
  folder.writer.Tensor(std::string(kModule) + ".weight", "F8_E4M3", {8, 64}, BytesOf(codes));
  folder.writer.Floats(std::string(kModule) + ".weight_scale_inv", {}, {0.5F});
  folder.config = R"({"quant_method":"fp8")" + more + "}";
  return folder;
}

constexpr const char* kExperts = "model.layers.0.mlp.experts.down_proj";

// 2 experts of 3 outputs and 64 columns in MXFP4; code i of all is i % 16, scales grow.
QuantizedFolder Mxfp4Folder(uint8_t first_scale = 120, const std::string& more = "") {
  QuantizedFolder folder;
  std::vector<uint8_t> blocks(2 * 3 * 32), scales(2 * 3 * 2);
  for (size_t i = 0; i < blocks.size(); ++i)
    blocks[i] = static_cast<uint8_t>(2 * i % 16 | ((2 * i + 1) % 16) << 4);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<uint8_t>(first_scale + i);
  const std::string name = kExperts;
  folder.writer.Tensor(name + "_blocks", "U8", {2, 3, 2, 16}, BytesOf(blocks));
  folder.writer.Tensor(name + "_scales", "U8", {2, 3, 2}, BytesOf(scales));
  folder.writer.Floats(name + "_bias", {2, 3}, std::vector<float>(6));
  folder.config = R"({"quant_method":"mxfp4")" + more + "}";
  return folder;
}

// 8 outputs of 64 columns of -1, 0 and 1; that of output r and column k is (r + k) % 3 - 1.
QuantizedFolder BitNetFolder(const std::string& more = "", float scale = 0.5F) {
  QuantizedFolder folder;
  std::vector<uint8_t> bytes(2 * 64);
  for (size_t r = 0; r < 8; ++r)
    for (size_t k = 0; k < 64; ++k)
      bytes[r % 2 * 64 + k] |= static_cast<uint8_t>((r + k) % 3 << (2 * (r / 2)));
  folder.writer.Tensor(std::string(kModule) + ".weight", "U8", {2, 64}, BytesOf(bytes));
  folder.writer.Floats(std::string(kModule) + ".weight_scale", {1}, {scale});
  folder.config = R"({"quant_method":"bitnet","modules_to_not_convert":null)" + more + "}";
  return folder;
}

// Weights as trained, which become ternary when they are read.
QuantizedFolder BitNetMasterFolder(float first = -0.125F) {
  QuantizedFolder folder;
  std::vector<float> values(8 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 5) / 4 - 0.5F;
  values[0] = first;
  folder.writer.Floats(std::string(kModule) + ".weight", {8, 64}, values);
  folder.config = R"({"quant_method":"bitnet","linear_class":"autobitlinear",
"quantization_mode":"online"})";
  return folder;
}

std::vector<float> ValuesOf(QuantizedFolder& folder, std::string name = "") {
  const auto store = folder.Open();
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return {};
  if (name.empty()) name = std::string(kModule) + ".weight";
  const StoredTensor* tensor = (*store)->Find(name);
  EXPECT_NE(tensor, nullptr);
  if (tensor == nullptr) return {};
  const auto values = (*store)->ReadFloats(*tensor);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *values : std::vector<float>();
}

TEST(QuantizedStoreTest, Int8WeightsAreThePublishedOnes) {
  QuantizedFolder folder = Int8Folder();
  const std::vector<float> values = ValuesOf(folder);
  ASSERT_EQ(values.size(), 8U * 64);
  for (size_t i = 0; i < values.size(); ++i) {
    const float scale = 0.25F + static_cast<float>(i / 64) / 64;
    ASSERT_EQ(values[i], scale * static_cast<float>(Code8(i))) << i;
  }
  ASSERT_EQ(folder.remarks.size(), 1U);
  EXPECT_EQ(folder.remarks[0],
            "1 matrix of compressed-tensors int8, read as Q8_0: codes exact, scales "
            "rounded to fp16");
}

TEST(QuantizedStoreTest, PartsOfAMatrixAreItsBytes) {
  QuantizedFolder folder = GptqFolder();
  const auto store = folder.Open();
  ASSERT_TRUE(store.ok()) << store.status();
  const StoredTensor& tensor = *(*store)->Find(std::string(kModule) + ".weight");
  EXPECT_EQ(tensor.dtype, tensor::DType::kQ4_0);
  std::vector<std::byte> whole(tensor.bytes), part(36);
  ASSERT_TRUE((*store)->Read(tensor, 0, whole).ok());
  for (size_t at = 0; at < whole.size(); at += part.size()) {
    ASSERT_TRUE((*store)->Read(tensor, at, part).ok());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<ptrdiff_t>(at)));
  }
}

TEST(QuantizedStoreTest, GptqCodesLessTheirZeroPointAreKept) {
  for (const bool symmetric : {true, false}) {
    QuantizedFolder folder = symmetric ? GptqFolder() : GptqFolder(0x22222222, R"(,"sym":false)");
    const std::vector<float> values = ValuesOf(folder);
    ASSERT_EQ(values.size(), 8U * 64);
    for (size_t i = 0; i < values.size(); ++i) {
      const int code = static_cast<int>((i % 64 + i / 64) % 16);
      ASSERT_EQ(values[i], 0.5F * static_cast<float>(code - (symmetric ? 8 : 3))) << i;
    }
  }
}

// Regression: it was printed as a warning.
TEST(QuantizedStoreTest, AReadWithoutLossIsANote) {
  QuantizedFolder folder = GptqFolder(0x77777777, "", 0.5F, true);
  ASSERT_TRUE(folder.Open().ok());
  ASSERT_EQ(folder.notes.size(), 1U);
  EXPECT_EQ(folder.notes[0], "1 matrix of GPTQ 4-bit, read as Q4_0: codes exact, scales exact");
  EXPECT_TRUE(folder.remarks.empty());
}

TEST(QuantizedStoreTest, ScaleTimesZeroPointIsRoundedAsStated) {
  constexpr float kScale = 1365.0F / 4096;  // exact in fp16; 11 times as much is not
  QuantizedFolder folder = GptqFolder(0xAAAAAAAA, R"(,"sym":false)", kScale);
  const std::vector<float> values = ValuesOf(folder);
  ASSERT_EQ(values.size(), 8U * 64);
  float most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const int code = static_cast<int>((i % 64 + i / 64) % 16);
    const float loss = std::fabs(values[i] - kScale * static_cast<float>(code - 11));
    ASSERT_LE(loss, kScale * 11 / 2048) << i;
    most = std::max(most, loss);
  }
  EXPECT_GT(most, 0);
  EXPECT_THAT(folder.remarks[0], HasSubstr("scale times zero point rounded to fp16"));
}

TEST(QuantizedStoreTest, Fp8IsWithinTheStatedLoss) {
  QuantizedFolder folder = Fp8Folder();
  const std::vector<float> values = ValuesOf(folder);
  ASSERT_EQ(values.size(), 8U * 64);
  for (size_t block = 0; block < values.size(); block += 32) {
    std::vector<float> wanted;
    float most = 0;
    for (size_t i = block; i < block + 32; ++i) {
      const int code = static_cast<int>(i * 29 % 0x7F);
      const int exponent = code >> 3;
      const float fraction = static_cast<float>((code & 7) + (exponent == 0 ? 0 : 8));
      wanted.push_back(0.5F * std::ldexp(fraction, (exponent == 0 ? 1 : exponent) - 10));
      most = std::max(most, wanted.back());
    }
    for (size_t i = 0; i < 32; ++i) ASSERT_NEAR(values[block + i], wanted[i], most / 225);
  }
  EXPECT_THAT(folder.remarks[0], HasSubstr("within 1/225 of the largest of each 32"));
}

TEST(QuantizedStoreTest, TernaryCodesAreKept) {
  constexpr std::string_view kAuto = R"(,"linear_class":"autobitlinear")";
  for (const bool divided : {false, true}) {  // bitlinear, the default, divides by the scale
    QuantizedFolder folder = BitNetFolder(divided ? "" : std::string(kAuto));
    const std::vector<float> values = ValuesOf(folder);
    ASSERT_EQ(values.size(), 8U * 64);
    for (size_t i = 0; i < values.size(); ++i) {
      const int code = static_cast<int>((i / 64 + i % 64) % 3) - 1;
      ASSERT_EQ(values[i], (divided ? 2.0F : 0.5F) * static_cast<float>(code)) << i;
    }
    EXPECT_EQ(folder.remarks[0],
              "1 matrix of BitNet ternary, read as Q4_0: codes exact, scales rounded to fp16");
  }
  QuantizedFolder zero = BitNetFolder("", 0);  // a divisor
  const auto store = zero.Open();
  ASSERT_TRUE(store.ok()) << store.status();
  const auto values = (*store)->ReadFloats(*(*store)->Find(std::string(kModule) + ".weight"));
  EXPECT_EQ(values.status().reason(), "model_nonfinite");
}

// As transformers does it when it loads them: the mean magnitude is the scale.
TEST(QuantizedStoreTest, MasterWeightsBecomeTernary) {
  QuantizedFolder folder = BitNetMasterFolder();
  const std::vector<float> values = ValuesOf(folder);
  ASSERT_EQ(values.size(), 8U * 64);
  const float mean = values[4];
  EXPECT_NEAR(mean, 0.3F, 0.002F);
  EXPECT_EQ(values[0], 0) << "below half of the mean";
  for (size_t i = 1; i < values.size(); ++i) {
    const float written = static_cast<float>(i % 5) / 4 - 0.5F;
    ASSERT_EQ(values[i], written > 0 ? mean : written < 0 ? -mean : 0) << i;
  }
  EXPECT_THAT(folder.remarks[0], HasSubstr("1 matrix of BitNet master weights, read as Q4_0"));
  QuantizedFolder nan = BitNetMasterFolder(NAN);
  const auto store = nan.Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(
      (*store)->ReadFloats(*(*store)->Find(std::string(kModule) + ".weight")).status().reason(),
      "model_nonfinite");
}

TEST(QuantizedStoreTest, Mxfp4IsWhatItsCodesAndScalesSay) {
  constexpr float kValues[16] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, 0, -0.5F, -1, -1.5F, -2, -3, -4, -6};
  QuantizedFolder folder = Mxfp4Folder();
  const std::vector<float> values = ValuesOf(folder, kExperts);
  ASSERT_EQ(values.size(), 2U * 3 * 64);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], std::ldexp(kValues[i % 16], static_cast<int>(i / 32) - 7)) << i;
  EXPECT_THAT(folder.notes[0], HasSubstr("1 tensor of experts in MXFP4, kept in 4 bits"));
  EXPECT_TRUE(folder.remarks.empty());

  const auto store = folder.Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->tensors().size(), 2U);
  const StoredTensor& tensor = *(*store)->Find(kExperts);
  EXPECT_EQ(tensor.shape, (tensor::Shape{64, 3, 2}));
  std::vector<std::byte> whole(tensor.bytes);
  ASSERT_TRUE((*store)->Read(tensor, 0, whole).ok());
  for (const size_t size : {1, 5, 17, 40}) {  // pieces that begin and end within blocks
    for (size_t at = 0; at < whole.size(); at += size) {
      std::vector<std::byte> part(std::min(size, whole.size() - at));
      ASSERT_TRUE((*store)->Read(tensor, at, part).ok());
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<ptrdiff_t>(at)));
    }
  }
}

TEST(QuantizedStoreTest, Mxfp4OfAnotherShapeOrWithoutANumberIsRefused) {
  const std::string name = kExperts;
  const auto refusal = [](QuantizedFolder folder) { return folder.Open().status(); };
  QuantizedFolder folder = Mxfp4Folder(120, R"(,"modules_to_not_convert":["mlp.experts"])");
  EXPECT_THAT(refusal(folder).message(), HasSubstr("modules_to_not_convert names module"));
  folder = {};
  folder.config = Mxfp4Folder().config;
  folder.writer.Floats("model.norm.weight", {8}, std::vector<float>(8));
  EXPECT_THAT(refusal(folder).message(), HasSubstr("but no tensor is quantised"));
  folder.writer.Tensor(name + "_blocks", "U8", {2, 2, 16}, BytesOf(std::vector<uint8_t>(64)));
  EXPECT_EQ(refusal(folder).reason(), "model_tensor_missing");
  QuantizedFolder wide = folder, floats = folder, eight = folder;
  wide.writer.Tensor(name + "_scales", "U8", {2, 3}, BytesOf(std::vector<uint8_t>(6)));
  EXPECT_EQ(refusal(wide).reason(), "st_shape");
  floats.writer.Floats(name + "_scales", {2, 2}, std::vector<float>(4));
  EXPECT_EQ(refusal(floats).reason(), "st_shape");
  eight.writer.Tensor("a.b_blocks", "U8", {4, 8}, BytesOf(std::vector<uint8_t>(32)));
  eight.writer.Tensor(name + "_scales", "U8", {2, 2}, BytesOf(std::vector<uint8_t>(4)));
  EXPECT_THAT(refusal(eight).message(), HasSubstr("not U8 in blocks of 16"));

  QuantizedFolder nan = Mxfp4Folder(244);
  const auto store = nan.Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->ReadFloats(*(*store)->Find(name)).status().reason(), "model_nonfinite");
}

TEST(QuantizedStoreTest, WhatIsNotSupportedIsRefusedByItsKey) {
  struct Case {
    QuantizedFolder folder;
    std::string from, to;  // a replacement in the configuration
    std::string fault;
  };
  std::vector<Case> cases;
  const auto add = [&](QuantizedFolder folder, std::string from, std::string to,
                       std::string fault) {
    cases.push_back({std::move(folder), std::move(from), std::move(to), std::move(fault)});
  };
  add(GptqFolder(), "gptq", "bitsandbytes", "quant_method is \"bitsandbytes\", which is not");
  add(Int8Folder(), "gptq", "", "");  // replaces nothing: the folder is sound
  add(Int8Folder(), "int-quantized", "nvfp4-pack-quantized", "format is \"nvfp4-pack-quantized\"");
  add(Int8Folder(), "num_bits\":8", "num_bits\":3", "weights: num_bits of 3 for \"int\"");
  add(Int8Folder(), "num_bits\":8", "num_bits\":4", "is I8, but no group has num_bits of 8");
  add(Int8Folder(), "\"strategy\":\"channel\"", "\"strategy\":\"token\"", "strategy \"token\"");
  add(Int8Folder(), "\"strategy\":\"channel\"", "\"group_size\":16", "fits no group of the config");
  add(Int8Folder(), "\"num_bits\"", "\"dynamic\":true,\"num_bits\"", "dynamic of true");
  add(Int8Folder(), "\"num_bits\"", "\"symmetric\":false,\"num_bits\"",
      "does not have the tensor model.layers.0.mlp.up_proj.weight_zero_point");
  add(Int8Folder(), "\"num_bits\"", "\"actorder\":\"other\",\"num_bits\"", "actorder is \"other\"");
  add(Int8Folder(), "\"ignore\"", "\"kv_cache_scheme\":{\"num_bits\":8},\"ignore\"",
      "kv_cache_scheme is not supported");
  add(Int8Folder(), "\"ignore\"", "\"sparsity_config\":{\"format\":\"sparse-24\"},\"ignore\"",
      "sparsity_config is not supported");
  add(Int8Folder(), "\"ignore\"", "\"transform_config\":{\"a\":1},\"ignore\"",
      "transform_config is not supported");
  add(Int8Folder(), "\"weights\"", "\"output_activations\":{},\"weights\"",
      "output_activations is not supported");
  add(Int8Folder(), "\"weights\"", "\"input_activations\":{\"num_bits\":4},\"weights\"",
      "input_activations: num_bits of 4");
  add(Int8Folder(), "\"lm_head\"", "\"re:.*up_proj\"",
      "ignore names module \"model.layers.0.mlp.up_proj\", which is quantised");
  add(Int8Folder(), "\"lm_head\"", "1", "ignore must be a list of strings");
  add(Int8Folder(), "config_groups", "groups", "config_groups must be an object with a group");
  QuantizedFolder partly = Int8Folder();
  partly.writer.Floats("model.layers.1.mlp.up_proj.weight", {8, 64}, std::vector<float>(512));
  add(partly, "gptq", "",
      "ignore does not name module \"model.layers.1.mlp.up_proj\", which is not quantised");
  add(partly, "\"lm_head\"", "\"re:.*layers\\\\.1\\\\..*\"", "");  // named: sound
  QuantizedFolder none;
  none.config = Int8Folder().config;
  none.writer.Floats("model.norm.weight", {8}, std::vector<float>(8));
  add(none, "gptq", "", "but no tensor is quantised");

  add(GptqFolder(), "\"bits\":4", "\"bits\":3", "bits of 3 is not supported (4 and 8 are)");
  add(GptqFolder(), "32", "48", "group_size 48 does not divide the 64 columns");
  add(GptqFolder(), "\"bits\"", "\"checkpoint_format\":\"marlin\",\"bits\"",
      "checkpoint_format is \"marlin\"");
  add(GptqFolder(), "\"bits\"", "\"dynamic\":{\"-:x\":{}},\"bits\"", "dynamic is not supported");
  add(GptqFolder(), "\"bits\"", "\"is_marlin_format\":true,\"bits\"", "is_marlin_format of true");
  add(GptqFolder(0x66666666), "gptq", "gptq",
      "sym is true, but tensor model.layers.0.mlp.up_proj.qzeros has a zero point other than 8");
  add(GptqFolder(), "gptq", "awq", "group_size 32 does not divide the 8 columns");
  add(GptqFolder(), "gptq\"", "awq\",\"version\":\"gemv\"", "version is \"gemv\"");
  add(GptqFolder(), "gptq\"", "awq\",\"zero_point\":false", "zero_point of false");
  add(GptqFolder(), "gptq\"", "awq\",\"backend\":\"llm-awq\"", "backend is \"llm-awq\"");

  add(BitNetFolder(), "}", R"(,"linear_class":"linear"})", "linear_class is \"linear\"");
  add(BitNetFolder(), "}", R"(,"quantization_mode":"later"})", "quantization_mode is \"later\"");
  add(BitNetFolder(), "}", R"(,"use_rms_norm":true})", "use_rms_norm of true");
  add(BitNetFolder(), "null", R"(["up_proj"])", "modules_to_not_convert names module");
  add(BitNetMasterFolder(), "online", "offline", "but no tensor is quantised");
  QuantizedFolder bytes = BitNetFolder();
  bytes.writer.Floats("a.weight_scale", {1}, {1});
  add(bytes, "gptq", "", "does not have the tensor a.weight");
  add(Fp8Folder(), "}", R"(,"fmt":"e5m2"})", "fmt is \"e5m2\"");
  add(Fp8Folder(), "}", R"(,"weight_block_size":[0,128]})", "weight_block_size must be two");
  add(Fp8Folder(), "}", R"(,"modules_to_not_convert":["up_proj"]})",
      "modules_to_not_convert names module");
  for (Case& each : cases) {
    const size_t at = each.folder.config.find(each.from);
    if (at != std::string::npos) each.folder.config.replace(at, each.from.size(), each.to);
    const auto store = each.folder.Open();
    SCOPED_TRACE(each.folder.config);
    EXPECT_EQ(store.ok(), each.fault.empty()) << store.status();
    if (!store.ok()) {
      EXPECT_THAT(store.status().message(), HasSubstr(each.fault));
    }
  }
}

TEST(QuantizedStoreTest, ScalesThatAreNotFiniteAreRefused) {
  QuantizedFolder nan = Fp8Folder("", 0x7F);
  auto store = nan.Open();
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string name = std::string(kModule) + ".weight";
  EXPECT_EQ((*store)->ReadFloats(*(*store)->Find(name)).status().reason(), "model_nonfinite");

  QuantizedFolder large;
  large.config = Int8Folder().config;
  large.writer.Tensor(name, "I8", {1, 32}, BytesOf(std::vector<int8_t>(32, 1)));
  large.writer.Floats(name + "_scale", {1, 1}, {1e6F});
  store = large.Open();
  ASSERT_TRUE(store.ok()) << store.status();
  const auto values = (*store)->ReadFloats(*(*store)->Find(name));
  EXPECT_THAT(values.status().message(), HasSubstr("a scale of row 0 is too large for fp16"));
}

TEST(IgnoreListTest, PatternsMatchAsInPython) {
  using quantized::MatchPattern;
  const std::string name = "model.layers.10.mlp.gate";
  for (const char* pattern : {"model", ".*gate", ".*gate$", "^model\\.layers.*", ".*\\.1.\\.mlp"})
    EXPECT_EQ(MatchPattern(pattern, name), IgnoreList::Match::kYes) << pattern;
  for (const char* pattern : {"gate", ".*mlp$", ".*layers\\.1\\..*", "model,layers"})
    EXPECT_EQ(MatchPattern(pattern, name), IgnoreList::Match::kNo) << pattern;
  for (const char* pattern : {"(a|b)", ".*\\d", "a+", "[ab]"})
    EXPECT_EQ(MatchPattern(pattern, name), IgnoreList::Match::kUnknown) << pattern;
  const auto config = JsonFile::Parse(R"({"ignore":["mlp.gate"]})", "config.json");
  const auto list = IgnoreList::Read(*config, "ignore");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->Find(name), IgnoreList::Match::kYes);
  EXPECT_EQ(list->Find(name + "_proj"), IgnoreList::Match::kNo);
}

}  // namespace
}  // namespace tutti::model
