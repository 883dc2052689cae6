#include "cli/number_option.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "cli/command_line.h"
#include "temp_folder.h"

namespace tutti::cli {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

int RunTutti(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tutti");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return Main(static_cast<int>(arguments.size()), argv.data());
}

TEST(NumberOption, TheWholeRangeAndNothingBesideItIsTaken) {
  for (const char* good : {"-9223372036854775808", "9223372036854775807", "0", "-7"}) {
    EXPECT_EQ(NumberFault<int64_t>(good, kLeast, kMost), "") << good;
    EXPECT_EQ(std::to_string(ToNumber<int64_t>(good)), good);
  }
  for (const char* bad : {"-9223372036854775809", "9223372036854775808", "1e3", "0x10", "", " 1",
                          "1 ", "+1", "seven", "1.0", "99999999999999999999999999"}) {
    EXPECT_NE(NumberFault<int64_t>(bad, kLeast, kMost), "") << bad;
  }
  EXPECT_EQ(NumberFault<int>("1025", 1, 1024), "needs a whole number from 1 to 1024, not \"1025\"");
  EXPECT_EQ(ToNumber<int>("010"), 10);  // once read as octal
  EXPECT_NE(NumberFault<uint64_t>("-1", 0, std::numeric_limits<uint64_t>::max()), "");
}

TEST(NumberOption, FractionsAreFiniteAndWithinTheirRange) {
  for (const char* good : {"0", "2", "0.7", "1e-3", ".5"})
    EXPECT_EQ(NumberFault(good, 0.0, 2.0), "") << good;
  for (const char* bad : {"nan", "inf", "-0.1", "2.0001", "1e999", "0,7", ""})
    EXPECT_NE(NumberFault(bad, 0.0, 2.0), "") << bad;
}

// A seed beyond 64 bits was once taken as the largest there is.
TEST(NumberOption, NoCommandTakesTheNearestNumberThatFits) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"run", "none.gguf", "-p", "x", "--seed", "9223372036854775808"},
           {"run", "none.gguf", "-p", "x", "--seed", "-99999999999999999999"},
           {"run", "none.gguf", "-p", "x", "-n", "99999999999"},
           {"run", "none.gguf", "-p", "x", "-n", "0"},
           {"run", "none.gguf", "-p", "x", "--top-k", "4294967297"},
           {"run", "none.gguf", "-p", "x", "--temperature", "1e999"},
           {"run", "none.gguf", "-p", "x", "--top-p", "nan"},
           {"run", "none.gguf", "-p", "x", "--max-num-seqs", "99999999999999999999"},
           {"chat", "none.gguf", "--temperature", "2.5"},
           {"serve", "none.gguf", "--port", "65536"},
           {"serve", "none.gguf", "--kv-cache-bytes", "99999999999GiB"},
           {"serve", "none.gguf", "--drain-s", "1e999"},
           {"bench", "engine", "none.gguf", "--prompt", "99999999999999999999"},
           {"bench", "engine", "none.gguf", "--batch", "1,99999999999999999999"},
           {"bench", "engine", "none.gguf", "--seed", "18446744073709551616"},
           {"bench", "engine", "none.gguf", "--threads", "99999999999999999999"},
           {"bench", "strategies", "--rounds", "x"},
           {"bench", "concurrency", "--concurrency", "0"},
           {"bench", "serve", "--url", "http://127.0.0.1:99999999"},
           {"bench", "serve", "--url", "http://127.0.0.1:9", "--rate", "nan"},
           {"bench", "serve", "--url", "http://127.0.0.1:9", "--target-ttft-ms", "-1"},
           {"bench", "kernels", "--threads", "1025"},
       }) {
    std::string line;
    for (const std::string& argument : arguments) line += " " + argument;
    EXPECT_EQ(RunTutti(arguments), kExitConfig) << line;
  }
}

TEST(NumberOption, AFileOrVariableWithANumberBeyondItsRangeIsRefused) {
  ::setenv("TUTTI_LANES", "18446744073709551617", 1);  // 1, were it cut to 64 bits
  EXPECT_EQ(RunTutti({"run", "none.gguf", "-p", "x"}), kExitConfig);
  ::unsetenv("TUTTI_LANES");
  const support::TempFolder folder;
  const std::string path = folder.File("number_option_test.toml");
  for (const char* text : {"lanes = 18446744073709551617", "lanes = 1e30", "drain_s = inf",
                           "kv-cache-bytes = 1e19", "port = -1"}) {
    std::ofstream(path) << text << "\n";
    EXPECT_EQ(RunTutti({"run", "none.gguf", "-p", "x", "--config", path}), kExitConfig) << text;
  }
}

TEST(NumberOption, WrongUseIsNotABadValue) {
  EXPECT_EQ(RunTutti({"run", "none.gguf", "-p", "x", "--sed", "1"}), kExitUsage);
  EXPECT_EQ(RunTutti({"run", "none.gguf", "-p", "x", "--seed"}), kExitUsage);
  EXPECT_EQ(RunTutti({"run"}), kExitUsage);
}

}  // namespace
}  // namespace tutti::cli
