#include "app/api_key.h"

#include <cstdlib>

#include "doors/http/http_door.h"

namespace tutti::app {

Result<std::string> ApiKey(const std::string& file) {
  if (!file.empty()) return http::ReadApiKeyFile(file);
  if (const char* key = std::getenv("TUTTI_API_KEY"); key != nullptr)
    return http::CheckApiKey(key, "TUTTI_API_KEY");
  return std::string();
}

}  // namespace tutti::app
