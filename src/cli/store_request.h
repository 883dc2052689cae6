// StoreRequest: sends a request of a command (`tutti keys`, `tutti users`) to the store. If a
// server holds the store, it answers through its control socket; otherwise the command opens the
// store and answers the same request itself (app/control.h).
#pragma once

#include <string>

#include "base/status.h"
#include "cli/command_line.h"
#include "protocol/json/json.h"

namespace tutti::cli {

class StoreRequest {
 public:
  // Declares --store, --config, --json.
  void AddTo(CLI::App& command);

  // What to do without a store: only commands that add something create one.
  enum class Absent { kRefuse, kMake };

  // Returns the object of a successful answer. Blocks. Errors: those of a refusal; those of the
  // settings; not_found if there is no store; store_locked, with the process id, if the process
  // that holds the store does not answer.
  Result<protocol::JsonDocument> Ask(const std::string& request,
                                     Absent absent = Absent::kRefuse) const;

  bool json() const { return json_; }

 private:
  SettingsOptions options_;
  bool json_ = false;
};

}  // namespace tutti::cli
