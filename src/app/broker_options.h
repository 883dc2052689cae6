// The broker of a front and its workers on other machines, as the settings ([queue]) say it is.
#pragma once

#include <optional>
#include <string>

#include "app/settings.h"
#include "base/status.h"
#include "broker/brokers.h"

namespace tutti::app {

struct BrokerOptions {
  broker::Access access;
  std::string name;
};

// Nothing where broker.backend is store. Reads the password's file. Errors: invalid_value, of the
// option at fault.
Result<std::optional<BrokerOptions>> BrokerFromSettings(const Settings& settings);

// Of a front: the same after it was started again, another for each store. `folder`: where the
// store is; empty: a store in memory, and the id is of this process.
std::string FrontId(const std::string& folder);

}  // namespace tutti::app
