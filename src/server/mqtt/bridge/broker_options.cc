#include "server/mqtt/bridge/broker_options.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/url.h"
#include "mqtt/link/link.h"
#include "mqtt/message_packet.h"
#include "mqtt/topics.h"
#include "server/net/tls.h"

namespace tutti::mqtt::bridge {
namespace {

using std::chrono::seconds;

constexpr size_t kMaxPasswordBytes = 4096;
constexpr size_t kMaxClientIdBytes = 128;
constexpr size_t kMaxWillBytes = 65'535;  // of its payload; so much for all of it

Status CheckTls(const BridgeOptions& options, const Address& broker) {
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    return BadValue("mqtt.cert_file", "mqtt.cert_file and mqtt.key_file must be set together");
  }
  if (broker.tls) return OkStatus();
  if (!options.tls_ca_file.empty() || !options.tls_cert_file.empty()) {
    return BadValue(
        "mqtt.url",
        "mqtt.ca_file and mqtt.cert_file need TLS; set mqtt.url to mqtts://" + broker.host);
  }
  if (!IsLoopback(broker.host)) {
    return BadValue("mqtt.url", "the connection to broker " + broker.host +
                                    " would be unencrypted; mqtt.url must be mqtts://" +
                                    broker.host + " (mqtt:// is for loopback only)");
  }
  return OkStatus();
}

}  // namespace

Result<Address> CheckOptions(const BridgeOptions& options) {
  Result<Address> parsed = ParseAddress(options.broker);
  if (!parsed.ok()) return std::move(parsed).status().WithParam("mqtt.url");
  const Address& broker = *parsed;
  RETURN_IF_ERROR(CheckTls(options, broker));
  if (!IsPlainText(options.client_id, kMaxClientIdBytes, "-_.:")) {
    return BadValue(
        "mqtt.client_id",
        "mqtt.client_id must have 1 to 128 letters, digits, '_', '.', ':' or '-'; the broker "
        "keeps messages under it");
  }
  if (!IsMqttText(options.username)) {
    return BadValue("mqtt.username", "mqtt.username must be UTF-8 of at most 65,535 bytes");
  }
  if (options.username.empty() != options.password_file.empty()) {
    return BadValue("mqtt.username", "mqtt.username and mqtt.password_file must be set together");
  }
  if (options.keep_alive < seconds(5) || options.keep_alive > seconds(300)) {
    return BadValue("mqtt.keepalive_s", "mqtt.keepalive_s must be 5 to 300");
  }
  for (const size_t bytes : {options.packet_bytes, options.publish_bytes}) {
    if (bytes < 1024 || bytes > (256u << 20)) {
      return BadValue("mqtt.packet_bytes", "mqtt.packet_bytes must be 1 KiB to 256 MiB");
    }
  }
  for (const uint16_t window : {options.in_flight, options.receive_maximum}) {
    if (window < 1 || window > 10'000)
      return BadValue("mqtt.inflight", "mqtt.inflight must be 1 to 10000");
  }
  if (options.will) {
    Status status = CheckMessage(*options.will, kMaxWillBytes);
    if (!status.ok()) return std::move(status).WithContext("the will");
  }
  return parsed;
}

Result<Credentials> ReadCredentials(const BridgeOptions& options) {
  Credentials credentials;
  credentials.username = options.username;
  if (options.password_file.empty()) return credentials;
  const std::string& path = options.password_file;
  const auto bad = [&](const std::string& why) {
    return BadValue("mqtt.password_file", "mqtt.password_file " + path + " " + why);
  };
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return bad("is not a readable file");
  if ((info.st_mode & (S_IRWXO | S_IRGRP)) != 0) {
    return bad("can be read by others: chmod 600 it");
  }
  std::ifstream file(path, std::ios::binary);
  std::string line(kMaxPasswordBytes + 2, '\0');
  if (!file) return bad("cannot be read");
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<size_t>(file.gcount()));
  line.resize(std::min(line.find('\n'), line.size()));
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty()) return bad("holds no password in its first line");
  if (line.size() > kMaxPasswordBytes) return bad("holds a password of more than 4096 bytes");
  credentials.password = std::move(line);
  credentials.has_password = true;
  return credentials;
}

Result<std::shared_ptr<boost::asio::ssl::context>> MakeTls(const BridgeOptions& options) {
  Result<std::shared_ptr<boost::asio::ssl::context>> context = MakeLinkTls(options.tls_ca_file);
  if (!context.ok()) return std::move(context).status().WithParam("mqtt.ca_file");
  if (options.tls_cert_file.empty()) return context;
  RETURN_IF_ERROR(sockets::UseCertificate(**context, {.cert_file = options.tls_cert_file,
                                                      .key_file = options.tls_key_file,
                                                      .cert_option = "mqtt.cert_file",
                                                      .key_option = "mqtt.key_file"}));
  return context;
}

}  // namespace tutti::mqtt::bridge
