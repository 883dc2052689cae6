// A file we did not write: by the format's own Python package.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "safetensors/file.h"
#include "safetensors/testing/writer.h"
#include "test_paths.h"

namespace tutti::safetensors {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Pointwise;

// Made by tools/make_safetensors_reference.py.
TEST(ReferenceFile, IsReadAsTheReferenceWroteIt) {
  const auto opened =
      testing::OpenFile(support::SourcePath("tests/data/safetensors/reference_writer.safetensors"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const File& file = **opened;
  EXPECT_EQ(file.tensors().size(), 11u);
  EXPECT_EQ(*file.header().FindMetadata("format"), "np");
  EXPECT_EQ(*file.header().FindMetadata("text"), "\xe4\xb8\x96\xe7\x95\x8c \"x\"\\\n\x7f");
  EXPECT_EQ(*file.header().FindMetadata("empty"), "");

  std::vector<float> eighths(24), thirds(24);
  for (size_t i = 0; i < 24; ++i) {
    eighths[i] = (static_cast<float>(i) - 12) / 8;
    thirds[i] = static_cast<float>((static_cast<double>(i) - 12) / 3);
  }
  const auto floats = [&](const char* name) {
    const TensorInfo* tensor = file.FindTensor(name);
    EXPECT_NE(tensor, nullptr) << name;
    return tensor != nullptr ? file.ReadFloats(*tensor).value() : std::vector<float>();
  };
  EXPECT_THAT(floats("f32"), Pointwise(Eq(), eighths));
  EXPECT_THAT(floats("f16"), Pointwise(Eq(), eighths));
  EXPECT_THAT(floats("f64"), Pointwise(Eq(), thirds));
  EXPECT_THAT(floats("scalar"), ElementsAre(0.1f));
  EXPECT_THAT(floats("none"), ElementsAre());
  EXPECT_THAT(floats("caf\xc3\xa9 \"quoted\"\n"), ElementsAre(1, 1));
  EXPECT_THAT(file.FindTensor("f32")->shape.dims(), ElementsAre(2, 3, 4));
  EXPECT_THAT(file.FindTensor("f16")->shape.dims(), ElementsAre(4, 6));
  EXPECT_THAT(file.FindTensor("scalar")->shape.dims(), ElementsAre());
  EXPECT_THAT(file.FindTensor("none")->shape.dims(), ElementsAre(0, 5));

  std::vector<int64_t> integers(24);
  ASSERT_TRUE(
      file.Read(*file.FindTensor("i64"), 0, std::as_writable_bytes(std::span(integers))).ok());
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(integers[static_cast<size_t>(i)], i - 12);
  EXPECT_EQ(file.FindTensor("i8")->dtype, DType::kI8);
  EXPECT_EQ(file.FindTensor("u8")->dtype, DType::kU8);
  EXPECT_EQ(file.FindTensor("bool")->dtype, DType::kBool);
  EXPECT_EQ(file.FindTensor("c64")->dtype, DType::kC64);
  EXPECT_TRUE(file.CheckUnchanged().ok());
}

}  // namespace
}  // namespace tutti::safetensors
