#include "cli/command_line.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "app/options.h"
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

// Every "command --option" that is no key of the configuration. Benches have help pages of their
// own.
std::set<std::string> DeclaredOptions() {
  CLI::App parser;
  const auto commands = DeclareCommands(parser);
  std::set<std::string> keys, out;
  for (const app::OptionSpec& option : app::AllOptions()) keys.insert(app::FlagName(option));
  for (const CLI::App* command : parser.get_subcommands({})) {
    if (command->get_name() == "bench") continue;
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        const std::string flag = "--" + name;
        // `chat` has a key of the server as an option of its own.
        const bool key =
            keys.contains(flag) && !(command->get_name() == "chat" && name == "api-key-file");
        if (name != "help" && !key) out.insert(command->get_name() + " " + flag);
      }
    }
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

TEST(CommandLine, EveryCommandShowsExamplesOrNeedsNone) {
  CLI::App parser("", "tutti");
  const auto commands = DeclareCommands(parser);
  for (const CLI::App* command : parser.get_subcommands({})) {
    if (command->get_name() == "version" || command->get_name() == "doctor") continue;
    EXPECT_NE(HelpOf(*command).find("Example"), std::string::npos) << command->get_name();
  }
}

}  // namespace
}  // namespace tutti::cli
