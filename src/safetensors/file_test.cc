// Sound files: what is written is what is read, to the bit, in every float type.
#include "safetensors/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "safetensors/testing/writer.h"

namespace tutti::safetensors {
namespace {

using testing::Bytes;
using testing::BytesOf;
using ::testing::ElementsAre;
using testing::Writer;

TEST(File, ReadsTensorsAndMetadata) {
  Writer writer;
  writer.Metadata("format", "pt").Floats("a.weight", {2, 3}, {1, 2, 3, 4, 5, 6});
  writer.Tensor("ids", "I64", {2}, BytesOf<int64_t>({7, -1}));
  writer.blanks = "   ";
  const auto opened = File::FromSource(MemorySource(writer.Build()));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const File& file = **opened;
  EXPECT_EQ(*file.header().FindMetadata("format"), "pt");
  const TensorInfo* a = file.FindTensor("a.weight");
  ASSERT_NE(a, nullptr);
  EXPECT_THAT(a->shape.dims(), ElementsAre(2, 3));
  EXPECT_THAT(*file.ReadFloats(*a), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(file.ReadFloats(*file.FindTensor("ids")).status().reason(), "st_shape");
  EXPECT_EQ(file.FindTensor("b"), nullptr);
}

}  // namespace
}  // namespace tutti::safetensors
