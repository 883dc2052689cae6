// Configuration of the projects of the MQTT project profile ([[mqtt.project]]): the table of its
// keys, from which the checks, --print-config and the documentation are made, and the values. Plain
// values; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "app/config/tables.h"
#include "base/status.h"
#include "services/limits/rate.h"

namespace tutti::app {

struct MqttProject {
  std::string name;           // a level of its topics
  std::string model;          // empty: the first that generates
  std::string system_prompt;  // empty: the one that its clients have set, if any
  bool json = false;          // reply_format
  bool stream = false;
  limits::Window rate;  // of one session; a limit of 0: none
  bool enabled = true;
};

std::span<const TableKey> ProjectKeys();

// Reads the projects of all tables, in order. `prefix` is the topic prefix of the native profile,
// which no project may use. Errors: invalid_value, unknown_parameter; the message names the table
// and the key.
Result<std::vector<MqttProject>> MakeProjects(const std::vector<TableFields>& tables,
                                              const std::string& prefix);

// The enabled projects.
std::vector<MqttProject> Enabled(std::vector<MqttProject> projects);

// A model that `tutti serve` will serve.
struct ServedName {
  std::string name;
  bool generates = false;
};
// Checks that the models of all enabled projects are served and generate text. Errors:
// invalid_value, with the project, its model and the served models.
Status CheckProjectModels(const std::vector<MqttProject>& projects,
                          const std::vector<ServedName>& served);

// "20/60s" -> 20 within 60 s; s, m or h. "off" -> none. Errors: invalid_value.
Result<limits::Window> ParseRate(std::string_view text);

}  // namespace tutti::app
