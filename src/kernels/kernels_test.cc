#include "kernels/kernels.h"

#include <gmock/gmock.h>

namespace tutti::kernels {
namespace {

std::vector<Isa> AllIsas() {
  std::vector<Isa> all;
  for (int i = 0; i <= static_cast<int>(Isa::kI8mm); ++i) all.push_back(static_cast<Isa>(i));
  return all;
}

TEST(Isa, NamesAndValuesMapBothWays) {
  for (Isa isa : AllIsas()) EXPECT_EQ(IsaFromName(IsaName(isa)), isa) << static_cast<int>(isa);
  EXPECT_EQ(IsaFromName("AVX2"), std::nullopt);
  EXPECT_EQ(IsaFromName(""), std::nullopt);
}

TEST(Isa, ScalarIsAlwaysThereAndTheListAscends) {
  const std::vector<Isa> isas = DetectIsas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::kScalar);
  for (size_t i = 1; i < isas.size(); ++i) EXPECT_LT(isas[i - 1], isas[i]);
}

TEST(SelectKernels, TakesTheBestUnlessForced) {
  const Result<const KernelTable*> best = SelectKernels();
  ASSERT_TRUE(best.ok());
  EXPECT_EQ((*best)->isa, DetectIsas().back());
  for (Isa isa : DetectIsas()) {
    const Result<const KernelTable*> forced = SelectKernels(std::string(IsaName(isa)));
    ASSERT_TRUE(forced.ok());
    EXPECT_EQ((*forced)->isa, isa);
    EXPECT_EQ((*forced)->gemm.name, IsaName(isa));
    EXPECT_EQ(*forced, &KernelsFor(isa));
  }
}

TEST(SelectKernels, RefusesWhatIsUnknownOrNotHereAndSaysWhatIs) {
  const Status unknown = SelectKernels("sse9").status();
  EXPECT_EQ(unknown.reason(), "invalid_value");
  EXPECT_THAT(unknown.message(), ::testing::AllOf(::testing::HasSubstr("\"sse9\" is unknown"),
                                                  ::testing::HasSubstr("scalar")));
  const std::vector<Isa> here = DetectIsas();
  for (Isa isa : AllIsas()) {
    if (std::find(here.begin(), here.end(), isa) != here.end()) continue;
    const Status absent = SelectKernels(std::string(IsaName(isa))).status();
    EXPECT_EQ(absent.reason(), "invalid_value");
    EXPECT_THAT(absent.message(), ::testing::HasSubstr("not supported by this machine"));
  }
  EXPECT_LT(SelectKernels(std::string(10000, 'x')).status().message().size(), 200u);
}

}  // namespace
}  // namespace tutti::kernels
