#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "client/http_connection.h"

namespace tutti::client {
namespace {

using std::chrono::milliseconds;

constexpr char kShortStream[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    "b\r\ndata: one\n\n\r\n0\r\n\r\n";
constexpr char kBusy[] = "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nfull";
constexpr char kLast[] = "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlast";

// Takes one connection for each list of answers, gives one to each request whose body is {}, and
// closes.
class KeepingServer {
 public:
  explicit KeepingServer(std::vector<std::vector<std::string>> answers)
      : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    server_ = {.host = "127.0.0.1", .port = std::to_string(ntohs(address.sin_port)), .base = ""};
    thread_ = std::thread([this, answers = std::move(answers)] {
      for (const std::vector<std::string>& connection : answers) {
        const int client = accept(listener_, nullptr, nullptr);
        for (const std::string& answer : connection) {
          std::string request;
          char byte = 0;
          while (!request.ends_with("\r\n\r\n{}") && read(client, &byte, 1) == 1) request += byte;
          EXPECT_TRUE(request.starts_with("POST /v1/x HTTP/1.1\r\n")) << request;
          EXPECT_EQ(request.find("Connection: close"), std::string::npos);
          EXPECT_EQ(write(client, answer.data(), answer.size()),
                    static_cast<ssize_t>(answer.size()));
        }
        close(client);
      }
    });
  }
  ~KeepingServer() {
    thread_.join();
    close(listener_);
  }
  const Server& server() const { return server_; }

 private:
  const int listener_;
  Server server_;
  std::thread thread_;
};

Status PostTo(StreamConnection& connection, std::vector<std::string>* events = nullptr) {
  return connection.Post("/v1/x", "{}", [events](std::string_view data, TimePoint) {
    if (events != nullptr) events->emplace_back(data);
  });
}

TEST(StreamConnectionTest, ReusesConnectionAndReopensAfterClose) {
  KeepingServer server(
      {{kShortStream, kBusy, kShortStream}, {kShortStream, kLast}, {kShortStream}});
  StreamConnection connection(server.server(), "", milliseconds(10'000));
  std::vector<std::string> events;
  EXPECT_TRUE(PostTo(connection, &events).ok());
  const Status busy = PostTo(connection);
  EXPECT_EQ(busy.message(), "HTTP 503 full");
  EXPECT_EQ(busy.retry_after(), milliseconds(7000));
  EXPECT_TRUE(PostTo(connection, &events).ok());
  EXPECT_TRUE(PostTo(connection, &events).ok()) << "the server closed without a word";
  const Status last = PostTo(connection);
  EXPECT_EQ(last.message(), "HTTP 503 last");
  EXPECT_FALSE(last.retry_after().has_value());
  EXPECT_TRUE(PostTo(connection, &events).ok()) << "the server said that it closes";
  EXPECT_EQ(events, (std::vector<std::string>{"one", "one", "one", "one"}));
}

TEST(StreamConnectionTest, ARequestThatWasAnsweredInPartIsNotSentAgain) {
  KeepingServer server({{kShortStream, std::string(kShortStream).substr(0, 84)}});
  StreamConnection connection(server.server(), "", milliseconds(10'000));
  EXPECT_TRUE(PostTo(connection).ok());
  EXPECT_EQ(PostTo(connection).reason(), "bad_response");
}

}  // namespace
}  // namespace tutti::client
