// Front: the process behind `tutti serve --role front`: doors, store and services, with the models
// in `tutti worker` processes.
#pragma once

#include "app/settings.h"
#include "base/status.h"

namespace tutti::app {

// Serves whatever models workers bring, until SIGTERM or SIGINT, drains, and returns. Workers may
// come and go meanwhile. As Serve() (server.h) otherwise.
//
// Flags that are a worker's are refused (invalid_value); in a file, which both may read, they mean
// nothing here.
Status ServeFront(const Settings& settings);

}  // namespace tutti::app
