#include "app/auth_options.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::app {
namespace {

constexpr size_t kMostKeyBytes = 16384;

Status Bad(const char* option, std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam(option);
}

// A key as it stands in its file; of a secret without one line end, which editors add.
Result<std::string> ReadKeyFile(const std::string& path, bool secret) {
  const auto bad = [&](const char* why) {
    return Bad("auth.jwt_key_file", "--auth-jwt-key-file " + path + " " + why);
  };
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return bad("is no readable file");
  if (secret && (info.st_mode & (S_IROTH | S_IRGRP)) != 0)
    return bad("can be read by others: chmod 600 it");
  if (static_cast<size_t>(info.st_size) > kMostKeyBytes) return bad("is longer than 16 KiB");
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return bad("cannot be read");
  if (secret && text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

}  // namespace

Result<auth::Authority::Options> AuthOptions(const Settings& settings,
                                             const std::string& configured_key) {
  auth::Authority::Options options;
  options.configured_key = configured_key;
  options.client_certificates = settings.IsSet("tls-client-ca");
  if (settings.Text("tls-client-auth") == "required" && !options.client_certificates)
    return Bad("tls-client-ca",
               "--tls-client-auth required needs --tls-client-ca beside it: whose "
               "certificates are to be shown?");
  for (const char* const option : {"auth.jwt_audience", "auth.jwt_key_file",
                                   "auth.jwt_tenant_claim", "auth.jwt_scope_claim"}) {
    if (settings.IsSet(option) && !settings.IsSet("auth.jwt_issuer"))
      return Bad("auth.jwt_issuer", std::string("without auth.jwt_issuer ") + option +
                                        " means nothing: whose tokens are they?");
  }
  if (!settings.IsSet("auth.jwt_issuer")) return options;
  for (const char* const option : {"auth.jwt_audience", "auth.jwt_key_file"}) {
    if (!settings.IsSet(option))
      return Bad(option, std::string("auth.jwt_issuer needs ") + option + " beside it");
  }
  auth::JwtIssuer issuer;
  issuer.issuer = settings.Text("auth.jwt_issuer");
  issuer.audience = settings.Text("auth.jwt_audience");
  const auto algorithm = auth::FindJwtAlgorithm(settings.Text("auth.jwt_algorithm"));
  CHECK(algorithm.has_value());  // one of the table's choices
  issuer.algorithm = *algorithm;
  issuer.tenant_claim = settings.Text("auth.jwt_tenant_claim");
  issuer.scope_claim = settings.Text("auth.jwt_scope_claim");
  for (const std::string& path : SplitAtCommas(settings.Text("auth.jwt_key_file"))) {
    ASSIGN_OR_RETURN(std::string key,
                     ReadKeyFile(path, issuer.algorithm == auth::JwtAlgorithm::kHs256));
    issuer.keys.push_back(std::move(key));
  }
  // Here, so that it is refused as a bad value before anything is opened.
  if (Status status = auth::JwtVerifier::Create(issuer).status(); !status.ok())
    return std::move(status).WithParam("auth.jwt_key_file");
  options.issuers.push_back(std::move(issuer));
  return options;
}

}  // namespace tutti::app
