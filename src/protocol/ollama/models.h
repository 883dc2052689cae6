// Ollama's API: the served models as /api/tags, /api/ps and /api/show list them, and the version.
// Field names are those of Ollama's api/types.go. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"

namespace tutti::protocol::ollama {

// What Ollama's clients can ask of the model: completion, tools, insert, thinking, embedding.
std::vector<std::string_view> Capabilities(const api::ModelInfo& model);

// The name with the tag ":latest", unless it has a tag.
std::string TaggedName(std::string_view name);

std::string TagsBody(std::span<const api::ModelInfo> models);     // GET /api/tags
std::string RunningBody(std::span<const api::ModelInfo> models);  // GET /api/ps
std::string ShowBody(const api::ModelInfo& model);                // POST /api/show
// GET /api/version: the version of Ollama's API that this server follows, on which clients decide
// what they use, and that of this server.
std::string VersionBody(std::string_view server);

}  // namespace tutti::protocol::ollama
