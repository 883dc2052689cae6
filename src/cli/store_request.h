// StoreRequest: how a command over the store (`tutti keys`, `tutti users`) asks. The server that
// holds the store answers through its control socket; without one the command opens the store and
// answers itself, the same request in the same words (app/control.h).
#pragma once

#include <string>

#include "base/status.h"
#include "cli/command_line.h"
#include "wire/json.h"

namespace tutti::cli {

class StoreRequest {
 public:
  // --store, --config, --json.
  void AddTo(CLI::App& command);

  // The object of an answer that says yes. Waits. Errors: what a refusal says; those of the
  // settings; store_locked, with its process id, where who has the store does not answer.
  Result<wire::JsonDocument> Ask(const std::string& request) const;

  bool json() const { return json_; }

 private:
  SettingsOptions options_;
  bool json_ = false;
};

}  // namespace tutti::cli
