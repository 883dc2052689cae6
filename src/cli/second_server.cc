#include "cli/second_server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "app/config/options.h"
#include "base/check.h"

namespace tutti::cli {
namespace {

constexpr std::string_view kPortKeys[] = {"port", "grpc-port", "mqtt-port"};

// For a POSIX shell; plain words stay as they are.
std::string ShellWord(std::string_view word) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("-_./=:,@+%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string FlagOf(std::string_view key) {
  const app::OptionSpec* const option = app::FindOption(key);
  return option == nullptr ? "--" + std::string(key) : app::FlagName(*option);
}

}  // namespace

bool PortIsFree(const std::string& host, int64_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return true;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;  // as a server sets it, so that closed connections do not occupy the port
  const bool bound =
      fd < 0 || (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                 bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0);
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  return bound;
}

std::string SecondServerCommand(
    const std::vector<std::string>& models, const std::vector<TypedOption>& typed,
    const app::Settings& settings,
    const std::function<bool(const std::string& host, int64_t port)>& is_free) {
  const std::string host = settings.Text("host");
  std::set<int64_t> used;
  for (const std::string_view key : kPortKeys) used.insert(settings.Int(key));
  std::vector<TypedOption> added = {{"store", "memory"}};
  for (const std::string_view key : kPortKeys) {
    int64_t port = settings.Int(key);
    if (port == 0 || is_free(host, port)) continue;
    while (port < 65535 && (used.contains(port) || !is_free(host, port))) ++port;
    used.insert(port);
    added.emplace_back(key, std::to_string(port));
  }
  std::string command = "tutti serve";
  for (const std::string& model : models) command += " " + ShellWord(model);
  const auto add = [&](const TypedOption& option) {
    command += " " + FlagOf(option.first) + " " + ShellWord(option.second);
  };
  for (const TypedOption& option : typed) {
    const bool replaced = std::any_of(added.begin(), added.end(), [&](const TypedOption& other) {
      return other.first == option.first;
    });
    if (!replaced) add(option);
  }
  for (const TypedOption& option : added) add(option);
  return command;
}

}  // namespace tutti::cli
