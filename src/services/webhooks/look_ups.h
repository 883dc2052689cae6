// LookUps: DNS lookups with a timeout, which the system's resolver does not offer.
//
// getaddrinfo() cannot be cancelled, so each lookup runs in its own thread, which is abandoned at
// the timeout. An abandoned thread counts against the owner of the lookup until it returns
// (late()), and the number of all threads is bounded, so a resolver that never answers blocks only
// a few threads.
//
// Thread-safe. Abandoned threads may outlive this object and do not refer to it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::webhooks {

// Addresses as text, without a name left in them.
using Addresses = std::vector<std::string>;

// Calls the system's resolver; may block for long. Errors: unavailable (unknown host).
Result<Addresses> AskSystem(const std::string& host);

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
    std::condition_variable told;
    int running = 0;
    std::map<std::string, int> late;
  };
  const Options options_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace tutti::webhooks
