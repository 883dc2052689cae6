// What the operator's commands ask of a store: keys, users, usage. By a server's control socket, or
// by a command that has the store itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "app/caches.h"
#include "services/auth/authority.h"
#include "store/store.h"

namespace tutti::app {

// One JSON object to another (services/auth/control.h, services/usage/control.h). Waits for the
// disk, and for the hash of a password.
std::string AnswerControl(store::Store& store, auth::Authority& authority,
                          std::string_view request);

// What a server alone can answer: {"ok":true,"models":["..."]}, those of the gateway that are
// served now.
inline constexpr std::string_view kModelsRequest = R"({"op":"models.list"})";
std::string ModelsAnswer(const std::vector<api::ModelInfo>& models);

// {"op":"cache.flush","tenant":"..."}, without a tenant of all: {"ok":true,"answers":n}, so many
// were kept, rows of encoders among them. Where nothing is kept, as without a server, it is
// refused.
bool IsCacheRequest(std::string_view request);
std::string AnswerCacheControl(const Caches& caches, std::string_view request);

}  // namespace tutti::app
