#include "cli/command_line.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "app/config/options.h"
#include "app/loading/model_registry.h"
#include "app/version.h"
#include "base/check.h"
#include "base/log.h"
#include "base/quote.h"

namespace tutti::cli {
namespace {

void Print(const Status& status) {
  // The place of the fault, where the sentence does not name it: a path within a schema.
  const bool placed = status.message().find(status.param()) == std::string::npos;
  std::fprintf(stderr, "tutti: %s: %s%s\n", status.reason().c_str(),
               Printable(status.message()).c_str(),
               placed ? (" (at " + Printable(status.param()) + ")").c_str() : "");
}

constexpr char kIntroduction[] =
    "Serves language and embedding models to many clients at once from one shared model.\n"
    "\n"
    "  tutti serve                              the default model on http://127.0.0.1:8080\n"
    "  tutti run smollm2-135m-instruct -p \"Why is the sky blue?\"\n"
    "  tutti chat smollm2-135m-instruct\n"
    "  tutti embed all-minilm-l6-v2 \"A cat sits on the mat.\"\n"
    "  tutti pull Qwen/Qwen3-0.6B-GGUF:Q8_0     fetch a model, to serve it by this name\n"
    "\n"
    "MODEL is a .gguf file, a packed one (`tutti pack`), a model's folder, the name of a known\n"
    "model, ORG/NAME[:QUANT] of a hub (`tutti pull`), or NAME=any of these to choose the name\n"
    "clients use; an encoder's may end in its arithmetic (all-minilm-l6-v2:f32).\n"
    "Options may also stand in a TOML file (--config) or in the environment (--max-num-seqs 8 is "
    "TUTTI_MAX_NUM_SEQS=8);\n"
    "flag > environment > file > default.";

// Help without lists of the options that exclude each other: a refusal names them, and --url
// excludes dozens.
class Formatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string all = CLI::Formatter::make_option_opts(option);
    return all.substr(0, all.find(" " + get_label("Excludes") + ":"));  // they come last
  }
};

// Names that users of other servers type by habit, and what does the same here.
struct FamiliarName {
  std::string_view name, here;  // `here`: an option of the command, or a sentence
};
constexpr FamiliarName kFamiliarNames[] = {
    {"-c", "--context"},
    {"--ctx-size", "--context"},
    {"--n-ctx", "--context"},
    {"--num-ctx", "--context"},
    {"--max-model-len", "--context"},
    {"--temp", "--temperature"},
    {"--n-predict", "--max-tokens"},
    {"--num-predict", "--max-tokens"},
    {"-t", "--threads"},
    {"-np", "--max-num-seqs"},
    {"-sys", "--system"},
    {"-ctk", "--kv-dtype"},
    {"-ctv", "--kv-dtype"},
    {"--cache-type-k", "--kv-dtype"},
    {"--cache-type-v", "--kv-dtype"},
    {"--kv-cache-dtype", "--kv-dtype"},
    {"-md", "--draft"},
    {"--model-draft", "--draft"},
    {"--draft-model", "--draft"},
    {"-ub", "--prefill-chunk"},
    {"--ubatch-size", "--prefill-chunk"},
    {"--max-num-batched-tokens", "--prefill-chunk"},
    {"-ngl", "all layers are computed on the processor"},
    {"--n-gpu-layers", "all layers are computed on the processor"},
    {"-fa", "attention has one form, which needs no option"},
    {"--flash-attn", "attention has one form, which needs no option"},
    {"--no-mmap", "weights are read into memory, never mapped"},
    {"--mlock", "weights are read into memory, never mapped"},
    {"--jinja", "a model's own chat template is always used"},
    {"--chat-template", "a model's own chat template is always used"},
    {"--lora", "`tutti serve --lora NAME=PATH` serves an adapter under a name of its own"},
    {"--lora-modules", "--lora"},
    {"--lora-paths", "--lora"},
    {"--enable-lora", "--lora NAME=PATH and --lora-folder turn adapters on"},
    {"--alias", "NAME=MODEL gives a model the name that clients use"},
    {"--served-model-name", "NAME=MODEL gives a model the name that clients use"},
    {"--hf-repo", "give ORG/NAME:QUANT as MODEL, after `tutti pull ORG/NAME:QUANT`"},
    {"--api-key", "--api-key-file"},
    {"--password", "--password-stdin"},
    {"-m", "the model stands without an option, right behind the command"},
    {"--model", "the model stands without an option, right behind the command"},
    {"list", "models"},
    {"download", "pull"},
    {"generate", "run"},
};

// A hint for an option name of another program, or "".
std::string FamiliarHint(const CLI::App& command, std::string_view argument) {
  argument = argument.substr(0, argument.find('='));
  for (const FamiliarName& familiar : kFamiliarNames) {
    if (familiar.name != argument) continue;
    const std::string here(familiar.here);
    if (here.starts_with("--api-key"))
      return command.get_option_no_throw(here) == nullptr ? "a key is taken from TUTTI_API_KEY"
                                                          : here + " FILE, or TUTTI_API_KEY";
    const bool sentence = here.find(' ') != std::string::npos;
    if (here.starts_with("--") && command.get_option_no_throw(here) == nullptr) return "";
    return sentence ? here : "here it is " + here;
  }
  return "";
}

// The options the user meant, for an argument the parser did not know.
std::string SuggestFor(const CLI::App& command, const std::string& argument) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  if (!argument.starts_with('-')) {
    known.clear();
    for (const CLI::App* sub : command.get_subcommands({})) known.push_back(sub->get_name());
  }
  return app::Suggestion(argument.substr(0, argument.find('=')), known);
}

// "create, list, rotate, revoke"
std::string NamesOfCommands(const CLI::App& command) {
  std::string names;
  for (const CLI::App* sub : command.get_subcommands({}))
    names += (names.empty() ? "" : ", ") + sub->get_name();
  return names;
}

// The user's words, truncated and printable.
std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    if (out.size() > 256) return out + " ...";
    out += (out.empty() ? "" : " ") + LogEscape(word.substr(0, 64));
  }
  return out;
}

// "tutti bench engine"
std::string FullName(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : FullName(*parent) + " " + command.get_name();
}

// A value that cannot be is bad configuration, like one that stands in a file; all else is wrong
// use.
int UsageError(const CLI::App& parser, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ValidationError) ||
      error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ConversionError)) {
    return FailConfig(InvalidArgument("invalid_value", error.what()));
  }
  const CLI::App* command = &parser;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const std::vector<std::string> extras = command->remaining(true);
  const std::vector<std::string> early = parser.remaining(false);
  if (command != &parser && !early.empty()) {
    std::fprintf(stderr,
                 "tutti: \"%s\" stands before the command: put options after it, tutti %s %s\n",
                 LogEscape(early.front().substr(0, 64)).c_str(),
                 parser.get_subcommands().front()->get_name().c_str(), Joined(early).c_str());
    return kExitUsage;
  }
  // A command of commands says only that one is missing, not what stood in its place.
  const bool needs_command = command->get_require_subcommand_min() > 0;
  if (needs_command && extras.empty()) {
    std::fputs(HelpOf(*command).c_str(), stderr);
    return kExitUsage;
  }
  if (needs_command && !extras.front().starts_with('-')) {
    const std::string name = extras.front().substr(0, 64);
    const std::string hint = FamiliarHint(*command, name);
    const std::string meant = hint.empty() ? SuggestFor(*command, name) : "";
    std::fprintf(stderr, "tutti: no command \"%s\"%s\n", LogEscape(name).c_str(),
                 !hint.empty()   ? (": " + hint).c_str()
                 : meant.empty() ? ("; there are " + NamesOfCommands(*command)).c_str()
                                 : ("; did you mean " + meant + "?").c_str());
  } else {
    std::fprintf(stderr, "tutti: %s\n",
                 needs_command
                     ? ("unknown option " + LogEscape(extras.front().substr(0, 64))).c_str()
                 // The parser's own words have the arguments in reverse.
                 : extras.empty() ? error.what()
                                  : ("not expected: " + Joined(extras)).c_str());
    for (const std::string& extra : extras) {
      if (const std::string hint = FamiliarHint(*command, extra); !hint.empty()) {
        std::fprintf(stderr, "tutti: %s: %s\n",
                     LogEscape(extra.substr(0, extra.find('=')).substr(0, 64)).c_str(),
                     hint.c_str());
        continue;
      }
      const std::string meant = SuggestFor(*command, extra);
      if (!meant.empty()) std::fprintf(stderr, "tutti: did you mean %s?\n", meant.c_str());
    }
  }
  std::fprintf(stderr, "Run \"%s --help\" for the %s.\n", FullName(*command).c_str(),
               needs_command ? "commands" : "options");
  return kExitUsage;
}

// A key that takes nothing but its default is one of a later release: known, not offered.
bool IsOffered(const app::OptionSpec& option) {
  return option.type != app::OptionType::kInt || option.min < option.max;
}

// Servers and load generators need a descriptor for each connection.
void RaiseFileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

// "--max-num-seqs,--lanes", as CLI11 takes them.
std::string AllFlags(const app::OptionSpec& option) {
  std::string names;
  for (const std::string& name : app::FlagNames(option)) names += (names.empty() ? "" : ",") + name;
  return names;
}

}  // namespace

int Fail(const Status& status) {
  Print(status);
  return status.reason() == "invalid_value" || status.reason() == "unknown_parameter" ? kExitConfig
                                                                                      : kExitFailed;
}

int FailConfig(const Status& status) {
  Print(status);
  return kExitConfig;
}

void SettingsOptions::AddConfig(CLI::App& command) {
  config_option_ = command.add_option("--config", config_file_, "TOML file with the same keys")
                       ->type_name("FILE");
}

void SettingsOptions::AddOption(CLI::App& command, const app::OptionSpec& option,
                                const std::string& group) {
  std::string help = option.help;
  if (*option.choices != '\0') help += std::string(": ") + option.choices;
  if (*option.fallback != '\0') help += std::string(" [") + option.fallback + "]";
  CLI::Option* const flag = command.add_option(AllFlags(option), values_[option.key], help)
                                ->type_name(option.type == app::OptionType::kSize     ? "SIZE"
                                            : option.type == app::OptionType::kInt    ? "N"
                                            : option.type == app::OptionType::kNumber ? "X"
                                                                                      : "TEXT")
                                ->group(group);
  // Joins repeated values by line ends, so that an empty value between two commas stays an error.
  if (app::IsList(option.type)) flag->join();
  options_[option.key] = flag;
}

CLI::Validator ModelName() {
  return CLI::Validator(
      [](const std::string& name) {
        return std::string(name.empty() ? "the model's name is empty: name a .gguf file, an "
                                          "encoder's folder or a known model such as " +
                                              std::string(app::kDefaultModel)
                                        : "");
      },
      "");
}

void SettingsOptions::AddTo(CLI::App& command, app::OptionGroup last) {
  AddConfig(command);
  print_option_ = command.add_flag("--print-config", print_config_,
                                   "show every value and where it came from, and exit");
  // In the order of the topics, because groups are shown in that of their first options.
  for (const OptionTopic& topic : OptionTopics()) {
    for (const app::OptionSpec& option : app::AllOptions()) {
      if (option.group > last || &TopicOf(option) != &topic) continue;
      AddOption(command, option,
                IsCommonOption(option) && IsOffered(option) ? std::string(topic.title) : "");
    }
  }
  command.add_flag_callback(
      "--help-all",
      [this] {
        for (const auto& [key, option] : options_) {
          const app::OptionSpec& spec = *app::FindOption(key);
          if (IsOffered(spec)) option->group(std::string(TopicOf(spec).title));
        }
        throw CLI::CallForHelp();
      },
      "show all options and exit; `tutti help TOPIC` shows those of one topic: " + TopicNames());
}

void SettingsOptions::AddTopic(CLI::App& page, const OptionTopic& topic) {
  for (const app::OptionSpec& option : app::AllOptions()) {
    if (&TopicOf(option) == &topic && IsOffered(option))
      AddOption(page, option, std::string(topic.title));
  }
}

void SettingsOptions::AddOnly(CLI::App& command, std::initializer_list<std::string_view> keys) {
  AddConfig(command);
  for (const std::string_view key : keys) {
    const app::OptionSpec* const option = app::FindOption(key);
    CHECK(option != nullptr) << key;
    AddOption(command, *option, "Options");
  }
}

void SettingsOptions::NeedBeside(CLI::Option& other) {
  config_option_->needs(&other);
  for (const auto& [key, option] : options_) option->needs(&other);
}

void SettingsOptions::ExcludeBeside(CLI::Option& other) {
  other.excludes(config_option_);
  other.excludes(print_option_);
  for (const auto& [key, option] : options_) other.excludes(option);
}

std::string SettingsOptions::ValueOf(const std::string& key) const {
  std::string value = values_.at(key);
  if (app::IsList(app::FindOption(key)->type)) std::replace(value.begin(), value.end(), '\n', ',');
  return value;
}

std::string HelpOf(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return command.help(parent == nullptr ? "" : FullName(*parent));
}

Result<app::Settings> SettingsOptions::Resolve(
    const std::map<std::string, std::string>& usual) const {
  app::Settings::Inputs inputs;
  inputs.flags = usual;
  for (const auto& [key, option] : options_) {
    if (option->count() > 0) inputs.flags[key] = ValueOf(key);
  }
  inputs.environment = app::TuttiEnvironment();
  inputs.file = config_file_;
  if (inputs.file.empty() && inputs.environment.contains("TUTTI_CONFIG")) {
    inputs.file = inputs.environment.at("TUTTI_CONFIG");
  }
  Result<app::Settings> settings = app::Settings::Resolve(inputs);
  if (settings.ok() && !settings->ignored().empty()) {
    std::fprintf(stderr,
                 "tutti: ignored: %s%s, set by the orchestrator for a service called tutti\n",
                 LogEscape(settings->ignored().front()).c_str(),
                 settings->ignored().size() > 1
                     ? (" and " + std::to_string(settings->ignored().size() - 1) + " more").c_str()
                     : "");
  }
  return settings;
}

bool SettingsOptions::PrintedConfig(const app::Settings& settings, bool with_server_options) const {
  if (print_config_) std::fputs(settings.Print(with_server_options).c_str(), stdout);
  return print_config_;
}

std::vector<std::pair<std::string, std::string>> SettingsOptions::Typed() const {
  std::vector<std::pair<std::string, std::string>> typed;
  if (config_option_->count() > 0) typed.emplace_back("config", config_file_);
  for (const auto& [key, option] : options_) {
    if (option->count() > 0) typed.emplace_back(key, ValueOf(key));
  }
  return typed;
}

std::vector<std::unique_ptr<Command>> DeclareCommands(CLI::App& parser) {
  parser.formatter(std::make_shared<Formatter>());  // the commands' too
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeServeCommand());
  commands.push_back(MakeWorkerCommand());
  commands.push_back(MakeRunCommand());
  commands.push_back(MakeChatCommand());
  commands.push_back(MakeEmbedCommand());
  commands.push_back(MakeTokenizeCommand());
  commands.push_back(MakeInspectCommand());
  commands.push_back(MakeQuantizeCommand());
  commands.push_back(MakePackCommand());
  commands.push_back(MakePullCommand());
  commands.push_back(MakeModelsCommand());
  commands.push_back(MakeKeysCommand());
  commands.push_back(MakeUsersCommand());
  commands.push_back(MakeUsageCommand());
  commands.push_back(MakeCacheCommand());
  commands.push_back(MakeJobsCommand());
  commands.push_back(MakeBenchCommand());
  commands.push_back(MakeDoctorCommand());
  commands.push_back(MakeCompletionCommand());
  commands.push_back(MakeVersionCommand());
  commands.push_back(MakeHelpCommand());
  for (const auto& command : commands) command->Declare(parser);
  return commands;
}

int Main(int argc, char** argv) {
  RaiseFileLimit();
  CLI::App parser(kIntroduction, "tutti");
  parser.require_subcommand(1);
  parser.set_version_flag("--version", std::string("tutti ") + app::kVersion);
  const std::vector<std::unique_ptr<Command>> commands = DeclareCommands(parser);
  try {
    parser.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return parser.exit(success);
  } catch (const CLI::ParseError& error) {
    return UsageError(parser, error);
  }
  for (const auto& command : commands) {
    if (command->chosen()) return command->Run();
  }
  return kExitUsage;
}

}  // namespace tutti::cli
