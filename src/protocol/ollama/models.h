// Ollama's API: the served models as /api/tags, /api/ps and /api/show list them, the version, and
// how a pull goes on. Field names are those of Ollama's api/types.go. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/model_library.h"
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

// Lines of POST /api/pull, each with its line feed: a step, and the bytes of a file.
std::string StatusLine(std::string_view status);
std::string BlobLine(const api::PullBlob& blob);

}  // namespace tutti::protocol::ollama
