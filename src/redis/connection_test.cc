#include "redis/connection.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "redis/script.h"
#include "redis/testing/redis_server.h"

namespace tutti::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::RedisServer;

TimePoint In(Duration wait) { return std::chrono::steady_clock::now() + wait; }

// A server for one connection that sends `answer` to any command, and then nothing.
class FakeServer {
 public:
  explicit FakeServer(std::string answer, bool close_after = false, Duration pause = Duration(0)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    CHECK_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    CHECK_EQ(listen(listener_, 8), 0);
    CHECK_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, answer = std::move(answer), close_after, pause] {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      char buffer[4096];
      bool said = false;
      while (recv(fd, buffer, sizeof buffer, 0) > 0 && !stop_.load()) {
        if (said) continue;
        said = true;
        if (pause > Duration(0)) {  // drips
          for (size_t i = 0; i < answer.size() && !stop_.load(); ++i) {
            if (send(fd, &answer[i], 1, MSG_NOSIGNAL) < 0) break;
            std::this_thread::sleep_for(pause);
          }
        } else {
          for (size_t sent = 0; sent < answer.size();) {
            const ssize_t n = send(fd, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
            if (n <= 0) break;
            sent += static_cast<size_t>(n);
          }
        }
        if (close_after) break;
      }
      close(fd);
    });
  }
  ~FakeServer() {
    stop_.store(true);
    (void)shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  ConnectionOptions options() const {
    return {.url = {.user = "", .host = "127.0.0.1", .port = port_, .database = 0},
            .password = "",
            .connect_timeout = milliseconds(300),
            .reply = {.bytes = 1 << 20, .items = 1024}};
  }

 private:
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(Connection, SpeaksWithARealServer) {
  RedisServer server;
  const auto connection = server.Connect();
  const std::string value("\0\r\n\xFF binary", 11);
  EXPECT_EQ(connection->Call({"SET", "key", value}, In(seconds(5)))->text, "OK");
  EXPECT_EQ(connection->Call({"GET", "key"}, In(seconds(5)))->text, value);
  EXPECT_EQ(connection->Call({"GET", "none"}, In(seconds(5)))->kind, Reply::Kind::kNil);
  EXPECT_EQ(connection->Call({"INCRBY", "n", "41"}, In(seconds(5)))->integer, 41);
  // An error of Redis' is a reply: the connection is as good as before.
  EXPECT_EQ(connection->Call({"INCR", "key"}, In(seconds(5))).status().reason(), "redis_refused");
  EXPECT_TRUE(connection->Clean());
  // Several commands are sent at once and answered in order.
  for (int i = 0; i < 100; ++i) {
    const std::string text = std::to_string(i);
    const std::string_view words[] = {"ECHO", text};
    ASSERT_TRUE(connection->Send(words, In(seconds(5))).ok());
  }
  EXPECT_FALSE(connection->Clean());
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(connection->Receive(In(seconds(5)))->text, std::to_string(i));
  EXPECT_TRUE(connection->Clean());
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(connection->Call({"ECHO", large}, In(seconds(20)))->text, large);
}

TEST(Connection, ScriptsAreSentOnceAndRun) {
  RedisServer server;
  const auto connection = server.Connect();
  const Script script("return {KEYS[1], ARGV[1] + 1}");
  for (int i = 0; i < 3; ++i) {
    const std::string_view keys[] = {"{t}:k"}, arguments[] = {"41"};
    const Result<Reply> reply = script.Call(*connection, keys, arguments, In(seconds(5)));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->items[0].text, "{t}:k");
    EXPECT_EQ(reply->items[1].integer, 42);
  }
  const Reply info = connection->Call({"INFO", "commandstats"}, In(seconds(5))).value();
  EXPECT_NE(info.text.find("cmdstat_eval:calls=1,"), std::string::npos) << info.text;
  const Script wrong("return nonsense(");
  EXPECT_EQ(wrong.Call(*connection, {}, {}, In(seconds(5))).status().reason(), "redis_refused");
}

TEST(Connection, UserPasswordAndDatabaseAreTold) {
  RedisServer server({"--requirepass", "open sesame"});
  ConnectionOptions options{.url = server.url(), .password = "", .reply = {}};
  EXPECT_EQ(Connection::Open(options).status().reason(), "redis_refused");
  options.password = "wrong";
  const Status refused = Connection::Open(options).status();
  EXPECT_EQ(refused.reason(), "redis_refused");
  EXPECT_EQ(refused.message().find("wrong "), std::string::npos);
  options.password = "open sesame";
  const auto first = std::move(Connection::Open(options)).value();
  EXPECT_TRUE(first->Call({"SET", "k", "of 0"}, In(seconds(5))).ok());
  options.url.user = "default";
  options.url.database = 3;
  const auto third = std::move(Connection::Open(options)).value();
  EXPECT_EQ(third->Call({"GET", "k"}, In(seconds(5)))->kind, Reply::Kind::kNil);
  options.url.database = 999;
  EXPECT_EQ(Connection::Open(options).status().reason(), "redis_refused");
}

TEST(Connection, WhoIsNotThereOrSilentCostsNoMoreThanTheWait) {
  const int nobody = testing::FreePort();
  EXPECT_EQ(
      Connection::Open(
          {.url = {.user = "", .host = "127.0.0.1", .port = nobody}, .password = "", .reply = {}})
          .status()
          .reason(),
      "redis_unreachable");
  RedisServer server;
  const auto connection = server.Connect();
  server.Pause();
  const TimePoint begin = std::chrono::steady_clock::now();
  EXPECT_EQ(connection->Call({"PING"}, In(milliseconds(50))).status().reason(), "redis_timeout");
  EXPECT_TRUE(connection->broken());
  EXPECT_EQ(
      Connection::Open(
          {.url = server.url(), .password = "", .connect_timeout = milliseconds(50), .reply = {}})
          .status()
          .reason(),
      "redis_timeout");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(2));
  server.Continue();
  // A late reply must not be matched to another command.
  EXPECT_EQ(connection->Call({"PING"}, In(seconds(1))).status().reason(), "redis_unreachable");
}

TEST(Connection, AHostileServerEndsInATypedErrorWithinTheWait) {
  struct Case {
    const char* name;
    std::string answer;
    bool closes = false;
    Duration pause{0};
    const char* reason = "redis_protocol";
  };
  const Case cases[] = {
      {"garbage", "HTTP/1.1 400 Bad Request\r\n\r\n"},
      {"a cut reply", "$100\r\nabc", true, Duration(0), "redis_unreachable"},
      {"silence", "", false, Duration(0), "redis_timeout"},
      {"the end", "", true, Duration(0), "redis_unreachable"},
      {"a huge bulk length and nothing", "$2147483647\r\n", false, Duration(0), "redis_timeout"},
      {"a huge bulk", "$2147483647\r\n" + std::string(2 << 20, 'x')},
      {"a line without an end", "+" + std::string(2 << 20, 'x')},
      {"a huge array", "*2147483647\r\n"},
      {"arrays in arrays", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"},
      {"arrays next to arrays", "*1000\r\n*1000\r\n"},
      {"drops", "$40\r\n" + std::string(40, 'x'), false, milliseconds(20), "redis_timeout"},
  };
  for (const Case& each : cases) {
    FakeServer server(each.answer, each.closes, each.pause);
    const TimePoint begin = std::chrono::steady_clock::now();
    const Status status = Connection::Open(server.options()).status();
    EXPECT_EQ(status.reason(), each.reason) << each.name << ": " << status;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5)) << each.name;
  }
}

TEST(Connection, WhatComesUnaskedForMakesItUnclean) {
  FakeServer server("+PONG\r\n+and more\r\n");
  const auto connection = std::move(Connection::Open(server.options())).value();
  const TimePoint end = In(seconds(5));
  while (connection->Clean() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_FALSE(connection->Clean());
}

TEST(Connection, AListIsReadAsItFillsAndTheReaderIsWokenAtOnce) {
  RedisServer server;
  const auto reading = server.Connect();
  std::atomic<int> read{0};
  Status end;
  std::thread reader([&] {
    while (true) {
      Result<Reply> item = reading->Call({"BLPOP", "{t}:list", "30"}, In(seconds(31)));
      if (!item.ok()) {
        end = item.status();
        return;
      }
      if (item->kind == Reply::Kind::kArray) ++read;
    }
  });
  const auto writing = server.Connect();
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(writing->Call({"RPUSH", "{t}:list", "x"}, In(seconds(5))).ok());
  const TimePoint limit = In(seconds(10));
  while (read < 20 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(read, 20);
  const TimePoint begin = std::chrono::steady_clock::now();
  reading->Interrupt();
  reader.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
  EXPECT_EQ(end.reason(), "redis_unreachable");
}

}  // namespace
}  // namespace tutti::redis
