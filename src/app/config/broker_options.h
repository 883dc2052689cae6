// Options of the broker between a frontend and workers on other machines, from the settings
// ([queue]).
#pragma once

#include <optional>
#include <string>

#include "app/config/settings.h"
#include "base/status.h"
#include "broker/brokers.h"

namespace tutti::app {

struct BrokerOptions {
  broker::Access access;
  std::string name;
};

// Returns nullopt if broker.backend is store. Reads the password file. Errors: invalid_value, for
// the option at fault.
Result<std::optional<BrokerOptions>> BrokerFromSettings(const Settings& settings);

// Id of a frontend, derived from the host name and the store's folder, so that it survives a
// restart. An empty `folder` (store in memory) gives a random id for this process.
std::string FrontId(const std::string& folder);

}  // namespace tutti::app
