// `tutti completion SHELL`: a script that completes commands, options, their values and names of
// models and files. It is written from the parser's own tables, so that it names what this program
// takes.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/config/options.h"
#include "app/loading/model_registry.h"
#include "cli/command_line.h"
#include "services/models/hub_cache.h"

namespace tutti::cli {
namespace {

// What may stand behind an option or as an argument: words with spaces between them, or one of
// these. "" = nothing: a flag.
constexpr char kAnyFile[] = "@file";
constexpr char kAnyFolder[] = "@folder";
constexpr char kAnyModel[] = "@model";  // names of models on this disk, and files
constexpr char kAnyText[] = "@text";    // nothing that could be listed

struct CompletedOption {
  std::vector<std::string> names;  // "--max-num-seqs", "--lanes": the first one is offered
  std::string follows, help;
};

struct CompletedCommand {
  std::string path;                                           // "keys create"; "" = the program
  std::vector<std::pair<std::string, std::string>> commands;  // name, help
  std::vector<CompletedOption> options;
  std::string argument;
};

std::string WordsOf(std::string list, char separator) {
  std::replace(list.begin(), list.end(), separator, ' ');
  return list;
}

// Type names are what the command declared ("FILE"), with the words of CLI::IsMember behind it:
// "TEXT:{int8,f32}".
std::string FollowsType(const std::string& type) {
  const size_t set = type.find('{');
  if (set != std::string::npos) return WordsOf(type.substr(set + 1, type.find('}') - set - 1), ',');
  if (type.starts_with("FILE")) return kAnyFile;
  return type.starts_with("FOLDER") ? kAnyFolder : kAnyText;
}

std::string FollowsOption(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const app::OptionSpec* const spec =
      option.get_lnames().empty() ? nullptr : app::FindOption(option.get_lnames().front());
  const std::string type = option.get_type_name();
  if (spec == nullptr || type != "TEXT") return FollowsType(type);
  switch (spec->type) {
    case app::OptionType::kChoice:
    case app::OptionType::kChoices:
      return WordsOf(spec->choices, '|');
    case app::OptionType::kText:  // most of them are files, sockets and folders
      return kAnyFile;
    default:
      return kAnyText;
  }
}

std::string FollowsCommand(const CLI::App& command, const CLI::App& root) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name(/*positional=*/true);
    if (!option->get_positional()) continue;
    if (name.starts_with("COMMAND")) {  // the argument of `tutti help`
      std::string words;
      for (const CLI::App* each : root.get_subcommands({})) words += each->get_name() + " ";
      for (const OptionTopic& topic : OptionTopics()) words += std::string(topic.name) + " ";
      words.pop_back();
      return words;
    }
    const std::string type = option->get_type_name();
    if (type.find('{') != std::string::npos) return FollowsType(type);
    return option->get_description().find("model") != std::string::npos ? kAnyModel
                                                                        : FollowsType(name);
  }
  return "";
}

// Descriptions are one line of a list.
std::string FirstLine(std::string text) { return text.substr(0, text.find('\n')); }

void Collect(const CLI::App& command, const std::string& path, const CLI::App& root,
             std::vector<CompletedCommand>* out) {
  CompletedCommand found;
  found.path = path;
  found.argument = FollowsCommand(command, root);
  for (const CLI::Option* option : command.get_options()) {
    CompletedOption each;
    for (const std::string& name : option->get_lnames()) each.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) each.names.push_back("-" + name);
    if (each.names.empty()) continue;
    each.follows = FollowsOption(*option);
    each.help = FirstLine(option->get_description());
    found.options.push_back(std::move(each));
  }
  for (const CLI::App* sub : command.get_subcommands({}))
    found.commands.emplace_back(sub->get_name(), FirstLine(sub->get_description()));
  out->push_back(std::move(found));
  for (const CLI::App* sub : command.get_subcommands({}))
    Collect(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), root, out);
}

// As one word of each of the three shells.
std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// The arms of a `case`, in the form that bash and zsh share, for "COMMAND --option": what follows.
// An option that takes the same in all commands has one arm.
std::string ArmsOfValues(const std::vector<CompletedCommand>& commands) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> values;
  for (const CompletedCommand& command : commands) {
    for (const CompletedOption& option : command.options) {
      for (const std::string& name : option.names)
        values[name][option.follows].push_back(command.path);
    }
  }
  std::map<std::string, std::string> arms;  // by what follows
  for (const auto& [name, by_value] : values) {
    for (const auto& [follows, paths] : by_value) {
      if (follows.empty()) continue;
      std::string& arm = arms[follows];
      if (by_value.size() == 1) {
        arm += (arm.empty() ? "*" : "|*") + Quoted(" " + name);
        continue;
      }
      for (const std::string& path : paths)
        arm += (arm.empty() ? "" : "|") + Quoted(path + " " + name);
    }
  }
  std::string text;
  for (const auto& [follows, arm] : arms)
    text += "    " + arm + ")\n      follows=" + Quoted(follows) + " ;;\n";
  return text;
}

constexpr char kBashEnd[] = R"sh(
_tutti() {
  local raw=${COMP_WORDS[COMP_CWORD]} path='' option='' word cur opened=0 i
  local commands options argument follows
  local words=() found=()
  # bash divides words at = and at :, so that --dtype=int8 is three.
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if ((${#words[@]} > 0)) && { ((opened)) || [[ $word == [=:]* ]]; }; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
    opened=0
    [[ $word == *[=:] && $word != -- ]] && opened=1
  done
  cur=${words[${#words[@]} - 1]}
  unset "words[${#words[@]} - 1]"
  for word in "${words[@]}"; do
    if [[ -n $option ]]; then
      option=''
    elif [[ $word == -* ]]; then
      _tutti_value "$path $word"
      [[ -n $follows ]] && option=$word
    else
      _tutti_command "$path"
      [[ " $commands " == *" $word "* ]] && path=${path:+$path }$word
    fi
  done
  _tutti_command "$path"
  local before='' value=$cur
  if [[ -n $option ]]; then
    _tutti_value "$path $option"
  elif [[ $cur == --*=* ]]; then
    _tutti_value "$path ${cur%%=*}"
    before=${cur%%=*}= value=${cur#*=}
  elif [[ $cur == -* ]]; then
    follows=$options
  else
    follows=${commands:-$argument}
  fi
  if [[ $follows == @model && $value == *=* ]]; then  # NAME=MODEL
    before+=${value%"${value##*=}"} value=${value##*=}
  fi
  case $follows in
    @text | '') ;;
    @folder)
      compopt -o filenames 2>/dev/null
      mapfile -t found < <(compgen -d -- "$value") ;;
    @file)
      compopt -o filenames 2>/dev/null
      mapfile -t found < <(compgen -f -- "$value") ;;
    @model)
      compopt -o filenames 2>/dev/null
      mapfile -t found < <(compgen -W "$("${COMP_WORDS[0]/#\~/$HOME}" completion models 2>/dev/null)" -- "$value"
        compgen -f -- "$value") ;;
    *) mapfile -t found < <(compgen -W "$follows" -- "$value") ;;
  esac
  # What stands before the last = or : is not replaced.
  [[ $raw == [=:] ]] && raw=''
  COMPREPLY=()
  for word in "${found[@]}"; do
    word=$before$word
    COMPREPLY+=("${word:${#cur} - ${#raw}}")
  done
}
complete -F _tutti tutti
)sh";

std::string BashScript(const std::vector<CompletedCommand>& commands) {
  std::string text =
      "# Completion of tutti in bash, written by `tutti completion bash`.\n"
      "_tutti_command() {\n  commands='' options='' argument=''\n  case $1 in\n";
  for (const CompletedCommand& command : commands) {
    std::string names, options;
    for (const auto& [name, help] : command.commands) names += (names.empty() ? "" : " ") + name;
    for (const CompletedOption& option : command.options)
      options += (options.empty() ? "" : " ") + option.names.front();
    text += "    " + Quoted(command.path) + ")\n      commands=" + Quoted(names) +
            "\n      options=" + Quoted(options) + "\n      argument=" + Quoted(command.argument) +
            " ;;\n";
  }
  return text + "  esac\n}\n\n_tutti_value() {\n  follows=''\n  case $1 in\n" +
         ArmsOfValues(commands) + "  esac\n}\n" + kBashEnd;
}

constexpr char kZshEnd[] = R"sh(
_tutti_follow() {
  case $1 in
    @text | '') _message 'no completion' ;;
    @folder) _files -/ ;;
    @file) _files ;;
    @model)
      compset -P '*='  # NAME=MODEL
      local -a models
      models=(${(f)"$(${~words[1]} completion models 2>/dev/null)"})
      compadd -a models
      _files ;;
    *) compadd -- ${=1} ;;
  esac
}

_tutti() {
  local where='' option='' word argument follows
  local -a verbs flags
  local -i i
  for ((i = 2; i < CURRENT; ++i)); do
    word=${words[i]}
    if [[ -n $option ]]; then
      option=''
    elif [[ $word == -* ]]; then
      _tutti_value "$where $word"
      [[ -n $follows ]] && option=$word
    else
      _tutti_command "$where"
      [[ -n ${(M)verbs:#$word:*} ]] && where=${where:+$where }$word
    fi
  done
  _tutti_command "$where"
  word=${words[CURRENT]}
  if [[ -n $option ]]; then
    _tutti_value "$where $option"
    _tutti_follow "$follows"
  elif [[ $word == --*=* ]]; then
    _tutti_value "$where ${word%%=*}"
    compset -P 1 '*='
    _tutti_follow "$follows"
  elif [[ $word == -* ]]; then
    _describe -o option flags
  elif (( $#verbs )); then
    _describe command verbs
  else
    _tutti_follow "$argument"
  fi
}

if [[ ${funcstack[1]} == _tutti ]]; then
  _tutti "$@"
else
  compdef _tutti tutti
fi
)sh";

// "name:help", in which a colon of the name would end it.
std::string Described(const std::string& name, const std::string& help) {
  std::string out;
  for (const char c : name) out += c == ':' ? std::string("\\:") : std::string(1, c);
  return Quoted(out + ":" + help);
}

std::string ZshScript(const std::vector<CompletedCommand>& commands) {
  std::string text =
      "#compdef tutti\n# Completion of tutti in zsh, written by `tutti completion zsh`.\n"
      "_tutti_command() {\n  verbs=() flags=() argument=''\n  case $1 in\n";
  for (const CompletedCommand& command : commands) {
    text += "    " + Quoted(command.path) + ")\n      verbs=(";
    for (const auto& [name, help] : command.commands) text += "\n        " + Described(name, help);
    text += ")\n      flags=(";
    for (const CompletedOption& option : command.options)
      text += "\n        " + Described(option.names.front(), option.help);
    text += ")\n      argument=" + Quoted(command.argument) + " ;;\n";
  }
  return text + "  esac\n}\n\n_tutti_value() {\n  follows=''\n  case $1 in\n" +
         ArmsOfValues(commands) + "  esac\n}\n" + kZshEnd;
}

// In fish \ is special between single quotes as well, before another one or a quote.
std::string FishQuoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string FishFollows(const std::string& follows) {
  if (follows.empty()) return "";
  if (follows == kAnyFile) return " -r";
  if (follows == kAnyFolder) return " -xa '(__fish_complete_directories)'";
  return follows == kAnyText ? " -x" : " -xa " + FishQuoted(follows);
}

constexpr char kFishStart[] = R"sh(
function __tutti_at
    set -l path
    for word in (commandline -opc)[2..]
        string match -q -- '-*' $word; and continue
        contains -- (string trim -- "$path $word") $__tutti_commands; and set path (string trim -- "$path $word")
    end
    test "$path" = "$argv[1]"
end

complete -c tutti -e
)sh";

std::string FishScript(const std::vector<CompletedCommand>& commands) {
  std::string text =
      "# Completion of tutti in fish, written by `tutti completion fish`.\n"
      "set -g __tutti_commands";
  for (const CompletedCommand& command : commands) {
    if (!command.path.empty()) text += " " + FishQuoted(command.path);
  }
  text += "\n";
  text += kFishStart;
  for (const CompletedCommand& command : commands) {
    const std::string here =
        "complete -c tutti -n " + FishQuoted("__tutti_at " + FishQuoted(command.path));
    const bool files = command.argument == kAnyFile || command.argument == kAnyFolder ||
                       command.argument == kAnyModel;
    if (!files) text += here + " -f\n";
    if (command.argument == kAnyModel) text += here + " -a '(tutti completion models)' -d model\n";
    if (!command.argument.empty() && command.argument.front() != '@')
      text += here + " -a " + FishQuoted(command.argument) + "\n";
    for (const auto& [name, help] : command.commands)
      text += here + " -a " + name + " -d " + FishQuoted(help) + "\n";
    for (const CompletedOption& option : command.options) {
      text += here;
      for (const std::string& name : option.names)
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      text += FishFollows(option.follows) + " -d " + FishQuoted(option.help) + "\n";
    }
  }
  return text;
}

// Names that commands take for MODEL, one a line: known models on this disk, pulled ones, and those
// that could be fetched at once.
int PrintModelNames() {
  std::set<std::string> names;
  for (const app::ModelRef& known : app::KnownModelsHere()) names.insert(known.served_name);
  names.insert(std::string(app::kDefaultModel));
  const models::HubCache cache(app::HubSettingsFromEnvironment().cache_folder);
  for (const models::CachedModel& model : cache.List()) names.insert(model.name.ToString());
  for (const std::string& name : names) std::printf("%s\n", name.c_str());
  return kExitOk;
}

class CompletionCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("completion", "Print completions of a shell");
    app_->footer(
        "Examples:\n"
        "  source <(tutti completion bash)                  this shell; in ~/.bashrc all later "
        "ones\n"
        "  tutti completion zsh > ~/.zfunc/_tutti           in a folder of $fpath\n"
        "  tutti completion fish > ~/.config/fish/completions/tutti.fish\n"
        "  tutti completion models                          the models that the scripts offer\n"
        "The Debian package installs all three.");
    app_->add_option("SHELL", shell_, "the shell, or models: their names")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish", "models"}));
  }

  int Run() override {
    if (shell_ == "models") return PrintModelNames();
    const CLI::App& root = *app_->get_parent();
    std::vector<CompletedCommand> commands;
    Collect(root, "", root, &commands);
    const std::string script = shell_ == "bash"  ? BashScript(commands)
                               : shell_ == "zsh" ? ZshScript(commands)
                                                 : FishScript(commands);
    std::fputs(script.c_str(), stdout);
    return kExitOk;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> MakeCompletionCommand() { return std::make_unique<CompletionCommand>(); }

}  // namespace tutti::cli
