#include "app/webhook_options.h"

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <utility>

#include "app/options.h"
#include "services/webhooks/signature.h"

namespace tutti::app {
namespace {

constexpr const char* kFile = "jobs.webhook_secret_file";
// Two, while the one replaces the other.
constexpr size_t kMaxSecrets = 2;

Status BadSecret(std::string why) {
  return InvalidArgument("invalid_value", std::move(why)).WithParam(kFile);
}

}  // namespace

Result<webhooks::Webhooks::Options> WebhookOptions(const Settings& settings) {
  webhooks::Webhooks::Options options;
  const std::string& path = settings.Text(kFile);
  if (path.empty()) {
    return BadSecret(
        "jobs.webhooks needs a signing secret: `echo whsec_$(openssl rand -base64 32) > FILE; "
        "chmod 600 FILE` and jobs.webhook_secret_file = FILE");
  }
  struct stat known {};
  if (stat(path.c_str(), &known) != 0) return BadSecret(path + " cannot be read");
  if ((known.st_mode & 077) != 0)
    return BadSecret("others than its owner may read " + path + "; chmod 600 " + path);
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty()) continue;
    Result<std::string> secret = webhooks::ReadSecret(line);
    if (!secret.ok()) return BadSecret(path + ": " + secret.status().message());
    options.secrets.push_back(*std::move(secret));
  }
  if (options.secrets.empty() || options.secrets.size() > kMaxSecrets)
    return BadSecret(path +
                     " must hold one secret, or two while one replaces the other, a line each");
  for (const std::string& host : SplitList(settings.Text("jobs.webhook_hosts")))
    options.trusted.insert(host);
  options.ca_file = settings.Text("jobs.webhook_ca_file");
  if (!options.ca_file.empty() && stat(options.ca_file.c_str(), &known) != 0) {
    return InvalidArgument("invalid_value", options.ca_file + " cannot be read")
        .WithParam("jobs.webhook_ca_file");
  }
  return options;
}

}  // namespace tutti::app
