#include "test_paths.h"

#include <cstdlib>

namespace tutti::support {
namespace {

// A variable that is set to nothing counts as not set.
std::string Environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::string CachedModel(const std::string& name) {
  const std::string cache = Environment("TUTTI_CACHE", Environment("HOME", "") + "/.cache/tutti");
  return cache + "/models/" + name;
}

}  // namespace

std::string SourcePath(const std::string& relative) {
  return Environment("TUTTI_SOURCE_DIR", ".") + "/" + relative;
}

std::string DefaultModelPath() {
  return Environment("TUTTI_TEST_MODEL", CachedModel("SmolLM2-135M-Instruct.Q4_1.gguf"));
}

std::string KnownModelPath(const std::string& name) { return CachedModel(name); }

}  // namespace tutti::support
