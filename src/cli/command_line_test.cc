#include "cli/command_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "app/config/options.h"
#include "test_paths.h"

namespace tutti::cli {
namespace {

// The first words of the cell's `...`.
std::set<std::string> Codes(const std::string& cell) {
  std::set<std::string> out;
  std::istringstream parts(cell);
  std::string part;
  for (bool code = false; std::getline(parts, part, '`'); code = !code) {
    if (code) out.insert(part.substr(0, part.find(' ')));
  }
  return out;
}

// Adds the options of `command` and of its subcommands under one name.
void AddOptionsOf(const CLI::App& command, const std::string& name, std::set<std::string>* out) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& each : option->get_lnames()) {
      const std::string flag = "--" + each;
      // These commands have keys of the server as options of their own.
      const bool own = (name == "chat" && (each == "api-key-file" || each == "store")) ||
                       ((name == "keys" || name == "users") && each == "models");
      const bool key = app::FindOption(each) != nullptr && !own;
      if (each != "help" && each != "help-all" && !key) out->insert(name + " " + flag);
    }
  }
  for (const CLI::App* part : command.get_subcommands({})) AddOptionsOf(*part, name, out);
}

// Every "command --option" that is no key of the configuration. Benches have help pages of their
// own.
std::set<std::string> DeclaredOptions() {
  CLI::App parser;
  const auto commands = DeclareCommands(parser);
  std::set<std::string> out;
  for (const CLI::App* command : parser.get_subcommands({})) {
    if (command->get_name() != "bench") AddOptionsOf(*command, command->get_name(), &out);
  }
  return out;
}

TEST(CommandLine, ThePageOfConfigurationHasEveryOptionOfACommandAndNoOther) {
  std::ifstream page(support::SourcePath("docs/configuration.md"));
  ASSERT_TRUE(page.good());
  std::set<std::string> written;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## Options of single commands";
    if (!inside || !line.starts_with("| `")) continue;
    std::istringstream cells(line.substr(1));
    std::string commands, options;
    std::getline(cells, commands, '|');
    std::getline(cells, options, '|');
    for (const std::string& command : Codes(commands)) {
      for (const std::string& option : Codes(options)) {
        if (option.starts_with("--")) written.insert(command + " " + option);
      }
    }
  }
  EXPECT_EQ(written, DeclaredOptions());
}

TEST(CommandLine, HelpShowsCommonOptionsAndTopicsAll) {
  CLI::App parser("", "tutti");
  const auto commands = DeclareCommands(parser);
  CLI::App* const serve = parser.get_subcommand("serve");
  const auto count = [](const std::string& text) {
    int lines = 0;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines += line.starts_with("  --") ? 1 : 0;
    return lines;
  };
  const std::string brief = HelpOf(*serve);
  EXPECT_EQ(count(brief), 29 + 3) << "--config, --print-config and --help-all: " << brief;
  EXPECT_EQ(brief.find("--sched-itl-target-ms"), std::string::npos);
  EXPECT_THROW(parser.parse("serve --help-all", /*program_name_included=*/false), CLI::Success);
  const std::string all = HelpOf(*serve);
  int offered = 0, explained = 0;
  for (const app::OptionSpec& option : app::AllOptions()) {
    if (option.type == app::OptionType::kInt && option.min == option.max) continue;
    ++offered;
    const std::string flag = app::FlagName(option);
    const char* const next = std::strlen(option.other_names) == 0 ? " " : ",";
    EXPECT_NE(all.find(flag + next), std::string::npos) << option.key;
  }
  EXPECT_EQ(count(all), offered + 3);
  for (const OptionTopic& topic : OptionTopics()) {
    const auto subcommands = parser.get_subcommands({});
    EXPECT_TRUE(
        std::none_of(subcommands.begin(), subcommands.end(),
                     [&](const CLI::App* command) { return command->get_name() == topic.name; }))
        << topic.name << " is a command";
    CLI::App page;
    SettingsOptions options;
    options.AddTopic(page, topic);
    explained += count(page.help());
  }
  EXPECT_EQ(explained, offered);
}

TEST(CommandLine, EveryCommandShowsExamplesOrNeedsNone) {
  CLI::App parser("", "tutti");
  const auto commands = DeclareCommands(parser);
  for (const CLI::App* command : parser.get_subcommands({})) {
    if (command->get_name() == "version" || command->get_name() == "doctor") continue;
    EXPECT_NE(HelpOf(*command).find("Example"), std::string::npos) << command->get_name();
    for (const CLI::App* part : command->get_subcommands({}))
      EXPECT_EQ(HelpOf(*part).find("Excludes"), std::string::npos) << part->get_name();
  }
}

// Exit status and standard error of a command line.
std::pair<int, std::string> Complaint(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tutti");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::testing::internal::CaptureStderr();
  const int status = Main(static_cast<int>(arguments.size()), argv.data());
  return {status, ::testing::internal::GetCapturedStderr()};
}

// Regression: these options were accepted without effect, because the server has its own model
// options.
TEST(CommandLine, ABenchOfAServerRefusesOptionsOfAModelInHereByName) {
  for (const char* const kind : {"encode", "grpc", "knee"}) {
    for (const char* const option : {"--dtype", "--threads", "--encode-batch-items"}) {
      const auto [status, said] =
          Complaint({"bench", kind, "--url", "http://127.0.0.1:1", option, "1"});
      EXPECT_EQ(status, 2) << kind << option;
      EXPECT_NE(said.find(option), std::string::npos) << said;
      EXPECT_NE(said.find("--url"), std::string::npos) << said;
    }
  }
  EXPECT_EQ(Complaint({"bench", "grpc", "--seconds", "1", "--requests", "5"}).first, 2);
}

TEST(CommandLine, ListsAreTakenWithCommasOrOptionByOption) {
  const auto settings = [](std::vector<std::string> arguments) {
    CLI::App parser("", "tutti");
    SettingsOptions options;
    options.AddOnly(parser, {"cors-origin", "allowed-hosts"});
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the end
    parser.parse(arguments);
    return options.Resolve();
  };
  const std::string both = "https://a.example,http://b.example:3000";
  EXPECT_EQ(settings({"--cors-origin", both})->Text("cors-origin"), both);
  EXPECT_EQ(settings({"--cors-origin", "https://a.example", "--cors-origin=http://b.example:3000"})
                ->Text("cors-origin"),
            both);
  EXPECT_EQ(settings({"--allowed-hosts", "a,,b"}).status().reason(), "invalid_value")
      << "an empty name is none";
}

TEST(CommandLine, NamesOfOtherProgramsAreAnsweredWithOurs) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"run", "m.gguf", "-p", "x", "--temp", "1"}, "--temp: here it is --temperature"},
      {{"run", "m.gguf", "-p", "x", "--n-predict", "5"}, "--n-predict: here it is --max-tokens"},
      {{"run", "-m", "m.gguf", "-p", "x"}, "-m: the model stands without an option"},
      {{"serve", "--model=m.gguf"}, "--model: the model stands without an option"},
      {{"serve", "--ctx-size", "512"}, "--ctx-size: here it is --context"},
      {{"serve", "--cache-type-k", "q8_0"}, "--cache-type-k: here it is --kv-dtype"},
      {{"serve", "-ngl", "99"}, "-ngl: all layers are computed on the processor"},
      {{"serve", "--hf-repo", "a/b"}, "--hf-repo: give ORG/NAME:QUANT as MODEL"},
      {{"serve", "--alias=x"}, "--alias: NAME=MODEL gives a model the name"},
      {{"run", "m.gguf", "-md", "d.gguf"}, "-md: here it is --draft"},
      {{"serve", "--api-key", "k"}, "--api-key-file FILE, or TUTTI_API_KEY"},
      {{"list"}, "no command \"list\": here it is models"},
      {{"models", "remove"}, "not expected: remove"},
      {{"srve"}, "did you mean serve?"},
      {{"keys", "del"}, "no command \"del\"; there are create, list, update, rotate, revoke"},
      {{"bench", "nope"}, "no command \"nope\"; there are engine, strategies, "},
      {{"bench", "engin"}, "did you mean engine?"},
  };
  for (const auto& [arguments, words] : cases) {
    const auto [status, text] = Complaint(arguments);
    EXPECT_EQ(status, kExitUsage) << words;
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
}

// Regression: `tutti embed "$MODEL" text` with an unset variable loaded the default model.
TEST(CommandLine, AnEmptyNameOfAModelIsRefusedByEveryCommand) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"embed", "", "text"},
                                             {"run", "", "-p", "x"},
                                             {"chat", ""},
                                             {"chat", "", "--url", "http://127.0.0.1:1"},
                                             {"tokenize", "", "text"},
                                             {"inspect", ""},
                                             {"serve", "small.gguf", ""},
                                             {"bench", "engine", ""},
                                             {"bench", "encode", ""}}) {
    const auto [status, text] = Complaint(arguments);
    EXPECT_EQ(status, kExitConfig) << arguments[0];
    EXPECT_NE(text.find("the model's name is empty: name a .gguf file"), std::string::npos)
        << arguments[0] << ": " << text;
  }
  for (const char* const none : {"chat=", "chat=:f32", ":f32"}) {
    const auto [status, text] = Complaint({"serve", none});
    EXPECT_EQ(status, kExitConfig) << none;
    EXPECT_NE(text.find("the model's name is empty"), std::string::npos) << text;
  }
}

TEST(CommandLine, WhatWasNotExpectedIsShownInItsOrder) {
  const auto [status, text] = Complaint({"run", "m.gguf", "-p", "x", "--max-token", "5"});
  EXPECT_EQ(status, kExitUsage);
  EXPECT_NE(text.find("not expected: --max-token 5"), std::string::npos) << text;
  EXPECT_NE(text.find("did you mean --max-tokens?"), std::string::npos) << text;
}

TEST(CommandLine, OptionsBeforeTheCommandAreSentBehindIt) {
  const auto [status, text] = Complaint({"--max-num-seqs", "3", "serve"});
  EXPECT_EQ(status, kExitUsage);
  EXPECT_NE(text.find("put options after it, tutti serve --max-num-seqs 3"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace tutti::cli
