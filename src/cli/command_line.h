// The commands of `tutti` and what they share: options from the table of options, --config,
// --print-config, --help.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/settings.h"
#include "cli/option_topics.h"

namespace tutti::cli {

// The table of options on a command. AddTo() adds the groups up to `last`: options of the model, of
// a serving process, of the servers. `--help` shows the common ones, `--help-all` all.
class SettingsOptions {
 public:
  void AddTo(CLI::App& command, app::OptionGroup last);
  // Adds the options of one topic: for a page that explains them.
  void AddTopic(CLI::App& page, const OptionTopic& topic);
  // Adds --config and the options `keys`: for commands that run no model.
  void AddOnly(CLI::App& command, std::initializer_list<std::string_view> keys);

  // Merges flags, environment and file; call it after parsing. Bad values are configuration errors
  // (exit 78). `usual`: defaults of this command that override those of the table, as flags.
  Result<app::Settings> Resolve(const std::map<std::string, std::string>& usual = {}) const;
  // Rejects these options unless `other` is given.
  void NeedBeside(CLI::Option& other);
  // Rejects these options if `other` is given.
  void ExcludeBeside(CLI::Option& other);
  // Keys and values of the options on the command line, including --config.
  std::vector<std::pair<std::string, std::string>> Typed() const;
  bool print_config() const { return print_config_; }

 private:
  void AddConfig(CLI::App& command);
  void AddOption(CLI::App& command, const app::OptionSpec& option, const std::string& group);
  std::string ValueOf(const std::string& key) const;  // as typed; a list is joined with commas

  std::map<std::string, std::string> values_;  // by option key; CLI11 writes here
  std::map<std::string, CLI::Option*> options_;
  CLI::Option *config_option_ = nullptr, *print_option_ = nullptr;
  std::string config_file_;
  bool print_config_ = false;
};

// Validates a MODEL argument: an empty one is a mistake (an unset variable), unlike an absent one,
// which means the default.
CLI::Validator ModelName();

// One command. Declare() adds it to the parser; Run() is called if it was chosen, and returns the
// exit status.
class Command {
 public:
  virtual ~Command() = default;
  virtual void Declare(CLI::App& parent) = 0;
  virtual int Run() = 0;
  bool chosen() const { return app_ != nullptr && app_->parsed(); }

 protected:
  CLI::App* app_ = nullptr;
};

std::unique_ptr<Command> MakeServeCommand();
std::unique_ptr<Command> MakeWorkerCommand();
std::unique_ptr<Command> MakeRunCommand();
std::unique_ptr<Command> MakeChatCommand();
std::unique_ptr<Command> MakeEmbedCommand();
std::unique_ptr<Command> MakeTokenizeCommand();
std::unique_ptr<Command> MakeInspectCommand();
std::unique_ptr<Command> MakeQuantizeCommand();
std::unique_ptr<Command> MakePackCommand();
std::unique_ptr<Command> MakeKeysCommand();
std::unique_ptr<Command> MakeUsersCommand();
std::unique_ptr<Command> MakeUsageCommand();
std::unique_ptr<Command> MakeCacheCommand();
std::unique_ptr<Command> MakeJobsCommand();
std::unique_ptr<Command> MakeBenchCommand();
std::unique_ptr<Command> MakeDoctorCommand();
std::unique_ptr<Command> MakeVersionCommand();
std::unique_ptr<Command> MakeHelpCommand();

// Declares every command on `parser`, which must outlive the commands.
std::vector<std::unique_ptr<Command>> DeclareCommands(CLI::App& parser);

// The output of `COMMAND --help`.
std::string HelpOf(const CLI::App& command);

// Parses the command line and runs the command: the whole program except main().
int Main(int argc, char** argv);

}  // namespace tutti::cli
