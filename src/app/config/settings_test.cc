#include "app/config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <sstream>
#include <vector>

#include "app/testing/toml_file.h"
#include "base/ascii.h"
#include "temp_folder.h"
#include "test_paths.h"

namespace tutti::app {
namespace {

using testing::WriteToml;

// A legal value that differs from the default, for any option.
std::string OtherValue(const OptionSpec& option) {
  switch (option.type) {
    case OptionType::kInt:
      return std::to_string(option.min);
    case OptionType::kNumber:
      return option.open ? "0.5" : std::to_string(option.max);
    case OptionType::kSize:
      return "2MiB";
    case OptionType::kChoice: {
      const std::string all = option.choices;
      return all.substr(all.rfind('|') + 1);
    }
    case OptionType::kOrigins:
      return "https://app.example:8443,http://localhost:3000";
    case OptionType::kChoices:
      return option.choices[0] == 'c' ? "chat,responses" : option.choices;
    case OptionType::kHosts:
      return "llm.example,192.0.2.7";
    case OptionType::kWeights:
      return "gold=4,trial=0.5";
    case OptionType::kTemperatures:
      return "1.5,tiny=0.5";
    case OptionType::kAdapters:
      return "sql=sql.gguf,chat/tone=tone:0.5";
    case OptionType::kText:
      return "x";
  }
  return "";
}

TEST(Settings, EveryOptionCanBeSetInAllThreePlacesAndTheLaterOneWins) {
  int checked = 0;
  for (const OptionSpec& option : AllOptions()) {
    const std::string value = OtherValue(option);
    Settings::Inputs inputs;
    inputs.file = WriteToml(std::string(option.key) + " = \"" + value + "\"\n");
    EXPECT_EQ(Settings::Resolve(inputs).value().SourceOf(option.key), Source::kFile) << option.key;
    inputs.environment[EnvironmentNames(option).front()] = value;
    EXPECT_EQ(Settings::Resolve(inputs).value().SourceOf(option.key), Source::kEnvironment)
        << option.key;
    inputs.flags[option.key] = value;
    const Settings settings = Settings::Resolve(inputs).value();
    EXPECT_EQ(settings.SourceOf(option.key), Source::kFlag) << option.key;
    EXPECT_EQ(settings.Text(option.key), value) << option.key;
    ++checked;
  }
  EXPECT_GT(checked, 25);
}

TEST(Settings, DefaultsAreLegalValues) {
  for (const OptionSpec& option : AllOptions()) {
    EXPECT_TRUE(CheckOptionValue(option, option.fallback).ok()) << option.key;
  }
}

// --kv-dtype took fp16 alone, --dtype f16 alone, and quantize what is written in capitals, too.
TEST(Settings, ATypeIsTakenInEverySpellingByEveryOption) {
  for (const char* const half : {"fp16", "f16", "FP16", "F16", "float16"}) {
    Settings::Inputs inputs;
    inputs.flags = {{"kv-dtype", half}, {"dtype", half}};
    const Result<Settings> settings = Settings::Resolve(inputs);
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->Text("kv-dtype"), "fp16") << half;
    EXPECT_EQ(settings->Text("dtype"), "f16") << half;
  }
  Settings::Inputs inputs;
  inputs.environment = {{"TUTTI_KV_DTYPE", "F32"}, {"TUTTI_DTYPE", "BF16"}};
  EXPECT_EQ(Settings::Resolve(inputs)->Text("kv-dtype"), "fp32");
  EXPECT_EQ(Settings::Resolve(inputs)->Text("dtype"), "bf16");
  inputs.environment = {{"TUTTI_KV_DTYPE", "q8_0"}};
  EXPECT_NE(Settings::Resolve(inputs).status().message().find(
                "--kv-dtype must be one of fp16|int8|fp32, not \"q8_0\""),
            std::string::npos);
}

TEST(Settings, TablesAndDocumentedAliasesNameTheSameOption) {
  Settings::Inputs inputs;
  inputs.file = WriteToml(
      "[engine]\nlanes = 3\n[sched]\nitl_target_ms = 20.5\n[prep]\ninflight = 1\nthreads = 3\n"
      "[http]\nallowed_hosts = \"llm.example\"\n[store]\npath = \"/var/lib/tutti\"\n");
  const Settings settings = Settings::Resolve(inputs).value();
  EXPECT_EQ(settings.Int("max-num-seqs"), 3);
  EXPECT_EQ(settings.Number("sched.itl_target_ms"), 20.5);
  EXPECT_EQ(settings.Int("prep"), 1);
  EXPECT_EQ(settings.Int("prep-threads"), 3);
  EXPECT_EQ(settings.Text("allowed-hosts"), "llm.example");
  EXPECT_EQ(settings.Text("store"), "/var/lib/tutti");
}

TEST(Settings, AnUnknownKeyIsRefusedWithTheOneMeant) {
  Settings::Inputs inputs;
  inputs.file = WriteToml("max-num-sequs = 3\n");
  EXPECT_NE(Settings::Resolve(inputs).status().message().find("did you mean max-num-seqs"),
            std::string::npos);
  inputs.file.clear();
  inputs.environment["TUTTI_THREAD"] = "2";
  EXPECT_NE(Settings::Resolve(inputs).status().message().find("TUTTI_THREADS"), std::string::npos);
}

// Regression: a Kubernetes service called "tutti" kept every pod in its namespace from starting.
TEST(Settings, VariablesOfAServiceOfThatNameAreIgnoredAndTold) {
  Settings::Inputs inputs;
  inputs.environment = {
      {"TUTTI_SERVICE_HOST", "10.0.0.7"},         {"TUTTI_SERVICE_PORT", "80"},
      {"TUTTI_SERVICE_PORT_HTTP", "80"},          {"TUTTI_PORT", "tcp://10.0.0.7:80"},
      {"TUTTI_PORT_80_TCP", "tcp://10.0.0.7:80"}, {"TUTTI_PORT_80_TCP_ADDR", "10.0.0.7"},
      {"TUTTI_PORT_80_TCP_PORT", "80"},           {"TUTTI_PORT_80_TCP_PROTO", "tcp"},
      {"TUTTI_PORT_53_UDP", "udp://10.0.0.7:53"}};
  const Result<Settings> settings = Settings::Resolve(inputs);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->ignored().size(), inputs.environment.size());
  EXPECT_EQ(settings->Int("port"), 8080);
  EXPECT_EQ(settings->SourceOf("port"), Source::kDefault);
}

TEST(Settings, WhatOnlyLooksLikeAVariableOfAServiceIsRefused) {
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"TUTTI_PORT", "http://10.0.0.7"},
                                          {"TUTTI_PORTS", "1"},
                                          {"TUTTI_PORT_TCP", "80"},
                                          {"TUTTI_PORT_80", "80"},
                                          {"TUTTI_PORT_80_TCP_X", "80"},
                                          {"TUTTI_SERVICE", "10.0.0.7"}}) {
    Settings::Inputs inputs;
    inputs.environment[name] = value;
    EXPECT_FALSE(Settings::Resolve(inputs).ok()) << name;
  }
  Settings::Inputs inputs;
  inputs.environment["TUTTI_PORT"] = "9000";
  EXPECT_EQ(Settings::Resolve(inputs).value().Int("port"), 9000);
  EXPECT_TRUE(Settings::Resolve(inputs).value().ignored().empty());
}

// The common prefix once made any short name look near: TUTTI_URL, "did you mean TUTTI_ISA?".
TEST(Settings, TheCommonPrefixOfVariablesMakesNoNameNear) {
  Settings::Inputs inputs;
  inputs.environment["TUTTI_URL"] = "x";
  EXPECT_EQ(Settings::Resolve(inputs).status().message(), "environment: unknown key TUTTI_URL");
}

TEST(Settings, AListInAFileIsTakenWhereTheValueIsOne) {
  const auto resolve = [](const std::string& text) {
    Settings::Inputs inputs;
    inputs.file = WriteToml(text);
    return Settings::Resolve(inputs);
  };
  EXPECT_EQ(resolve("allowed-hosts = [\"a.example\", \"b\"]\n").value().Text("allowed-hosts"),
            "a.example,b");
  EXPECT_EQ(resolve("[http]\nallowed_hosts = []\n").value().Text("allowed-hosts"), "");
  EXPECT_EQ(resolve("cors-origin = [\"https://a.example\", \"http://b.example:3000\"]\n")
                .value()
                .Text("cors-origin"),
            "https://a.example,http://b.example:3000");
  for (const char* bad :
       {"allowed-hosts = [1]\n", "allowed-hosts = [\"a,b\"]\n", "allowed-hosts = [[\"a\"]]\n",
        "allowed-hosts = [\"a b\"]\n", "host = [\"127.0.0.1\"]\n", "lanes = [1, 2]\n"})
    EXPECT_EQ(resolve(bad).status().reason(), "invalid_value") << bad;
  EXPECT_EQ(resolve("lannes = [1]\n").status().reason(), "unknown_parameter");
}

TEST(Settings, AMissingFileIsCalledMissing) {
  Settings::Inputs inputs;
  inputs.file = ::testing::TempDir() + "nope.toml";
  EXPECT_NE(Settings::Resolve(inputs).status().message().find("no such file"), std::string::npos);
}

TEST(Settings, SizesHaveUnitsThatAllReadAlike) {
  EXPECT_EQ(ParseSize("2Gi").value(), int64_t{2} << 30);
  EXPECT_EQ(ParseSize("2gib").value(), int64_t{2} << 30);
  EXPECT_EQ(ParseSize("2GB").value(), 2000000000);
  for (const char* bare : {"1G", "1m", "1K", "1T"}) {
    const Result<int64_t> size = ParseSize(bare);
    ASSERT_FALSE(size.ok()) << bare;
    EXPECT_NE(size.status().message().find("GiB are powers of 1024"), std::string::npos) << bare;
  }
}

TEST(Settings, OnlyANearNameIsSuggested) {
  const std::vector<std::string> known = {"--prep", "--port", "--host", "--max-tokens"};
  EXPECT_EQ(Suggestion("--prot", known), "--port");  // swapped: one slip
  EXPECT_EQ(Suggestion("--max-tokns", known), "--max-tokens");
  EXPECT_EQ(Suggestion("--lanes", known), "");
  EXPECT_EQ(Suggestion("-z", known), "");
  EXPECT_EQ(Suggestion("", known), "");
  EXPECT_EQ(Suggestion(std::string(100000, 'p'), known), "");
}

TEST(Settings, BadValuesAreRefusedWithTheRange) {
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"lanes", "0"},
                                          {"lanes", "eight"},
                                          {"kv-cache-bytes", "1 parsec"},
                                          {"strategy", "fast"},
                                          {"port", "65536"},
                                          {"sched.itl_target_ms", "nan"},
                                          {"kv-cache-bytes", "99999999999999999999GiB"}}) {
    Settings::Inputs inputs;
    inputs.flags[key] = value;
    const Status status = Settings::Resolve(inputs).status();
    EXPECT_EQ(status.reason(), "invalid_value") << key << "=" << value;
  }
}

TEST(Settings, ThePartOfADeviceIsBetweenNoneAndAll) {
  const auto resolve = [](const char* value) {
    Settings::Inputs inputs;
    inputs.flags["encode.share"] = value;
    return Settings::Resolve(inputs).status();
  };
  for (const char* const part : {"0.001", "0.5", "0.999"})
    EXPECT_TRUE(resolve(part).ok()) << resolve(part);
  for (const char* const none : {"0", "1", "-0.1", "1.5", "nan"})
    EXPECT_EQ(resolve(none).reason(), "invalid_value") << none;
  EXPECT_EQ(resolve("1").message(),
            "command line: --encode-share must be above 0 and below 1, not \"1\"");
}

TEST(Settings, ARefusalSpeaksOfWhatTheUserWrote) {
  const auto message = [](const char* key, const char* value) {
    Settings::Inputs inputs;
    inputs.flags[key] = value;
    inputs.flags_name = "option";
    return Settings::Resolve(inputs).status().message();
  };
  EXPECT_EQ(message("kv-cache-bytes", "1MB"),
            "option: --kv-cache-bytes must be between 1 MiB and 16 TiB, not \"1MB\"");
  EXPECT_EQ(message("lanes", "18446744073709551617"),
            "option: --max-num-seqs must be between 1 and 1024, not \"18446744073709551617\"");
  EXPECT_EQ(message("drain_s", "1e999"),
            "option: --drain-s must be between 0 and 3600, not \"1e999\"");
  EXPECT_EQ(message("drain_s", "inf"), "option: --drain-s must be between 0 and 3600, not \"inf\"");
  for (const char* bad : {"app.example", "https://", "https://app.example/", "://app.example"}) {
    EXPECT_NE(message("cors-origin", bad).find("such as https://app.example"), std::string::npos)
        << bad;
  }
  for (const char* good :
       {"*", "https://app.example", "https://app.example, http://localhost:3000"})
    EXPECT_EQ(message("cors-origin", good), "") << good;
  EXPECT_EQ(message("cors-origin", "https://app.example,app.example"),
            "option: --cors-origin needs origins such as https://app.example, or *, not "
            "\"app.example\"");
  for (const char* bad : {"completions", "/v1/chat/completions", "chat,completions"}) {
    EXPECT_NE(message("cache.semantic.routes", bad).find("takes chat|responses"), std::string::npos)
        << bad;
  }
}

// Regression: the weight was checked at start only, so --print-config printed settings that did not
// run.
TEST(Settings, AWeightThatIsNoneIsRefusedWhereverItStands) {
  for (const char* const bad : {"gold=-1", "gold=0", "gold", "gold=1,gold=2"}) {
    Settings::Inputs inputs;
    inputs.flags["limits.weights"] = bad;
    const Status status = Settings::Resolve(inputs).status();
    EXPECT_EQ(status.reason(), "invalid_value") << bad;
    EXPECT_EQ(status.param(), "limits.weights") << bad;
  }
  Settings::Inputs inputs;
  inputs.file = WriteToml("lanes = 3\n[limits]\nweights = \"gold=4,trial=-0.5\"\n");
  EXPECT_EQ(Settings::Resolve(inputs).status().message(),
            inputs.file +
                ":3: --limits-weights: a weight is written TENANT=NUMBER, from 0.01 to "
                "100, not \"trial=-0.5\"");
}

// The one that came later in the alphabet held, without a word.
TEST(Settings, OneSettingUnderTwoNamesIsRefusedWithBothLines) {
  const auto refused = [](const std::string& text) {
    Settings::Inputs inputs;
    inputs.file = WriteToml(text);
    const Status status = Settings::Resolve(inputs).status();
    EXPECT_EQ(status.reason(), "invalid_value") << text;
    EXPECT_TRUE(status.message().starts_with(inputs.file)) << status.message();
    return status.message().substr(std::min(inputs.file.size(), status.message().size()));
  };
  EXPECT_EQ(refused("lanes = 3\n[engine]\nlanes = 4\n"),
            ":3: engine.lanes and lanes (line 1) are one setting; leave one of them out");
  EXPECT_EQ(refused("allowed-hosts = \"a\"\n[http]\nallowed_hosts = [\"a\"]\n"),
            ":3: http.allowed_hosts and allowed-hosts (line 1) are one setting; leave one of them "
            "out");
  EXPECT_EQ(refused("sched-itl_target-ms = 20\n\n[sched]\nitl_target_ms = 20\n"),
            ":4: sched.itl_target_ms and sched-itl_target-ms (line 1) are one setting; leave one "
            "of them out");
  EXPECT_EQ(refused("\"sched.itl_target_ms\" = 20\n[sched]\nitl_target_ms = 30\n"),
            ":3: sched.itl_target_ms is set in line 1 already; leave one of them out");
  EXPECT_NE(refused("\"mqtt.project\" = [{name = \"a\"}]\n[[mqtt.project]]\nname = \"b\"\n")
                .find("written as [[mqtt.project]] alone"),
            std::string::npos);
}

TEST(Settings, HostNamesAreAListWithoutPortsOrWildcards) {
  const auto refused = [](const char* value) {
    Settings::Inputs inputs;
    inputs.flags["allowed-hosts"] = value;
    return !Settings::Resolve(inputs).ok();
  };
  for (const char* bad : {"llm.example:8080", "*", "*.example", "http://llm.example", "a,,b", "a b",
                          ",", "a/b", "[::1]", "\xc3\xa9.example"})
    EXPECT_TRUE(refused(bad)) << bad;
  for (const char* good : {"", "llm.example", "LLM.example, 10.0.0.1,my_host-2"})
    EXPECT_FALSE(refused(good)) << good;
  EXPECT_EQ(SplitList("LLM.example, 10.0.0.1"),
            (std::vector<std::string>{"llm.example", "10.0.0.1"}));
  EXPECT_TRUE(SplitList("").empty());
}

TEST(Settings, WhatIsUnsetIsNoneOrAutomatic) {
  const std::string shown = Settings::Resolve({}).value().Print(/*with_server_options=*/true);
  EXPECT_TRUE(shown.find("\n# tls-cert               = (none) ") != std::string::npos) << shown;
  EXPECT_TRUE(shown.find("# threads                = (automatic) ") != std::string::npos) << shown;
}

std::string WithoutSources(const std::string& printed) {
  std::istringstream lines(printed);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += line.substr(0, line.rfind('#')) + "\n";
  return out;
}

TEST(Settings, WhatIsPrintedCanBeLoadedAgain) {
  std::vector<Settings::Inputs> cases(1);  // the defaults; every option once with another value
  for (const OptionSpec& option : AllOptions())
    cases.emplace_back().flags[option.key] = OtherValue(option);
  cases.emplace_back().flags = {{"drain_s", "1e3"},
                                {"sched.itl_target_ms", "20.50"},
                                {"sched.static_wait_ms", "0.1"},
                                {"max-num-seqs", "007"},
                                {"kv-cache-bytes", "1073741824"},
                                {"tls-cert", "a \"quoted\" \\ path # \x7f grüße.pem"}};
  for (const Settings::Inputs& inputs : cases) {
    const std::string printed = Settings::Resolve(inputs).value().Print(true);
    Settings::Inputs loaded;
    loaded.file = WriteToml(printed);
    const Result<Settings> again = Settings::Resolve(loaded);
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << printed;
    EXPECT_EQ(WithoutSources(again->Print(true)), WithoutSources(printed));
    for (const auto& [key, text] : inputs.flags) {
      EXPECT_EQ(again->Text(key), text);
      EXPECT_EQ(again->SourceOf(key), text.empty() ? Source::kDefault : Source::kFile) << key;
    }
  }
}

// --- docs/configuration.md, whose table of keys is this ---

std::string Code(std::string_view text) { return "`" + std::string(text) + "`"; }

std::string Size(int64_t bytes) {
  return bytes < int64_t{1} << 40 ? std::to_string(bytes >> 20) + " MiB"
                                  : std::to_string(bytes >> 40) + " TiB";
}

std::string Range(const OptionSpec& option) {
  switch (option.type) {
    case OptionType::kInt:
    case OptionType::kNumber:
      if (option.min == option.max) return std::to_string(option.min);
      if (option.open)
        return "above " + std::to_string(option.min) + ", below " + std::to_string(option.max);
      return std::to_string(option.min) + " to " + std::to_string(option.max);
    case OptionType::kSize:
      return Size(option.min) + " to " + Size(option.max);
    case OptionType::kChoice: {
      std::istringstream choices(option.choices);
      std::string out;
      for (std::string choice; std::getline(choices, choice, '|');)
        out += (out.empty() ? "" : ", ") + Code(choice);
      return out;
    }
    case OptionType::kOrigins:
      return "origins, or `*`, separated by commas";
    case OptionType::kChoices: {
      std::istringstream choices(option.choices);
      std::string out;
      for (std::string choice; std::getline(choices, choice, '|');) out += Code(choice) + ", ";
      return out + "separated by commas";
    }
    case OptionType::kHosts:
      return "names, separated by commas";
    case OptionType::kWeights:
      return "`TENANT=NUMBER`, 0.01 to 100, separated by commas";
    case OptionType::kTemperatures:
      return "NUMBER or `NAME=NUMBER`, 0.01 to 100, separated by commas";
    case OptionType::kAdapters:
      return "`[BASE/]NAME=PATH[:SCALE]`, separated by commas";
    case OptionType::kText:
      return "text";
  }
  return "";
}

std::string Codes(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + Code(name);
  return out;
}

std::string Row(const OptionSpec& option) {
  std::vector<std::string> keys = {option.key};
  for (const char* const names : {option.alias, option.other_names}) {
    for (const std::string_view name : SplitAt(names, '|')) keys.emplace_back(name);
  }
  return "| " + Codes(FlagNames(option)) + " | " + Codes(keys) + " | " +
         Codes(EnvironmentNames(option)) + " | " +
         (*option.fallback == '\0' ? "" : Code(option.fallback) + " ") + "| " + Range(option) +
         " | " + option.help + " |";
}

// The names that options had before they were called as in other servers.
TEST(Settings, OldNamesOfOptionsWork) {
  const auto flag = [](const std::string& key, const std::string& value) {
    Settings::Inputs inputs;
    inputs.flags[key] = value;
    return Settings::Resolve(inputs).value();
  };
  const auto file = [](const std::string& text) {
    Settings::Inputs inputs;
    inputs.file = WriteToml(text);
    return Settings::Resolve(inputs).value();
  };
  EXPECT_EQ(flag("lanes", "5").Int("max-num-seqs"), 5);
  EXPECT_EQ(flag("parallel", "6").Int("max-num-seqs"), 6);
  EXPECT_EQ(flag("role", "front").Text("role"), "frontend");
  EXPECT_EQ(file("[engine]\nlanes = 9\n").Int("max-num-seqs"), 9);
  EXPECT_EQ(file("max_num_seqs = 4\n").Int("max-num-seqs"), 4);
  Settings::Inputs inputs;
  inputs.environment["TUTTI_LANES"] = "7";
  EXPECT_EQ(Settings::Resolve(inputs).value().Int("max-num-seqs"), 7);
  inputs.environment["TUTTI_MAX_NUM_SEQS"] = "8";
  EXPECT_EQ(Settings::Resolve(inputs).status().message(),
            "TUTTI_LANES and TUTTI_MAX_NUM_SEQS are one setting; leave one of them out");
}

TEST(Settings, ThePageOfConfigurationHasEveryKeyAndNoOther) {
  std::ifstream page(support::SourcePath("docs/configuration.md"));
  ASSERT_TRUE(page.good());
  std::set<std::string> written, meant;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `--") && line.find("`TUTTI_") != std::string::npos)
      written.insert(line);
  }
  for (const OptionSpec& option : AllOptions()) meant.insert(Row(option));
  for (const std::string& row : meant) EXPECT_TRUE(written.contains(row)) << "not there:\n" << row;
  for (const std::string& row : written) EXPECT_TRUE(meant.contains(row)) << "of no key:\n" << row;
}

TEST(Settings, AnEmptyVariableIsNone) {
  ASSERT_EQ(setenv("TUTTI_LANES", "", 1), 0);
  ASSERT_EQ(setenv("TUTTI_PORT", "9000", 1), 0);
  const std::map<std::string, std::string> found = TuttiEnvironment();
  unsetenv("TUTTI_LANES");
  unsetenv("TUTTI_PORT");
  EXPECT_FALSE(found.contains("TUTTI_LANES"));
  EXPECT_EQ(found.at("TUTTI_PORT"), "9000");
}

TEST(Settings, ABrokenFileNamesItsLine) {
  Settings::Inputs inputs;
  inputs.file = WriteToml("lanes = 3\nport = = 2\n");
  EXPECT_NE(Settings::Resolve(inputs).status().message().find(":2:"), std::string::npos);
  inputs.file = "/nonexistent.toml";
  EXPECT_FALSE(Settings::Resolve(inputs).ok());
}

// Regression: a folder counted as an empty file, a device was read forever, and such a table
// exhausted the stack of the library's parser.
TEST(Settings, ATablesNameOfFiftyThousandPartsIsRefused) {
  std::string header = "[a";
  for (int i = 0; i < 50'000; ++i) header += ".a";
  Settings::Inputs inputs;
  inputs.file = WriteToml(header + "]\n");
  const auto refused = Settings::Resolve(inputs);
  EXPECT_EQ(refused.status().reason(), "invalid_value");
  EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("nested too deeply"));
}

TEST(Settings, WhatIsNoRegularFileIsRefused) {
  for (const char* path : {"/", "/dev/zero", "/dev/null"}) {
    Settings::Inputs inputs;
    inputs.file = path;
    const auto refused = Settings::Resolve(std::move(inputs));
    ASSERT_FALSE(refused.ok()) << path;
    EXPECT_NE(refused.status().message().find("regular file"), std::string::npos);
  }
}

TEST(Settings, SizesKnowBinaryAndDecimalUnits) {
  EXPECT_EQ(ParseSize("1GiB").value(), 1 << 30);
  EXPECT_EQ(ParseSize("5mb").value(), 5000000);
  EXPECT_EQ(ParseSize("77").value(), 77);
  EXPECT_FALSE(ParseSize("-1").ok());
  EXPECT_FALSE(ParseSize("").ok());
}

}  // namespace
}  // namespace tutti::app
