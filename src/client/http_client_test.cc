#include "client/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace tutti::client {
namespace {

using std::chrono::milliseconds;

// Takes one connection, reads a request whose body is {}, sends `answer` and then stays silent
// until the client has gone, or closes at once.
class ScriptedServer {
 public:
  ScriptedServer(std::string answer, bool closes) : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    server_ = {.host = "127.0.0.1", .port = std::to_string(ntohs(address.sin_port)), .base = ""};
    thread_ = std::thread([this, answer = std::move(answer), closes] {
      const int client = accept(listener_, nullptr, nullptr);
      char byte = 0;
      while (!request_.ends_with("\r\n\r\n{}") && read(client, &byte, 1) == 1) request_ += byte;
      EXPECT_EQ(write(client, answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
      while (!closes && read(client, &byte, 1) == 1) continue;
      close(client);
    });
  }
  ~ScriptedServer() {
    thread_.join();
    close(listener_);
  }
  const Server& server() const { return server_; }
  const std::string& request() const { return request_; }  // after the call

 private:
  const int listener_;
  Server server_;
  std::string request_;
  std::thread thread_;
};

constexpr char kStream[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: one\n\ndata: two\n\n";

TEST(HttpClient, EventsArriveInOrderAndTheKeyIsSent) {
  ScriptedServer server(kStream, /*closes=*/true);
  std::vector<std::string> events;
  const Status status =
      PostStream(server.server(), "/v1/x", "{}", "sk-1", milliseconds(10000),
                 [&](std::string_view data, TimePoint) { events.emplace_back(data); });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(events, (std::vector<std::string>{"one", "two"}));
  EXPECT_NE(server.request().find("POST /v1/x HTTP/1.1\r\n"), std::string::npos);
  EXPECT_NE(server.request().find("Authorization: Bearer sk-1\r\n"), std::string::npos);
}

TEST(HttpClient, AStoppedRequestEndsThoughTheServerIsSilent) {
  ScriptedServer server(kStream, /*closes=*/false);
  std::atomic<int> seen{0};
  const Status status = PostStream(
      server.server(), "/", "{}", "", milliseconds(60000),
      [&](std::string_view, TimePoint) { ++seen; }, [&] { return seen.load() == 2; });
  EXPECT_EQ(status.reason(), "cancelled");
}

TEST(HttpClient, SilenceBeyondThePatienceIsAnError) {
  ScriptedServer server(kStream, /*closes=*/false);
  const Status status = PostStream(server.server(), "/", "{}", "", milliseconds(50),
                                   [](std::string_view, TimePoint) {});
  EXPECT_NE(status.message().find("no answer within the limit of time"), std::string::npos);
}

TEST(HttpClient, ARefusalTellsTheServersOwnMessage) {
  const auto refusal = [](const std::string& body) {
    ScriptedServer server(
        "HTTP/1.1 401 No\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body,
        /*closes=*/true);
    return PostStream(server.server(), "/", "{}", "", milliseconds(10000),
                      [](std::string_view, TimePoint) {})
        .message();
  };
  EXPECT_EQ(refusal(R"({"error":{"message":"wrong key","code":"x"}})"), "HTTP 401 wrong key");
  EXPECT_EQ(refusal("<html>"), "HTTP 401 <html>");
  EXPECT_EQ(refusal(R"({"error":"plain"})"), "HTTP 401 plain");
  EXPECT_EQ(refusal(std::string(100000, '[')), "HTTP 401 " + std::string(300, '['));
}

TEST(HttpClient, UrlsAreTakenApartOrRefused) {
  const auto plain = ParseServer("http://localhost:8080");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->host + "|" + plain->port + "|" + plain->base, "localhost|8080|");
  const auto base = ParseServer("http://[::1]:81/proxy/");
  ASSERT_TRUE(base.ok());
  EXPECT_EQ(base->host + "|" + base->port + "|" + base->base, "::1|81|/proxy");
  EXPECT_EQ(ParseServer("http://[::1]")->port, "80");
  // A client's base URL names the same server, and so does the bare address.
  for (const char* same : {"http://localhost:8080/v1", "http://localhost:8080/v1/",
                           "localhost:8080", "localhost:8080/v1"}) {
    const auto server = ParseServer(same);
    ASSERT_TRUE(server.ok()) << same;
    EXPECT_EQ(server->host + "|" + server->port + "|" + server->base, "localhost|8080|") << same;
  }
  for (const char* bad : {"", "ftp://x", "https://x", "http://", "http://:80", "http://h:port",
                          "http://h:", "http://h:0", "http://h:65536", "http://h/a b"}) {
    EXPECT_EQ(ParseServer(bad).status().reason(), "invalid_value") << bad;
  }
}

}  // namespace
}  // namespace tutti::client
