// Settings: the value and the source of every option. Precedence: flag, environment, file, default.
// Immutable after Resolve(); any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/mqtt_projects.h"
#include "app/config/options.h"
#include "app/config/tables.h"
#include "base/status.h"
#include "services/aliases/aliases.h"

namespace tutti::app {

enum class Source { kDefault, kFile, kEnvironment, kFlag };

class Settings {
 public:
  struct Inputs {
    std::map<std::string, std::string> flags;        // option key -> text
    std::map<std::string, std::string> environment;  // TUTTI_* variables as they are
    std::string file;                                // path of a TOML file, or empty
    std::string flags_name = "command line";         // what messages call the source of `flags`
  };

  // Checks all values of all sources, and rejects unknown keys. An error is a configuration error
  // (exit status 78); its message names the source and, for a typo, the nearest key.
  static Result<Settings> Resolve(const Inputs& inputs);

  const std::string& Text(std::string_view key) const;
  bool IsSet(std::string_view key) const { return !Text(key).empty(); }
  bool On(std::string_view key) const { return Text(key) == "on"; }
  int64_t Int(std::string_view key) const;  // kInt and kSize; CHECKs that it is set
  double Number(std::string_view key) const;
  std::optional<int64_t> OptionalInt(std::string_view key) const;
  std::optional<double> OptionalNumber(std::string_view key) const;
  Source SourceOf(std::string_view key) const;
  // The [[mqtt.project]] tables of the file, in order; other sources cannot define projects.
  const std::vector<MqttProject>& mqtt_projects() const { return mqtt_projects_; }
  // The [[alias]] tables of the file, in order.
  const std::vector<aliases::Alias>& aliases() const { return aliases_; }
  // Resolves the same inputs again; the file may have changed. Errors: as Resolve().
  Result<Settings> Reread() const { return Resolve(inputs_); }
  // The keys whose values differ from those of `before`, "mqtt.project" and "alias" for the tables.
  std::vector<std::string> ChangesSince(const Settings& before) const;
  // Ignored variables that an orchestrator sets for a service called "tutti" (TUTTI_SERVICE_HOST).
  const std::vector<std::string>& ignored() const { return ignored_; }

  // TOML text of the options of these groups, with the source of each value as a comment, and then
  // the projects. Used as a configuration file it gives the same settings.
  std::string Print(bool with_server_options) const;

 private:
  struct Value {
    std::string text;
    Source source = Source::kDefault;
  };
  const Value& Find(std::string_view key) const;
  Inputs inputs_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::string> ignored_;
  std::vector<TableFields> project_fields_, alias_fields_;
  std::vector<MqttProject> mqtt_projects_;
  std::vector<aliases::Alias> aliases_;
};

// A variable of this process's environment; "" if it is not set.
std::string EnvironmentText(const char* name);
// The TUTTI_* variables of this process.
std::map<std::string, std::string> TuttiEnvironment();

}  // namespace tutti::app
