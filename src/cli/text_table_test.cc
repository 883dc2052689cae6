#include <gtest/gtest.h>

#include "cli/report.h"

namespace tutti::cli {
namespace {

TEST(TextTableTest, ColumnsAreAsWideAsTheirWidestCellAndNoLineEndsInBlanks) {
  EXPECT_EQ(TextTable({{"NAME", "STATE", "USED"}, {"ci", "active", ""}, {"longer-name", "-", "x"}}),
            "NAME         STATE   USED\n"
            "ci           active\n"
            "longer-name  -       x\n");
  EXPECT_EQ(TextTable({}), "");
}

}  // namespace
}  // namespace tutti::cli
