#include "services/webhooks/look_ups.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/thread_name.h"

namespace tutti::webhooks {
namespace {

bool IsAddress(const std::string& host) {
  std::array<uint8_t, 16> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

Result<Addresses> AskSystem(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = getaddrinfo(host.c_str(), nullptr, &wanted, &found); failed != 0) {
    return Unavailable("unavailable",
                       std::string("the host cannot be found: ") + gai_strerror(failed));
  }
  Addresses addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0)
      addresses.emplace_back(text.data());
  }
  freeaddrinfo(found);
  return addresses;
}

LookUps::LookUps(Options options) : options_(std::move(options)) {}

Result<Addresses> LookUps::Find(const std::string& host, const std::string& owner,
                                std::chrono::milliseconds within) {
  if (IsAddress(host)) return Addresses{host};
  struct Asked {
    std::optional<Result<Addresses>> answer;
    bool given_up = false;
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
        const std::lock_guard told(shared->mutex);
        --shared->running;
        if (!asked->given_up) {
          asked->answer = std::move(answer);
        } else if (const auto late = shared->late.find(owner); --late->second == 0) {
          shared->late.erase(late);
        }
      }
      shared->told.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return Unavailable("unavailable", "no thread is left to look the host up");
  }
  ++shared_->running;
  const auto time = std::min(options_.time, within);
  if (shared_->told.wait_for(lock, time, [&] { return asked->answer.has_value(); }))
    return *std::move(asked->answer);
  asked->given_up = true;
  ++shared_->late[owner];
  return Unavailable("unavailable", "the host was not found in time");
}

int LookUps::late(const std::string& owner) const {
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->late.find(owner);
  return found == shared_->late.end() ? 0 : found->second;
}

}  // namespace tutti::webhooks
