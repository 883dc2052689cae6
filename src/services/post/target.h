// Targets of POSTs: pure checks of the URL that a client gave and of the addresses of its host,
// and LookUps, which finds these addresses.
//
// Prevents server-side request forgery: loopback, private, link-local, shared, reserved and
// multicast addresses are refused, also if they are embedded in IPv6 addresses. Sources: the IANA
// special-purpose registries for IPv4 and IPv6 (RFC 6890), RFC 6052 (NAT64), RFC 3056 (6to4).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::post {

struct Target {
  bool tls = true;
  std::string host;  // lower case; an IPv6 address without brackets
  uint16_t port = 443;
  std::string path;       // with the query; "/" at least
  std::string authority;  // as the Host field has it
};

inline constexpr size_t kMaxUrlBytes = 2048;

// https://HOST[:PORT][/PATH]. Hosts among `trusted` may also be http. Errors: invalid_value.
Result<Target> ParseTarget(std::string_view url, const std::set<std::string>& trusted);

// Whether an address (4 or 16 bytes in network order) is public.
bool IsPublic(std::span<const uint8_t> address);
// Like IsPublic, for a host that is written as an address; true for a name.
bool MayBePublic(const std::string& host);

// Addresses as text, without a name left in them.
using Addresses = std::vector<std::string>;

// Calls the system's resolver; may block for long. Errors: unavailable (unknown host).
Result<Addresses> AskSystem(const std::string& host);

// LookUps: DNS lookups with a timeout, which the system's resolver does not offer.
//
// getaddrinfo() cannot be cancelled, so each lookup runs in its own thread, which is abandoned at
// the timeout. An abandoned thread counts against the owner of the lookup until it returns
// (late()), and the number of all threads is bounded, so a resolver that never answers blocks only
// a few threads.
//
// Thread-safe. Abandoned threads may outlive this object and do not refer to it.
class LookUps {
 public:
  struct Options {
    std::chrono::milliseconds time{5'000};
    int most = 32;  // threads, hanging ones among them
    std::function<Result<Addresses>(const std::string& host)> ask = &AskSystem;
  };
  explicit LookUps(Options options);

  // Returns the addresses of `host`; an address is returned as it is. Blocks for at most `within`.
  // Errors: unavailable (unknown host, timeout, too many abandoned lookups). `owner` is the tenant
  // that an abandoned lookup counts against.
  Result<Addresses> Find(const std::string& host, const std::string& owner,
                         std::chrono::milliseconds within);
  // Number of abandoned lookups of an owner that are still running.
  int late(const std::string& owner) const;

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable answered;
    int running = 0;
    std::map<std::string, int> late;
  };
  const Options options_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace tutti::post
