// LookUps: the addresses of a name, within a time that the system's resolver does not know of.
//
// getaddrinfo() cannot be called off, so each look-up has a thread of its own, which is left behind
// where it takes too long. It counts against who asked for as long as it hangs (late()), and all of
// them together are bounded: a resolver that never answers holds a few threads and nobody else.
//
// Thread-safe; what is left behind outlives this and refers to nothing of it.
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

// Asks the system; takes its time. Errors: unavailable (there is no such host).
Result<Addresses> AskSystem(const std::string& host);

class LookUps {
 public:
  struct Options {
    std::chrono::milliseconds time{5'000};
    int most = 32;  // threads, hanging ones among them
    std::function<Result<Addresses>(const std::string& host)> ask = &AskSystem;
  };
  explicit LookUps(Options options);

  // Waits. Of an address: itself. Errors: unavailable (no such host, none told within the time, too
  // many hang). `owner`: who asks; `within`: at most so long.
  Result<Addresses> Find(const std::string& host, const std::string& owner,
                         std::chrono::milliseconds within);
  // Of an owner: those that were given up and hang still.
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
