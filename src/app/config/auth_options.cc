#include "app/config/auth_options.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "server/access/key_file.h"

namespace tutti::app {
namespace {

constexpr size_t kMaxFileBytes = 16384;

}  // namespace

Result<std::string> ReadOptionFile(const char* option, const std::string& path, bool secret) {
  const auto bad = [&](const char* why) {
    return BadValue(option, std::string(option) + " " + path + " " + why);
  };
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return bad("is no readable file");
  if (secret && (info.st_mode & (S_IROTH | S_IRGRP)) != 0)
    return bad("can be read by others: chmod 600 it");
  if (static_cast<size_t>(info.st_size) > kMaxFileBytes) return bad("is longer than 16 KiB");
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return bad("cannot be read");
  if (secret && text.ends_with('\n')) text.pop_back();
  return text;
}

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

Result<auth::Authenticator::Options> AuthOptions(const Settings& settings,
                                                 const std::string& configured_key) {
  auth::Authenticator::Options options;
  options.configured_key = configured_key;
  options.client_certificates = settings.IsSet("tls-client-ca");
  if (settings.Text("tls-client-auth") == "required" && !options.client_certificates)
    return BadValue("tls-client-ca",
                    "--tls-client-auth required also needs --tls-client-ca: whose "
                    "certificates are to be shown?");
  for (const char* const option : {"auth.jwt_audience", "auth.jwt_key_file",
                                   "auth.jwt_tenant_claim", "auth.jwt_scope_claim"}) {
    if (settings.IsSet(option) && !settings.IsSet("auth.jwt_issuer"))
      return BadValue("auth.jwt_issuer", std::string("without auth.jwt_issuer ") + option +
                                             " means nothing: whose tokens are they?");
  }
  if (!settings.IsSet("auth.jwt_issuer")) return options;
  for (const char* const option : {"auth.jwt_audience", "auth.jwt_key_file"}) {
    if (!settings.IsSet(option))
      return BadValue(option, std::string("auth.jwt_issuer needs ") + option + " as well");
  }
  auth::JwtIssuer issuer;
  issuer.issuer = settings.Text("auth.jwt_issuer");
  issuer.audience = settings.Text("auth.jwt_audience");
  const auto algorithm = auth::FindJwtAlgorithm(settings.Text("auth.jwt_algorithm"));
  CHECK(algorithm.has_value());  // one of the table's choices
  issuer.algorithm = *algorithm;
  issuer.tenant_claim = settings.Text("auth.jwt_tenant_claim");
  issuer.scope_claim = settings.Text("auth.jwt_scope_claim");
  for (const std::string_view part : SplitAt(settings.Text("auth.jwt_key_file"), ',')) {
    ASSIGN_OR_RETURN(std::string key,
                     ReadOptionFile("auth.jwt_key_file", std::string(part),
                                    issuer.algorithm == auth::JwtAlgorithm::kHs256));
    issuer.keys.push_back(std::move(key));
  }
  // Checked here, so that an invalid issuer is refused before any resource is opened.
  if (Status status = auth::JwtVerifier::Create(issuer).status(); !status.ok())
    return std::move(status).WithParam("auth.jwt_key_file");
  options.issuers.push_back(std::move(issuer));
  return options;
}

}  // namespace tutti::app
