// The commands of `tutti` and what they share: options from the table of options, --config,
// --print-config, --help, exit statuses.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/options.h"
#include "app/config/settings.h"
#include "base/status.h"

namespace tutti::cli {

// Topics of the table of options: how `--help` groups options, which of them it shows, and what
// `tutti help TOPIC` explains. Constant; any thread.
struct OptionTopic {
  std::string_view name;   // as in `tutti help NAME`; no command has it
  std::string_view title;  // heading of the group in `--help`
};

std::span<const OptionTopic> OptionTopics();  // in the order of `--help-all`
const OptionTopic* FindTopic(std::string_view name);
const OptionTopic& TopicOf(const app::OptionSpec& option);
std::string TopicNames();  // "model, scheduling, ..."

// Whether `--help` shows the option; the others are shown by `--help-all` and by their topic.
bool IsCommonOption(const app::OptionSpec& option);

// Exit statuses of the command line, a contract of its users' scripts.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;   // at run time, also a refused model file
inline constexpr int kExitUsage = 2;    // unknown option, missing argument
inline constexpr int kExitConfig = 78;  // a bad value or key, from any source

// Prints "tutti: <why>" to standard error, in one line without control characters, and returns the
// status that fits.
int Fail(const Status& status);
// The same for configuration, for any reason of the status.
int FailConfig(const Status& status);

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
  // Prints every value to standard output if --print-config was given; false without it.
  bool PrintedConfig(const app::Settings& settings, bool with_server_options) const;

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
std::unique_ptr<Command> MakePullCommand();
std::unique_ptr<Command> MakeModelsCommand();
std::unique_ptr<Command> MakeKeysCommand();
std::unique_ptr<Command> MakeUsersCommand();
std::unique_ptr<Command> MakeUsageCommand();
std::unique_ptr<Command> MakeCacheCommand();
std::unique_ptr<Command> MakeJobsCommand();
std::unique_ptr<Command> MakeBenchCommand();
std::unique_ptr<Command> MakeDoctorCommand();
std::unique_ptr<Command> MakeCompletionCommand();
std::unique_ptr<Command> MakeVersionCommand();
std::unique_ptr<Command> MakeHelpCommand();

// Declares every command on `parser`, which must outlive the commands.
std::vector<std::unique_ptr<Command>> DeclareCommands(CLI::App& parser);

// The output of `COMMAND --help`.
std::string HelpOf(const CLI::App& command);

// Parses the command line and runs the command: the whole program except main().
int Main(int argc, char** argv);

}  // namespace tutti::cli
