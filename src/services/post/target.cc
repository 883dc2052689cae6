#include "services/post/target.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/addresses.h"
#include "base/ascii.h"
#include "base/threads.h"
#include "base/url.h"

namespace tutti::post {
namespace {

struct Range {
  std::array<uint8_t, 16> prefix;
  int bits;
};

bool Within(std::span<const uint8_t> address, std::span<const uint8_t> prefix, int bits) {
  for (int i = 0; i < bits; ++i) {
    const auto byte = static_cast<size_t>(i / 8);
    const int shift = 7 - i % 8;
    if (((address[byte] ^ prefix[byte]) >> shift & 1) != 0) return false;
  }
  return true;
}

constexpr Range kNotPublic4[] = {{{0}, 8},
                                 {{10}, 8},
                                 {{100, 64}, 10},
                                 {{127}, 8},
                                 {{169, 254}, 16},
                                 {{172, 16}, 12},
                                 {{192, 0, 0}, 24},
                                 {{192, 0, 2}, 24},
                                 {{192, 88, 99}, 24},
                                 {{192, 168}, 16},
                                 {{198, 18}, 15},
                                 {{198, 51, 100}, 24},
                                 {{203, 0, 113}, 24},
                                 {{224}, 4},
                                 {{240}, 4}};

bool IsPublic4(std::span<const uint8_t> address) {
  return std::none_of(std::begin(kNotPublic4), std::end(kNotPublic4), [&](const Range& range) {
    return Within(address, range.prefix, range.bits);
  });
}

// The IPv4 address that an IPv6 one stands for, or nothing.
std::optional<std::array<uint8_t, 4>> Embedded(std::span<const uint8_t> address) {
  const auto four = [&](size_t at) {
    return std::array<uint8_t, 4>{address[at], address[at + 1], address[at + 2], address[at + 3]};
  };
  constexpr Range kMapped{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96};
  constexpr Range kNat64{{0x00, 0x64, 0xff, 0x9b}, 96};
  constexpr Range kLocalNat64{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48};
  constexpr Range k6to4{{0x20, 0x02}, 16};
  for (const Range& range : {kMapped, kNat64, kLocalNat64}) {
    if (Within(address, range.prefix, range.bits)) return four(12);
  }
  if (Within(address, k6to4.prefix, k6to4.bits)) return four(2);
  return std::nullopt;
}

Status Bad(std::string why) {
  return BadValue("x-tutti-webhook", "the webhook's address " + std::move(why));
}

bool IsHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

bool IsAddress(const std::string& host) {
  std::array<uint8_t, 16> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

bool IsPublic(std::span<const uint8_t> address) {
  if (address.size() == 4) return IsPublic4(address);
  if (address.size() != 16) return false;
  if (const auto four = Embedded(address)) return IsPublic4(*four);
  // Global unicast is 2000::/3; of it the ranges for documentation, Teredo and protocols are not.
  constexpr Range kGlobal{{0x20}, 3};
  constexpr Range kProtocols{{0x20, 0x01, 0x00}, 23};
  constexpr Range kDocumentation{{0x20, 0x01, 0x0d, 0xb8}, 32};
  constexpr Range kDocumentation2{{0x3f, 0xff}, 20};
  const auto in = [&](const Range& range) { return Within(address, range.prefix, range.bits); };
  return in(kGlobal) && !in(kProtocols) && !in(kDocumentation) && !in(kDocumentation2);
}

bool MayBePublic(const std::string& host) {
  std::array<uint8_t, 16> bytes{};
  if (inet_pton(AF_INET, host.c_str(), bytes.data()) == 1)
    return IsPublic(std::span(bytes).first(4));
  if (inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1) return IsPublic(bytes);
  return true;
}

Result<Target> ParseTarget(std::string_view url, const std::set<std::string>& trusted) {
  if (url.size() > kMaxUrlBytes) return Bad("is longer than 2048 bytes");
  for (const char c : url) {
    if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f)
      return Bad("may hold printable ASCII alone; encode what is not");
  }
  Url parts;
  const UrlFault fault = ParseUrl(url, &parts);
  if (parts.scheme != "https" && parts.scheme != "http") return Bad("must begin with https://");
  if (url.find('#') != std::string_view::npos) return Bad("may have no fragment");
  if (parts.user.has_value()) return Bad("may have no user name");
  if (fault == UrlFault::kOpenBracket) return Bad("has an IPv6 address without ']'");
  std::array<uint8_t, 16> bytes{};
  if (parts.bracketed && inet_pton(AF_INET6, std::string(parts.host).c_str(), bytes.data()) != 1)
    return Bad("has no IPv6 address between its brackets");
  if (fault == UrlFault::kAfterBracket) return Bad("has no port behind its IPv6 address");
  if (fault == UrlFault::kColons || fault == UrlFault::kPort) return Bad("has an invalid port");
  Target target{.tls = parts.scheme == "https",
                .host = AsciiLower(parts.host),
                .path = std::string(parts.path) + std::string(parts.rest),
                .authority = std::string(parts.authority)};
  target.port = static_cast<uint16_t>(parts.port != 0 ? parts.port : target.tls ? 443 : 80);
  if (parts.path.empty()) target.path.insert(0, 1, '/');
  const bool named = !parts.bracketed;
  if (target.host.empty() || target.host.size() > 253 ||
      (named && !std::all_of(target.host.begin(), target.host.end(), IsHostCharacter)))
    return Bad("has no host name");
  // "127.1", "0x7f.1" and "2130706433" are addresses to some resolvers.
  const size_t last = target.host.find_last_of('.') + 1;
  const std::string label = target.host.substr(last);
  std::array<uint8_t, 4> four{};
  if (named && (label.empty() || (label[0] >= '0' && label[0] <= '9')) &&
      inet_pton(AF_INET, target.host.c_str(), four.data()) != 1)
    return Bad("has a host that is neither a name nor an address");
  if (trusted.contains(target.host)) return target;
  if (!target.tls) return Bad("must begin with https://");
  if (!MayBePublic(target.host)) return Bad("is inside a network that the internet does not know");
  return target;
}

Result<Addresses> AskSystem(const std::string& host) {
  int error = 0;
  const AddressList found = LookUpTcp(host.c_str(), nullptr, &error);
  if (error != 0) {
    return Unavailable("unavailable",
                       std::string("the host cannot be found: ") + gai_strerror(error));
  }
  Addresses addresses;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0)
      addresses.emplace_back(text.data());
  }
  return addresses;
}

LookUps::LookUps(Options options) : options_(std::move(options)) {}

Result<Addresses> LookUps::Find(const std::string& host, const std::string& owner,
                                std::chrono::milliseconds within) {
  if (IsAddress(host)) return Addresses{host};
  struct Asked {
    std::optional<Result<Addresses>> answer;
    bool abandoned = false;
  };
  const auto asked = std::make_shared<Asked>();  // under the lock, as all that is shared
  std::unique_lock lock(shared_->mutex);
  if (shared_->running >= options_.most)
    return Unavailable("unavailable", "too many hosts are being looked up");
  try {
    std::thread([asked, shared = shared_, ask = options_.ask, host, owner] {
      NameThread("tutti-lookup");
      Result<Addresses> answer = ask(host);
      {
        const std::lock_guard guard(shared->mutex);
        --shared->running;
        if (!asked->abandoned) {
          asked->answer = std::move(answer);
        } else if (const auto late = shared->late.find(owner); --late->second == 0) {
          shared->late.erase(late);
        }
      }
      shared->answered.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return Unavailable("unavailable", "no thread is left to look the host up");
  }
  ++shared_->running;
  const auto time = std::min(options_.time, within);
  if (shared_->answered.wait_for(lock, time, [&] { return asked->answer.has_value(); }))
    return *std::move(asked->answer);
  asked->abandoned = true;
  ++shared_->late[owner];
  return Unavailable("unavailable", "the host was not found in time");
}

int LookUps::late(const std::string& owner) const {
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->late.find(owner);
  return found == shared_->late.end() ? 0 : found->second;
}

}  // namespace tutti::post
