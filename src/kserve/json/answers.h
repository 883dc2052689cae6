// Answers of KServe v2 over HTTP about the server and its models, as JSON. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kserve/model.h"
#include "kserve/repository.h"
#include "kserve/statistics.h"

namespace tutti::kserve {

std::string ServerMetadataBody(const ServerMetadata& metadata);
std::string ModelMetadataBody(const ModelConfig& config);
// As Triton shows the message ModelConfig: names in snake_case, enumerations by name, integers as
// numbers.
std::string ModelConfigBody(const ModelConfig& config);
std::string StatisticsBody(const std::vector<StatisticsSnapshot>& models);
std::string IndexBody(const std::vector<IndexEntry>& index);
// {"live": true} and its like; of a model also its "name", unless that is empty.
std::string TruthBody(std::string_view model, const char* what, bool holds);

}  // namespace tutti::kserve
