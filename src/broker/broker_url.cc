#include "broker/broker_url.h"

#include <charconv>
#include <optional>

namespace tutti::broker {
namespace {

constexpr const char* kForm =
    "is no address of a broker: write amqp://HOST[:PORT][/VHOST], amqps://HOST or "
    "redis://HOST[:PORT][/DATABASE]";

Status Bad(const char* what) { return InvalidArgument("invalid_value", what); }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return std::nullopt;
    out += c;
  }
  return out;
}

template <typename Number>
std::optional<Number> NumberOf(std::string_view digits, Number most) {
  if (digits.starts_with('-')) return std::nullopt;
  Number number = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (ec != std::errc() || end != digits.data() + digits.size() || number > most)
    return std::nullopt;
  return number;
}

bool TakePrefix(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

}  // namespace

Result<BrokerUrl> ParseBrokerUrl(std::string_view url) {
  BrokerUrl out;
  if (TakePrefix("amqp://", &url)) {
    out.port = 5672;
  } else if (TakePrefix("amqps://", &url)) {
    out.tls = true;
    out.port = 5671;
  } else if (TakePrefix("redis://", &url)) {
    out.kind = BrokerKind::kRedis;
    out.port = 6379;
    out.space = "0";
  } else if (url.starts_with("rediss://")) {
    return Bad("rediss:// is not spoken: put a TLS tunnel before Redis, and name its near end");
  } else {
    return Bad(kForm);
  }
  const size_t slash = url.find('/');
  std::string_view place = url.substr(0, slash);
  if (const size_t at = place.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = place.substr(0, at);
    place.remove_prefix(at + 1);
    if (user.find(':') != std::string_view::npos)
      return Bad(
          "a password does not belong into the address: broker.password_file names its file");
    const auto name = Unescaped(user);
    if (!name.has_value() || name->empty()) return Bad(kForm);
    out.user = *name;
  }
  std::string_view port;
  if (TakePrefix("[", &place)) {
    const size_t end = place.find(']');
    if (end == std::string_view::npos) return Bad(kForm);
    out.host = place.substr(0, end);
    port = place.substr(end + 1);
    if (!port.empty() && !TakePrefix(":", &port)) return Bad(kForm);
    if (port.empty() && place.ends_with(':')) return Bad(kForm);
  } else {
    const size_t colon = place.find(':');
    out.host = place.substr(0, colon);
    if (colon != std::string_view::npos) {
      port = place.substr(colon + 1);
      if (port.empty()) return Bad(kForm);
    }
  }
  for (const char c : out.host) {
    if (c <= ' ' || c == 0x7F || c == '?' || c == '#' || c == '%') return Bad(kForm);
  }
  if (out.host.empty()) return Bad(kForm);
  if (!port.empty()) {
    const auto number = NumberOf<int>(port, 65'535);
    if (!number.has_value() || *number < 1) return Bad(kForm);
    out.port = *number;
  }
  if (slash == std::string_view::npos || slash + 1 == url.size()) return out;
  const std::string_view space = url.substr(slash + 1);
  if (space.find_first_of("/?#") != std::string_view::npos) return Bad(kForm);
  const auto name = Unescaped(space);
  if (!name.has_value()) return Bad(kForm);
  if (out.kind == BrokerKind::kRedis && !NumberOf<int>(*name, 1 << 20)) return Bad(kForm);
  if (name->size() > 255) return Bad(kForm);
  out.space = *name;
  return out;
}

std::string ShownUrl(const BrokerUrl& url) {
  const char* scheme = url.kind == BrokerKind::kRedis ? "redis://"
                       : url.tls                      ? "amqps://"
                                                      : "amqp://";
  const bool v6 = url.host.find(':') != std::string::npos;
  return scheme + (v6 ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port);
}

}  // namespace tutti::broker
