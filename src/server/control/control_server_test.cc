#include "server/control/control_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client/control_client.h"
#include "temp_folder.h"

namespace tutti::control {
namespace {

using std::chrono::seconds;

std::string Echo(std::string_view request) { return "<" + std::string(request) + ">"; }

class ControlServerTest : public ::testing::Test {
 protected:
  std::unique_ptr<ControlServer> Opened(ControlServer::Handler handler = &Echo,
                                        const ControlServer::Limits& limits = {}) {
    auto server = ControlServer::Open(folder_.path(), std::move(handler), limits);
    CHECK(server.ok()) << server.status();
    return *std::move(server);
  }
  Result<std::string> Ask(std::string_view request) {
    return client::AskControl(folder_.path(), request, seconds(20));
  }
  std::string Path() const { return folder_.File("control.sock"); }
  // A connection without the manners of the client.
  int Connect() {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, Path().c_str());
    CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    return fd;
  }
  // Reads until the other end closes.
  static std::string ReadAll(int fd) {
    std::string all;
    char bytes[4096];
    for (ssize_t got = 0; (got = read(fd, bytes, sizeof bytes)) > 0;)
      all.append(bytes, static_cast<size_t>(got));
    return all;
  }

  support::TempFolder folder_;
};

TEST_F(ControlServerTest, ALineIsAnsweredWithALine) {
  const auto server = Opened();
  EXPECT_EQ(*Ask("{}"), "<{}>");
  EXPECT_EQ(*Ask(""), "<>");
  const std::string longest(64 << 10, 'x');
  EXPECT_EQ(*Ask(longest), "<" + longest + ">");
}

TEST_F(ControlServerTest, AnAnswerMayBeLong) {
  const std::string answer(5 << 20, 'a');
  const auto server = Opened([&](std::string_view) { return answer; });
  EXPECT_TRUE(*Ask("x") == answer);
}

TEST_F(ControlServerTest, OnlyThisUserMayOpenTheSocket) {
  const auto server = Opened();
  struct stat info {};
  ASSERT_EQ(stat(Path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

// For root the kernel ignores the file mode, so the server must check the peer's user id.
TEST_F(ControlServerTest, AnotherUserIsNotAnswered) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  std::atomic<int> handled = 0;
  const auto server = Opened([&](std::string_view) {
    ++handled;
    return std::string("secret");
  });
  chmod(folder_.path().c_str(), 0755);
  chmod(Path().c_str(), 0666);
  const pid_t pid = fork();
  if (pid == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, Path().c_str());
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) _exit(3);
    (void)!send(fd, "x\n", 2, MSG_NOSIGNAL);
    char byte = 0;
    _exit(read(fd, &byte, 1) <= 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(handled, 0);
  EXPECT_EQ(*Ask("x"), "secret");
}

TEST_F(ControlServerTest, LinesOfOneConnectionAreAnsweredInTheirOrderHoweverTheyCome) {
  const auto server = Opened();
  const int fd = Connect();
  const std::string sent = "one\ntwo\nthree\n";
  for (const char byte : sent) ASSERT_EQ(write(fd, &byte, 1), 1);
  shutdown(fd, SHUT_WR);
  EXPECT_EQ(ReadAll(fd), "<one>\n<two>\n<three>\n");
  close(fd);
}

TEST_F(ControlServerTest, ALineWithoutEndIsNotKept) {
  const auto server = Opened();
  const int fd = Connect();
  const std::string much(1 << 20, 'x');
  for (int i = 0; i < 4; ++i) (void)!send(fd, much.data(), much.size(), MSG_NOSIGNAL);
  EXPECT_EQ(ReadAll(fd), "");
  close(fd);
  EXPECT_EQ(*Ask("still here"), "<still here>");
}

TEST_F(ControlServerTest, AClientThatSaysNothingHoldsNobodyUpForLong) {
  const auto server = Opened(&Echo, {.request_bytes = 1024, .silence_ms = 50});
  const int silent = Connect();
  EXPECT_EQ(*Ask("next"), "<next>");
  EXPECT_EQ(ReadAll(silent), "");
  close(silent);
}

// Nine of them, each waited for in turn, kept every command of the operator from its answer.
TEST_F(ControlServerTest, ClientsThatSayNothingTakeNobodysTurn) {
  const auto server =
      Opened(&Echo, {.clients = 12, .request_bytes = 1024, .silence_ms = 3'600'000});
  std::vector<int> silent;
  for (int i = 0; i < 9; ++i) silent.push_back(Connect());
  EXPECT_EQ(*Ask("next"), "<next>");
  for (int i = 0; i < 9; ++i) silent.push_back(Connect());
  EXPECT_EQ(*Ask("next"), "<next>");
  EXPECT_EQ(ReadAll(silent.front()), "") << "who was silent longest leaves for who comes";
  ASSERT_EQ(write(silent.back(), "late\n", 5), 5);
  shutdown(silent.back(), SHUT_WR);
  EXPECT_EQ(ReadAll(silent.back()), "<late>\n") << "who came last is still heard";
  for (const int fd : silent) close(fd);
}

TEST_F(ControlServerTest, AClientThatReadsNothingHoldsNobodyUpForLong) {
  const auto server = Opened([](std::string_view) { return std::string(4 << 20, 'a'); },
                             {.request_bytes = 1024, .silence_ms = 50});
  const int deaf = Connect();
  ASSERT_EQ(write(deaf, "x\n", 2), 2);
  EXPECT_EQ(Ask("next")->size(), size_t{4} << 20);
  close(deaf);
}

TEST_F(ControlServerTest, ManyClientsAreServedOneAfterTheOther) {
  std::atomic<int> running = 0, most = 0;
  const auto server = Opened([&](std::string_view request) {
    most = std::max<int>(most, ++running);
    --running;
    return std::string(request);
  });
  std::vector<std::thread> clients;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      for (int n = 0; n < 20; ++n) {
        const std::string request = std::to_string(i) + "." + std::to_string(n);
        const auto answer = Ask(request);
        if (answer.ok() && *answer == request) ++right;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 160);
  EXPECT_EQ(most, 1);
}

TEST_F(ControlServerTest, ASocketLeftBehindIsReplacedAndOursGoesAtTheEnd) {
  const int left = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, Path().c_str());
  ASSERT_EQ(bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(left);
  EXPECT_EQ(Ask("x").status().reason(), "unreachable");
  {
    const auto server = Opened();
    EXPECT_EQ(*Ask("x"), "<x>");
  }
  EXPECT_NE(access(Path().c_str(), F_OK), 0);
  EXPECT_EQ(Ask("x").status().reason(), "unreachable");
}

TEST_F(ControlServerTest, TheEndComesAtOnceThoughAClientIsConnected) {
  auto server = Opened(&Echo, {.request_bytes = 1024, .silence_ms = 3'600'000});
  const int silent = Connect();
  ASSERT_EQ(write(silent, "half a", 6), 6);
  server.reset();
  EXPECT_EQ(ReadAll(silent), "");
  close(silent);
}

TEST_F(ControlServerTest, APathThatIsTooLongIsRefused) {
  const std::string deep = folder_.path() + "/" + std::string(120, 'd');
  ASSERT_EQ(mkdir(deep.c_str(), 0700), 0);
  EXPECT_EQ(ControlServer::Open(deep, &Echo).status().reason(), "control_failed");
  EXPECT_EQ(client::AskControl(deep, "x", seconds(1)).status().reason(), "unreachable");
}

}  // namespace
}  // namespace tutti::control
