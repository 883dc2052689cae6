#include "app/config/settings.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <vector>

#include "app/config/alias_options.h"
#include "base/ascii.h"
#include "base/check.h"

extern char** environ;

namespace tutti::app {
namespace {

// Variables that are not options: secrets, file locations, and switches of the test suite.
constexpr std::string_view kReserved[] = {"TUTTI_API_KEY", "TUTTI_CACHE", "TUTTI_MODEL_FILE",
                                          "TUTTI_CONFIG"};
constexpr std::string_view kReservedPrefixes[] = {"TUTTI_TEST_", "TUTTI_SOURCE_", "TUTTI_BINARY_",
                                                  "TUTTI_BENCH_"};

bool IsReserved(std::string_view name) {
  return std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved) ||
         std::any_of(std::begin(kReservedPrefixes), std::end(kReservedPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Variables that Kubernetes and Docker links set in all containers that can reach a service called
// "tutti": TUTTI_SERVICE_HOST, TUTTI_SERVICE_PORT[_NAME], TUTTI_PORT=tcp://10.0.0.1:80,
// TUTTI_PORT_80_TCP[_ADDR|_PORT|_PROTO]. No setting of the server has one of these names or values.
bool IsServiceVariable(std::string_view name, std::string_view value) {
  if (name == "TUTTI_SERVICE_HOST" || name == "TUTTI_SERVICE_PORT" ||
      name.starts_with("TUTTI_SERVICE_PORT_"))
    return true;
  constexpr std::string_view kPort = "TUTTI_PORT";
  if (!name.starts_with(kPort)) return false;
  name.remove_prefix(kPort.size());
  constexpr std::string_view kProtocols[] = {"tcp", "udp", "sctp"};
  if (name.empty()) {
    return std::any_of(std::begin(kProtocols), std::end(kProtocols), [&](std::string_view p) {
      return value.starts_with(std::string(p) + "://");
    });
  }
  if (!name.starts_with('_')) return false;
  name.remove_prefix(1);
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  if (digits == 0) return false;
  name.remove_prefix(digits);
  constexpr std::string_view kRest[] = {"_TCP", "_UDP", "_SCTP"};
  for (const std::string_view rest : kRest) {
    if (!name.starts_with(rest)) continue;
    const std::string_view part = name.substr(rest.size());
    if (part.empty() || part == "_ADDR" || part == "_PORT" || part == "_PROTO") return true;
  }
  return false;
}

Status UnknownKey(std::string_view where, std::string_view name, const std::string& meant) {
  std::string hint = meant.empty() ? "" : "; did you mean " + meant + "?";
  if (name == "model") hint = "; models are named on the command line: tutti serve MODEL";
  return InvalidArgument("unknown_parameter",
                         fmt::format("{}: unknown key {}{}", where, name.substr(0, 64), hint));
}

// ["a", "b"] in the form of the flag, a,b. Only options with a list type accept it; an unknown key
// is refused later, by its name.
Result<std::string> ListText(const std::string& key, const toml::array& list) {
  const OptionSpec* option = FindOption(key);
  if (option == nullptr) return std::string();
  if (!IsList(option->type))
    return InvalidArgument("invalid_value", key + " takes one value, not a list");
  std::string out;
  for (const toml::node& item : list) {
    const auto text = item.value_exact<std::string>();
    if (!text.has_value() || text->empty() || text->find(',') != std::string::npos)
      return InvalidArgument("invalid_value", key + " must be a list of names, each a string");
    out += (out.empty() ? "" : ",") + *text;
  }
  return out;
}

// One key of a file with its value, as texts.
struct FileEntry {
  std::string key, text;
  uint32_t line = 0;  // of the key
};

// The contents of a file.
struct FileEntries {
  std::vector<FileEntry> options;
  std::vector<TableFields> projects, aliases;
};

// A single value in the form of the flag; nullopt for lists and tables.
std::optional<std::string> ScalarText(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto integer = node.value_exact<int64_t>()) return std::to_string(*integer);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  if (const auto flag = node.value_exact<bool>()) return *flag ? "on" : "off";
  return std::nullopt;
}

Status NoScalar(const std::string& key) {
  return InvalidArgument("invalid_value", key + " must be a string, a number or a truth value");
}

// A list of strings in the form of the flag, a,b; nullopt for any other value.
std::optional<std::string> StringsText(const toml::node& node) {
  const toml::array* const list = node.as_array();
  if (list == nullptr) return std::nullopt;
  std::string out;
  for (const toml::node& item : *list) {
    const auto text = item.value_exact<std::string>();
    if (!text.has_value() || text->empty() || text->find(',') != std::string::npos)
      return std::nullopt;
    out += (out.empty() ? "" : ",") + *text;
  }
  return out;
}

constexpr std::string_view kProjects = "mqtt.project", kAliases = "alias";

// The tables [[NAME]], or an array of such tables.
Result<std::vector<TableFields>> ReadTables(std::string_view name, const toml::node& node) {
  const Status no_tables = InvalidArgument(
      "invalid_value",
      fmt::format("{} is written as [[{}]]", name == kProjects ? "a project" : "an alias", name));
  const toml::array* const list = node.as_array();
  if (list == nullptr) return no_tables;
  std::vector<TableFields> tables;
  for (const toml::node& item : *list) {
    const toml::table* const table = item.as_table();
    if (table == nullptr) return no_tables;
    TableFields& fields = tables.emplace_back();
    for (const auto& [key, value] : *table) {
      std::optional<std::string> text = ScalarText(value);
      // Only `models` of an alias is a list.
      if (!text.has_value() && name == kAliases && key.str() == "models") text = StringsText(value);
      if (!text.has_value()) {
        return NoScalar(std::string(key.str()))
            .WithContext(fmt::format("[[{}]] {}", name, tables.size()));
      }
      fields[std::string(key.str())] = *std::move(text);
    }
  }
  return tables;
}

// Error for a setting that is set twice, because the result would be ambiguous to a reader.
Status SetTwice(const OptionSpec& option, const FileEntry& first, const FileEntry& second) {
  const std::string what =
      first.key == second.key
          ? fmt::format("{} is set in line {} already", second.key, first.line)
          : fmt::format("{} and {} (line {}) are one setting", second.key, first.key, first.line);
  return BadValue(option.key, what + "; leave one of them out");
}

// Depth-first walk over tables: "sched" { "itl_target_ms" = 50 } becomes sched.itl_target_ms.
Status Flatten(const toml::table& table, const std::string& prefix, int depth, FileEntries& out) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    const uint32_t line = name.source().begin.line;
    if (key == kProjects || key == kAliases) {
      std::vector<TableFields>& tables = key == kProjects ? out.projects : out.aliases;
      if (!tables.empty())
        return InvalidArgument("invalid_value",
                               fmt::format("{} is written as [[{}]] alone", key, key));
      ASSIGN_OR_RETURN(tables, ReadTables(key, node));
    } else if (const toml::table* inner = node.as_table()) {
      if (depth == 0) return InvalidArgument("invalid_value", key + " is nested too deeply");
      RETURN_IF_ERROR(Flatten(*inner, key + ".", depth - 1, out));
    } else if (auto text = ScalarText(node)) {
      out.options.push_back({key, *std::move(text), line});
    } else if (const toml::array* list = node.as_array()) {
      ASSIGN_OR_RETURN(std::string joined, ListText(key, *list));
      out.options.push_back({key, std::move(joined), line});
    } else {
      return NoScalar(key);
    }
  }
  return OkStatus();
}

// toml++ descends into the name of a table without a bound. No option of this server needs as many
// dots.
bool HasDeepTable(const std::string& text) {
  constexpr std::ptrdiff_t kMaxDots = 100;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin != std::string::npos && line[begin] == '[' &&
        std::count(line.begin(), line.end(), '.') > kMaxDots)
      return true;
  }
  return false;
}

Result<FileEntries> ReadToml(const std::string& path) {
  constexpr uintmax_t kMaxBytes = 1 << 20;
  std::error_code ignored;  // reading a device or a pipe might never end
  const bool regular = std::filesystem::is_regular_file(path, ignored);
  if (!std::filesystem::exists(path, ignored)) {
    return InvalidArgument("invalid_value",
                           "the configuration file " + path + " cannot be found: no such file");
  }
  if (!regular || std::filesystem::file_size(path, ignored) > kMaxBytes) {
    return InvalidArgument("invalid_value", "the configuration file " + path +
                                                " must be a regular file of at most 1 MiB");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return InvalidArgument("invalid_value", "cannot read the configuration file " + path);
  std::stringstream text;
  text << file.rdbuf();
  if (HasDeepTable(text.str())) {
    return InvalidArgument("invalid_value", path + ": a table's name is nested too deeply");
  }
  FileEntries out;
  try {  // the library reports by exception; none leaves this function
    Status status = Flatten(toml::parse(text.str(), path), "", 3, out);
    if (!status.ok()) return std::move(status).WithContext(path);
  } catch (const toml::parse_error& error) {
    return InvalidArgument(
        "invalid_value",
        fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
  std::stable_sort(out.options.begin(), out.options.end(),
                   [](const FileEntry& a, const FileEntry& b) { return a.line < b.line; });
  return out;
}

std::vector<std::string> KnownKeys() {
  std::vector<std::string> keys;
  for (const OptionSpec& option : AllOptions()) keys.emplace_back(option.key);
  return keys;
}

std::string TomlString(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') quoted += '\\';
    if (byte < 32 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04X}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// The value as TOML. A number that TOML would normalise (1e3, 007) is printed as a string, so that
// the output equals the input.
std::string TomlValue(const OptionSpec& option, const std::string& text) {
  if (option.type == OptionType::kInt) {
    const std::optional<int64_t> integer = ParseNumber<int64_t>(text);
    if (integer.has_value() && fmt::to_string(*integer) == text) return text;
  }
  if (option.type == OptionType::kNumber) {
    const std::optional<double> number = ParseNumber<double>(text);
    if (number.has_value() && fmt::format("{}", *number) == text &&
        text.find('e') == std::string::npos)
      return text;
  }
  return TomlString(text);
}

std::string_view SourceName(Source source) {
  constexpr std::string_view kNames[] = {"default", "file", "environment", "flag"};
  return kNames[static_cast<size_t>(source)];
}

std::string PrintTable(std::string_view name, std::span<const TableKey> keys,
                       const TableFields& fields) {
  std::string out = fmt::format("\n[[{}]]\n", name);
  for (const TableKey& key : keys) {
    const auto given = fields.find(key.name);
    const bool set = given != fields.end();
    const std::string text = set ? given->second : key.fallback;
    out += fmt::format("{:<24} = {:<16} # {}\n", (text.empty() ? "# " : "") + std::string(key.name),
                       text.empty() ? "(automatic)" : TomlString(text),
                       SourceName(set ? Source::kFile : Source::kDefault));
  }
  return out;
}

}  // namespace

Result<Settings> Settings::Resolve(const Inputs& inputs) {
  Settings settings;
  settings.inputs_ = inputs;
  for (const OptionSpec& option : AllOptions())
    settings.values_[option.key] = {option.fallback, Source::kDefault};

  const auto assign = [&](const OptionSpec& option, const std::string& text, Source source,
                          const std::string& where) -> Status {
    if (Status status = CheckOptionValue(option, text); !status.ok())
      return std::move(status).WithContext(where);
    settings.values_[option.key] = {PlainOptionValue(option, text), source};
    return OkStatus();
  };

  if (!inputs.file.empty()) {
    ASSIGN_OR_RETURN(FileEntries entries, ReadToml(inputs.file));
    settings.project_fields_ = std::move(entries.projects);
    settings.alias_fields_ = std::move(entries.aliases);
    std::map<const OptionSpec*, const FileEntry*> given;
    for (const FileEntry& entry : entries.options) {
      const std::string where = fmt::format("{}:{}", inputs.file, entry.line);
      const OptionSpec* option = FindOption(entry.key);
      if (option == nullptr)
        return UnknownKey(where, entry.key, Suggestion(entry.key, KnownKeys()));
      if (const auto [first, fresh] = given.emplace(option, &entry); !fresh)
        return SetTwice(*option, *first->second, entry).WithContext(where);
      RETURN_IF_ERROR(assign(*option, entry.text, Source::kFile, where));
    }
  }
  // The common prefix is removed, because it would make any two short names similar.
  constexpr std::string_view kPrefix = "TUTTI_";
  std::vector<std::string> variables;
  for (const OptionSpec& option : AllOptions()) {
    for (const std::string& variable : EnvironmentNames(option))
      variables.push_back(variable.substr(kPrefix.size()));
  }
  std::map<const OptionSpec*, std::string> variable_of;
  for (const auto& [name, text] : inputs.environment) {
    if (IsReserved(name)) continue;
    if (IsServiceVariable(name, text)) {
      settings.ignored_.push_back(name);
      continue;
    }
    const OptionSpec* found = nullptr;
    for (const OptionSpec& option : AllOptions()) {
      const std::vector<std::string> names = EnvironmentNames(option);
      if (std::find(names.begin(), names.end(), name) != names.end()) found = &option;
    }
    if (found == nullptr) {
      const std::string meant =
          Suggestion(name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name, variables);
      return UnknownKey("environment", name, meant.empty() ? "" : std::string(kPrefix) + meant);
    }
    if (const auto [first, fresh] = variable_of.emplace(found, name); !fresh) {
      return BadValue(found->key, fmt::format("{} and {} are one setting; leave one of "
                                              "them out",
                                              first->second, name));
    }
    RETURN_IF_ERROR(assign(*found, text, Source::kEnvironment, name));
  }
  for (const auto& [key, text] : inputs.flags) {
    const OptionSpec* option = FindOption(key);
    CHECK(option != nullptr) << key;  // flags are declared from the same table
    RETURN_IF_ERROR(assign(*option, text, Source::kFlag, inputs.flags_name));
  }
  Result<std::vector<MqttProject>> projects =
      MakeProjects(settings.project_fields_, settings.Text("mqtt.prefix"));
  if (!projects.ok()) return Status(projects.status()).WithContext(inputs.file);
  settings.mqtt_projects_ = *std::move(projects);
  Result<std::vector<aliases::Alias>> aliases = MakeAliases(settings.alias_fields_);
  if (!aliases.ok()) return Status(aliases.status()).WithContext(inputs.file);
  settings.aliases_ = *std::move(aliases);
  return settings;
}

std::vector<std::string> Settings::ChangesSince(const Settings& before) const {
  std::vector<std::string> changed;
  for (const auto& [key, value] : values_) {
    if (value.text != before.Text(key)) changed.push_back(key);
  }
  if (alias_fields_ != before.alias_fields_) changed.emplace_back(kAliases);
  if (project_fields_ != before.project_fields_) changed.emplace_back(kProjects);
  return changed;
}

const Settings::Value& Settings::Find(std::string_view key) const {
  const auto found = values_.find(key);
  CHECK(found != values_.end()) << key;
  return found->second;
}

const std::string& Settings::Text(std::string_view key) const { return Find(key).text; }
Source Settings::SourceOf(std::string_view key) const { return Find(key).source; }

std::optional<int64_t> Settings::OptionalInt(std::string_view key) const {
  const std::string& text = Text(key);
  if (text.empty()) return std::nullopt;
  if (FindOption(key)->type == OptionType::kSize) return ParseSize(text).value();
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::optional<double> Settings::OptionalNumber(std::string_view key) const {
  const std::string& text = Text(key);
  if (text.empty()) return std::nullopt;
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int64_t Settings::Int(std::string_view key) const {
  const std::optional<int64_t> value = OptionalInt(key);
  CHECK(value.has_value()) << key;
  return *value;
}

double Settings::Number(std::string_view key) const {
  const std::optional<double> value = OptionalNumber(key);
  CHECK(value.has_value()) << key;
  return *value;
}

std::string Settings::Print(bool with_server_options) const {
  std::string out;
  for (const OptionSpec& option : AllOptions()) {
    if (option.group != OptionGroup::kModel && !with_server_options) continue;
    const Value& value = Find(option.key);
    // A text option without a default is unset; other options are decided at start, as their help
    // describes.
    const bool decided = std::string_view(option.help).find("(default:") != std::string_view::npos;
    const bool plain = !decided && (option.type == OptionType::kText || IsList(option.type));
    const std::string text =
        value.text.empty() ? plain ? "(none)" : "(automatic)" : TomlValue(option, value.text);
    // An unset option is printed as a comment, because a file has no value for it.
    out += fmt::format("{:<24} = {:<16} # {}\n",
                       (value.text.empty() ? "# " : "") + std::string(option.key), text,
                       SourceName(value.source));
  }
  if (!with_server_options) return out;
  for (const TableFields& fields : project_fields_)
    out += PrintTable(kProjects, ProjectKeys(), fields);
  for (const TableFields& fields : alias_fields_) out += PrintTable(kAliases, AliasKeys(), fields);
  return out;
}

std::string EnvironmentText(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::map<std::string, std::string> TuttiEnvironment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    // An empty variable counts as unset, because files of compose and systemd leave a variable out
    // this way.
    if (text.starts_with("TUTTI_") && equals != std::string_view::npos &&
        equals + 1 < text.size()) {
      out[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
    }
  }
  return out;
}

}  // namespace tutti::app
