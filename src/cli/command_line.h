// The commands of `tutti` and what they share: options from the one table, --config,
// --print-config, --help.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/settings.h"

namespace tutti::cli {

// Adds every option of the table that fits: those of the model side, of a process that serves, of
// the doors as well.
class SettingsOptions {
 public:
  void AddTo(CLI::App& command, app::OptionGroup last);
  // --config, and those of these keys alone: of commands that run no model.
  void AddOnly(CLI::App& command, std::initializer_list<std::string_view> keys);

  // After parsing: flags, environment and file together. Bad values are configuration errors (exit
  // 78).
  // `usual`: what this command has instead of the table's default, as flags.
  Result<app::Settings> Resolve(const std::map<std::string, std::string>& usual = {}) const;
  // None of them without `other`.
  void NeedBeside(CLI::Option& other);
  // Beside `other` none of them may be given.
  void ExcludeBeside(CLI::Option& other);
  // Keys and values of the options on the command line, --config among them.
  std::vector<std::pair<std::string, std::string>> Typed() const;
  bool print_config() const { return print_config_; }

 private:
  void AddConfig(CLI::App& command);
  void AddOption(CLI::App& command, const app::OptionSpec& option, const std::string& group);
  std::string ValueOf(const std::string& key) const;  // as typed; of a list with commas

  std::map<std::string, std::string> values_;  // by option key; CLI11 writes here
  std::map<std::string, CLI::Option*> options_;
  CLI::Option *config_option_ = nullptr, *print_option_ = nullptr;
  std::string config_file_;
  bool print_config_ = false;
};

// The check of every MODEL that is typed: an empty one is a slip (a variable that is not set), and
// not the default, which stands for none at all.
CLI::Validator ModelName();

// One command: declares itself on the parser; Run() is called when it was chosen and returns the
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

// Declares every command on `parser`, which they must not outlive.
std::vector<std::unique_ptr<Command>> DeclareCommands(CLI::App& parser);

// What `COMMAND --help` prints.
std::string HelpOf(const CLI::App& command);

// Parses and runs; the whole program but for main().
int Main(int argc, char** argv);

}  // namespace tutti::cli
