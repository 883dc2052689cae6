#include "bench/job_accepts.h"

#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "services/jobs/job_rows.h"
#include "store/database.h"
#include "store/store.h"

namespace tutti::bench {
namespace {

// A temporary folder for a bench's files; the destructor deletes it.
class BenchFolder {
 public:
  explicit BenchFolder(const std::string& in) {
    std::string pattern = in + "/tutti-accepts-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~BenchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  Status Check(const std::string& in) const {
    return path_.empty() ? Unavailable("store_failed", in + ": no folder can be made there")
                         : OkStatus();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

jobs::JobRow BenchRow() {
  jobs::JobRow row;
  row.owner = "bench";
  row.caller = "{}";
  row.kind = "chat.completions";
  row.deadline_ms = int64_t{1} << 50;
  row.request.assign(kAcceptBytes, 'x');
  return row;
}

jobs::JobLimits Unlimited() {
  jobs::JobLimits limits;
  limits.queued = limits.request_bytes = int64_t{1} << 50;
  return limits;
}

// Carries finished writes from the store's thread to the bench thread. Like the queue between the
// store and a server, it wakes the reader once for all writes that have finished.
class Ends {
 public:
  struct End {
    double took_s = 0;
    Status status;
  };
  void Add(End end) {
    const MutexLock lock(mutex_);
    ends_.push_back(std::move(end));
    if (ends_.size() == 1) changed_.NotifyOne();
  }
  // Waits until there is at least one.
  std::vector<End> Take() {
    const MutexLock lock(mutex_);
    while (ends_.empty()) changed_.Wait(mutex_);
    return std::exchange(ends_, {});
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<End> ends_ GUARDED_BY(mutex_);
};

constexpr auto kStartsWithin = std::chrono::seconds(10);

Status RedisFailed(const std::string& why) {
  return Unavailable("store_failed", "redis-server: " + why);
}

// The path of the program, searched in PATH; empty if it is missing.
std::string FindProgram(const std::string& name) {
  const char* const path = std::getenv("PATH");
  for (const std::string_view folder : SplitAt(path == nullptr ? "" : path, ':')) {
    const std::string candidate = std::string(folder) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

// A connection to a socket of this machine. One thread at a time.
class RedisClient {
 public:
  static Result<RedisClient> Open(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return RedisFailed(path + " is too long a name");
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    RedisClient client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (client.fd_ < 0 ||
        connect(client.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      return RedisFailed(std::strerror(errno));
    return client;
  }
  RedisClient(RedisClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), answer_(std::move(other.answer_)) {}
  RedisClient& operator=(RedisClient&&) = delete;
  ~RedisClient() {
    if (fd_ >= 0) close(fd_);
  }

  static std::string Command(const std::vector<std::string_view>& words) {
    std::string text = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string_view word : words) {
      text += "$" + std::to_string(word.size()) + "\r\n";
      text.append(word).append("\r\n");
    }
    return text;
  }
  Status Send(std::string_view command) {
    answer_.clear();
    while (!command.empty()) {
      const ssize_t some = send(fd_, command.data(), command.size(), MSG_NOSIGNAL);
      if (some <= 0) return RedisFailed(std::strerror(errno));
      command.remove_prefix(static_cast<size_t>(some));
    }
    return OkStatus();
  }
  // Reads once. Whether the answer is whole, which must be short: "+OK", or a string.
  Result<bool> Read() {
    std::array<char, 512> piece;
    const ssize_t some = recv(fd_, piece.data(), piece.size(), 0);
    if (some <= 0) return RedisFailed("it closed the connection");
    answer_.append(piece.data(), static_cast<size_t>(some));
    // "$15\r\n1700000000000-0\r\n": a string has two lines.
    if (LinesOf(answer_) < (answer_.front() == '$' ? 2 : 1)) return false;
    if (answer_.front() == '+' || answer_.front() == '$') return true;
    return RedisFailed(answer_.substr(0, answer_.find('\r')));
  }
  Status Ask(const std::vector<std::string_view>& words) {
    RETURN_IF_ERROR(Send(Command(words)));
    while (true) {
      ASSIGN_OR_RETURN(const bool whole, Read());
      if (whole) return OkStatus();
    }
  }
  int fd() const { return fd_; }

 private:
  explicit RedisClient(int fd) : fd_(fd) {}
  static size_t LinesOf(const std::string& text) {
    size_t lines = 0;
    for (size_t at = text.find("\r\n"); at != std::string::npos; at = text.find("\r\n", at + 2))
      ++lines;
    return lines;
  }

  int fd_;
  std::string answer_;
};

// The process; ended with it.
class RedisServer {
 public:
  static Result<RedisServer> Start(const std::string& program, const std::string& folder) {
    const std::string socket = folder + "/redis.sock";
    std::vector<std::string> words = {program,
                                      "--port",
                                      "0",
                                      "--unixsocket",
                                      socket,
                                      "--dir",
                                      folder,
                                      "--appendonly",
                                      "yes",
                                      "--appendfsync",
                                      "always",
                                      "--save",
                                      "",
                                      "--daemonize",
                                      "no",
                                      "--logfile",
                                      folder + "/redis.log"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t pid = -1;
    if (const int error =
            posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments.data(), environ))
      return RedisFailed(std::strerror(error));
    RedisServer server(pid, socket);
    const SteadyClock clock;
    const TimePoint until = clock.Now() + kStartsWithin;
    while (true) {
      Result<RedisClient> client = RedisClient::Open(socket);
      const Status status = client.ok() ? client->Ask({"PING"}) : client.status();
      if (status.ok()) return server;
      if (clock.Now() > until || waitpid(pid, nullptr, WNOHANG) == pid) return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  RedisServer(RedisServer&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), socket_(std::move(other.socket_)) {}
  RedisServer& operator=(RedisServer&&) = delete;
  ~RedisServer() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  const std::string& socket() const { return socket_; }

 private:
  RedisServer(pid_t pid, std::string socket) : pid_(pid), socket_(std::move(socket)) {}
  pid_t pid_;
  std::string socket_;
};

}  // namespace

Result<AcceptFigures> AcceptsOf(const std::string& in, int at_once, double seconds) {
  const BenchFolder folder(in);
  RETURN_IF_ERROR(folder.Check(in));
  const SteadyClock clock;
  AcceptFigures figures{.at_once = at_once};
  Ends ends;
  ASSIGN_OR_RETURN(const std::unique_ptr<store::Store> store,
                   store::Store::Open({.folder = folder.path()}, jobs::JobMigrations()));
  const auto send = [&] {
    store->Write(
        [](store::Database& rows) {
          jobs::JobRow row = BenchRow();
          return jobs::InsertJob(rows, &row, std::nullopt, Unlimited()).status();
        },
        [&ends, &clock, sent = clock.Now()](const Status& status) {
          ends.Add({ToSeconds(clock.Now() - sent), status});
        },
        store::Store::Undo::kWithGroup);
  };
  const TimePoint begin = clock.Now();
  for (int i = 0; i < at_once; ++i) send();
  Status failure;
  for (int under_way = at_once; under_way > 0;) {
    for (const Ends::End& end : ends.Take()) {
      --under_way;
      figures.accept_s.push_back(end.took_s);
      if (!end.status.ok()) failure = end.status;
      if (!failure.ok() || ToSeconds(clock.Now() - begin) >= seconds) continue;
      send();
      ++under_way;
    }
  }
  RETURN_IF_ERROR(failure);
  figures.per_s = static_cast<double>(figures.accept_s.size()) / ToSeconds(clock.Now() - begin);
  return figures;
}

Result<AcceptFigures> PlainCommits(const std::string& in, double seconds) {
  const BenchFolder folder(in);
  RETURN_IF_ERROR(folder.Check(in));
  ASSIGN_OR_RETURN(store::Database database, store::Database::Open(store::FileIn(folder.path())));
  RETURN_IF_ERROR(store::Migrate(jobs::JobMigrations(), &database));
  const SteadyClock clock;
  const TimePoint begin = clock.Now();
  AcceptFigures figures;
  while (ToSeconds(clock.Now() - begin) < seconds) {
    const TimePoint sent = clock.Now();
    RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
    jobs::JobRow row = BenchRow();
    RETURN_IF_ERROR(jobs::InsertJob(database, &row, std::nullopt, Unlimited()).status());
    RETURN_IF_ERROR(database.Execute("COMMIT"));
    figures.accept_s.push_back(ToSeconds(clock.Now() - sent));
  }
  figures.per_s = static_cast<double>(figures.accept_s.size()) / ToSeconds(clock.Now() - begin);
  return figures;
}

Result<std::optional<AcceptFigures>> RedisAcceptsOf(const std::string& in, int at_once,
                                                    double seconds) {
  const std::string program = FindProgram("redis-server");
  if (program.empty()) return std::optional<AcceptFigures>();
  const BenchFolder folder(in);
  RETURN_IF_ERROR(folder.Check(in));
  ASSIGN_OR_RETURN(const RedisServer server, RedisServer::Start(program, folder.path()));
  // All connections are one thread's, as those of a server are: a thread for each would measure
  // how fast the kernel wakes them.
  const std::string body(kAcceptBytes, 'x');
  const std::string command = RedisClient::Command({"XADD", "jobs", "*", "body", body});
  const SteadyClock clock;
  AcceptFigures figures{.at_once = at_once};
  struct Sent {
    RedisClient client;
    TimePoint at;
  };
  std::vector<Sent> clients;
  std::vector<pollfd> polled;
  for (int i = 0; i < at_once; ++i) {
    ASSIGN_OR_RETURN(RedisClient client, RedisClient::Open(server.socket()));
    polled.push_back({client.fd(), POLLIN, 0});
    clients.push_back({std::move(client), TimePoint()});
  }
  const TimePoint begin = clock.Now();
  for (Sent& sent : clients) {
    sent.at = clock.Now();
    RETURN_IF_ERROR(sent.client.Send(command));
  }
  for (int under_way = at_once; under_way > 0;) {
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR)
      return RedisFailed(std::strerror(errno));
    for (size_t i = 0; i < clients.size(); ++i) {
      if (polled[i].revents == 0) continue;
      ASSIGN_OR_RETURN(const bool whole, clients[i].client.Read());
      if (!whole) continue;
      figures.accept_s.push_back(ToSeconds(clock.Now() - clients[i].at));
      if (ToSeconds(clock.Now() - begin) >= seconds) {
        polled[i].events = 0;
        --under_way;
        continue;
      }
      clients[i].at = clock.Now();
      RETURN_IF_ERROR(clients[i].client.Send(command));
    }
  }
  figures.per_s = static_cast<double>(figures.accept_s.size()) / ToSeconds(clock.Now() - begin);
  return std::optional(std::move(figures));
}

}  // namespace tutti::bench
