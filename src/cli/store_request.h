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

  // What becomes of a folder without a store: only what puts something into it makes one there.
  enum class Absent { kRefuse, kMake };

  // The object of an answer that says yes. Waits. Errors: what a refusal says; those of the
  // settings; not_found where there is no store; store_locked, with its process id, where who has
  // the store does not answer.
  Result<wire::JsonDocument> Ask(const std::string& request, Absent absent = Absent::kRefuse) const;

  bool json() const { return json_; }

 private:
  SettingsOptions options_;
  bool json_ = false;
};

}  // namespace tutti::cli
