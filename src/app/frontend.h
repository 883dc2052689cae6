// Frontend: the process of `tutti serve --role frontend`: servers, store and services, while `tutti
// worker` processes run the models.
#pragma once

#include "app/settings.h"
#include "base/status.h"

namespace tutti::app {

// Serves the models of all connected workers until SIGTERM or SIGINT, drains, and returns. Workers
// may connect and disconnect at any time. Otherwise like Serve() (server.h).
//
// Flags for workers are refused (invalid_value); in a configuration file, which both processes may
// share, they are ignored.
Status ServeFrontend(const Settings& settings);

}  // namespace tutti::app
