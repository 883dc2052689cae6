// `tutti help [COMMAND...]`: the same text as `tutti COMMAND --help`. `tutti help TOPIC`: the
// options of one topic.
#include <cstdio>
#include <string>
#include <vector>

#include "app/config/options.h"
#include "base/log.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"

namespace tutti::cli {
namespace {

class HelpCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("help", "Explain a command or a topic");
    app_->footer(
        "Examples:\n  tutti help serve\n  tutti help bench engine\n  tutti help network\n\n"
        "Topics: " +
        TopicNames());
    app_->add_option("COMMAND", names_,
                     "the command or topic to explain (default: all commands, in brief)");
  }

  int Run() override {
    const CLI::App* command = app_->get_parent();
    if (names_.size() == 1) {
      if (const OptionTopic* topic = FindTopic(names_[0])) return ExplainTopic(*topic);
    }
    for (const std::string& name : names_) {
      const CLI::App* found = nullptr;
      std::vector<std::string> known;
      for (const CLI::App* sub : command->get_subcommands({})) {
        known.push_back(sub->get_name());
        if (sub->get_name() == name) found = sub;
      }
      if (found == nullptr) {
        if (names_.size() == 1) {
          for (const OptionTopic& topic : OptionTopics()) known.emplace_back(topic.name);
        }
        const std::string meant = app::Suggestion(name.substr(0, 64), known);
        std::fprintf(stderr, "tutti: no command or topic \"%s\"%s\n",
                     LogEscape(name.substr(0, 64)).c_str(),
                     meant.empty() ? "" : ("; did you mean " + meant + "?").c_str());
        return kExitUsage;
      }
      command = found;
    }
    // Without this, CLI11 would print the help of the parsed command, which is this one.
    if (names_.empty()) app_->get_parent()->clear();
    std::fputs(HelpOf(*command).c_str(), stdout);
    return kExitOk;
  }

 private:
  static int ExplainTopic(const OptionTopic& topic) {
    CLI::App page(
        std::string(topic.title) + ": options of `tutti serve`, some also of other commands",
        "tutti serve");
    page.set_help_flag();
    SettingsOptions options;
    options.AddTopic(page, topic);
    std::fputs(page.help().c_str(), stdout);
    return kExitOk;
  }

  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<Command> MakeHelpCommand() { return std::make_unique<HelpCommand>(); }

}  // namespace tutti::cli
