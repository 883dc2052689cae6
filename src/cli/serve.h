// The command for a server that cannot start because another one on this machine holds its store:
// what the user typed, with a store and free ports of its own. Pure; any thread.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "app/config/settings.h"

namespace tutti::cli {

// An option as typed: its key and value.
using TypedOption = std::pair<std::string, std::string>;

// Whether `port` of this machine can be listened to at `host`. Opens and closes a socket.
bool PortIsFree(const std::string& host, int64_t port);

// `typed`: options in any order; a store among them is replaced. Ports of `settings` that
// `is_free` denies are raised to the next that is free.
std::string SecondServerCommand(
    const std::vector<std::string>& models, const std::vector<TypedOption>& typed,
    const app::Settings& settings,
    const std::function<bool(const std::string& host, int64_t port)>& is_free);

}  // namespace tutti::cli
