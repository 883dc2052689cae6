#include "app/loading/pulled_names.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "temp_folder.h"

namespace tutti::app {
namespace {

TEST(PulledNames, AreReadAsTheyWereWritten) {
  const support::TempFolder folder;
  const std::string path = folder.File("models.json");
  EXPECT_EQ(ReadPulledNames(path).value(), PulledNames()) << "no file yet";
  const PulledNames names{.pulled = {{"org/m:Q4_0", "0123"}, {"known \"x\"", ""}},
                          .copies = {{"mine", "org/m:Q4_0"}}};
  ASSERT_TRUE(WritePulledNames(path, names).ok());
  EXPECT_EQ(ReadPulledNames(path).value(), names);
  ASSERT_TRUE(WritePulledNames(path, {}).ok());
  EXPECT_EQ(ReadPulledNames(path).value(), PulledNames());
  EXPECT_EQ(WritePulledNames(folder.File("none/models.json"), names).reason(), "io_error");
}

TEST(PulledNames, RefusesOtherContents) {
  const support::TempFolder folder;
  const std::string path = folder.File("models.json");
  for (const char* const text :
       {"", "{", "[]", R"({"version":2,"pulled":[],"copies":[]})", R"({"version":1,"pulled":[]})",
        R"({"version":1,"pulled":{},"copies":[]})",
        R"({"version":1,"pulled":["x"],"copies":[]})"}) {
    std::ofstream(path) << text;
    EXPECT_EQ(ReadPulledNames(path).status().reason(), "invalid_value") << text;
  }
}

}  // namespace
}  // namespace tutti::app
