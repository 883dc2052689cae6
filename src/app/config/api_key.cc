#include "app/config/api_key.h"

#include <cstdio>
#include <cstdlib>

#include "server/access/key_file.h"

namespace tutti::app {

Result<std::string> ApiKey(const std::string& file) {
  const char* const variable = std::getenv("TUTTI_API_KEY");
  if (!file.empty()) {
    Result<std::string> key = access::ReadApiKeyFile(file);
    if (key.ok() && variable != nullptr && *key != variable) {
      std::fprintf(stderr,
                   "tutti: the key of --api-key-file is used; TUTTI_API_KEY holds another one\n");
    }
    return key;
  }
  if (variable != nullptr) return access::CheckApiKey(variable, "TUTTI_API_KEY");
  return std::string();
}

}  // namespace tutti::app
