#include "app/config/remote_options.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <utility>

#include "app/config/auth_options.h"
#include "base/random.h"
#include "base/url.h"
#include "cluster/channel/mailbox_names.h"

namespace tutti::app {
namespace {

Status BadBroker(const char* key, std::string why) {
  return InvalidArgument("invalid_value", std::string(key) + " " + std::move(why)).WithParam(key);
}

Status CheckUnused(const Settings& settings) {
  for (const char* const key :
       {"broker.url", "broker.name", "broker.password_file", "broker.ca_file", "broker.plain"}) {
    if (settings.SourceOf(key) != Source::kDefault)
      return BadBroker(key, "is for a broker: it needs broker.backend = rabbitmq or redis");
  }
  return OkStatus();
}

}  // namespace

Result<std::optional<BrokerOptions>> BrokerFromSettings(const Settings& settings) {
  const std::string backend = settings.Text("broker.backend");
  if (backend == "store") {
    RETURN_IF_ERROR(CheckUnused(settings));
    return std::optional<BrokerOptions>();
  }
  if (!settings.IsSet("broker.url"))
    return BadBroker("broker.url", "says where the broker is, and is missing");
  BrokerOptions options;
  Result<broker::BrokerUrl> url = broker::ParseBrokerUrl(settings.Text("broker.url"));
  if (!url.ok()) return BadBroker("broker.url", url.status().message());
  options.access.url = *std::move(url);
  const bool redis = options.access.url.kind == broker::BrokerKind::kRedis;
  if (!redis && !broker::RabbitMqIsBuilt()) {
    return BadBroker("broker.backend",
                     "= rabbitmq cannot be used: this program was built without it "
                     "(TUTTI_RABBITMQ=OFF)");
  }
  if (redis != (backend == "redis")) {
    return BadBroker("broker.url", redis ? "names a Redis: set broker.backend = redis"
                                         : "names a RabbitMQ: set broker.backend = rabbitmq");
  }
  if (!options.access.url.tls && !IsLoopback(options.access.url.host) &&
      !settings.On("broker.plain")) {
    return BadBroker("broker.url",
                     "names another machine without TLS: use amqps://, a TLS tunnel, or "
                     "broker.plain = on");
  }
  options.name = settings.Text("broker.name");
  if (const Status status = cluster::CheckQueueName(options.name); !status.ok())
    return BadBroker("broker.name", "is not a valid name: " + status.message());
  if (settings.IsSet("broker.password_file")) {
    ASSIGN_OR_RETURN(options.access.password,
                     ReadOptionFile("broker.password_file", settings.Text("broker.password_file"),
                                    /*secret=*/true));
  }
  if (settings.IsSet("broker.ca_file")) {
    options.access.ca_file = settings.Text("broker.ca_file");
    struct stat info {};
    if (!options.access.url.tls) return BadBroker("broker.ca_file", "is for amqps:// alone");
    if (stat(options.access.ca_file.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
      return BadBroker("broker.ca_file", options.access.ca_file + " is not a readable file");
  }
  return std::optional(std::move(options));
}

std::string FrontId(const std::string& folder) {
  if (folder.empty()) return NewId("");
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::error_code ignored;
  const std::string place = std::filesystem::weakly_canonical(folder, ignored).string();
  return std::to_string(std::hash<std::string>()(std::string(host.data()) + ":" + place));
}

Result<std::optional<redis::ConnectionOptions>> RedisFrom(const Settings& settings,
                                                          const std::string& prefix) {
  const std::string address = prefix + ".redis", password = address + "_password_file";
  const auto bad = [](const std::string& option, const std::string& why) {
    return InvalidArgument("invalid_value", why).WithParam(option);
  };
  if (!settings.IsSet(address)) {
    if (!settings.IsSet(password)) return std::optional<redis::ConnectionOptions>();
    return bad(password, password + " means nothing without " + address);
  }
  redis::ConnectionOptions options;
  Result<redis::RedisUrl> url = redis::ParseRedisUrl(settings.Text(address));
  if (!url.ok()) return std::move(url).status().WithContext(address).WithParam(address);
  options.url = *std::move(url);
  if (!IsLoopback(options.url.host)) {
    return bad(address, "traffic to the Redis server at " + options.url.host +
                            " would cross a network in the clear: let " + address +
                            " name the near end of a TLS tunnel on this machine");
  }
  if (settings.IsSet(password)) {
    ASSIGN_OR_RETURN(options.password,
                     ReadOptionFile(password.c_str(), settings.Text(password), true));
    if (options.password.empty()) return bad(password, password + " holds no password");
  }
  return std::optional(std::move(options));
}

}  // namespace tutti::app
