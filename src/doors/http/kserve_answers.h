// Answers of KServe v2 over HTTP about the server and its models, as JSON. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "kserve/model.h"
#include "kserve/repository.h"
#include "kserve/statistics.h"

namespace tutti::http {

std::string ServerMetadataBody(const kserve::ServerMetadata& metadata);
std::string ModelMetadataBody(const kserve::ModelConfig& config);
// As Triton shows the message ModelConfig: names in snake_case, enumerations by name, integers as
// numbers.
std::string ModelConfigBody(const kserve::ModelConfig& config);
std::string StatisticsBody(const std::vector<kserve::StatisticsSnapshot>& models);
std::string IndexBody(const std::vector<kserve::IndexEntry>& index);

}  // namespace tutti::http
