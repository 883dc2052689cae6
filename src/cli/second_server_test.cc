#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <set>

#include "cli/serve.h"

namespace tutti::cli {
namespace {

app::Settings SettingsOf(const std::map<std::string, std::string>& flags) {
  app::Settings::Inputs inputs;
  inputs.flags = flags;
  return app::Settings::Resolve(inputs).value();
}

std::string CommandOf(const std::vector<std::string>& models, const std::vector<TypedOption>& typed,
                      const std::set<int64_t>& used) {
  const app::Settings settings = SettingsOf({typed.begin(), typed.end()});
  return SecondServerCommand(models, typed, settings, [&](const std::string&, int64_t port) {
    return !used.contains(port);
  });
}

TEST(SecondServerTest, AddsAStoreAndFreePorts) {
  EXPECT_EQ(CommandOf({}, {}, {8080, 8081}),
            "tutti serve --store memory --port 8082 --grpc-port 8083");
}

TEST(SecondServerTest, KeepsPortsThatAreFree) {
  EXPECT_EQ(CommandOf({"m.gguf"}, {{"port", "9000"}, {"grpc-port", "0"}}, {8080, 8081}),
            "tutti serve m.gguf --port 9000 --grpc-port 0 --store memory");
}

TEST(SecondServerTest, ReplacesATypedStoreAndPort) {
  EXPECT_EQ(CommandOf({}, {{"store", "/data"}, {"port", "9000"}}, {9000}),
            "tutti serve --store memory --port 9001");
}

TEST(SecondServerTest, QuotesWhatAShellWouldSplit) {
  EXPECT_EQ(CommandOf({"my model.gguf", "it's"}, {}, {}),
            "tutti serve 'my model.gguf' 'it'\\''s' --store memory");
}

TEST(SecondServerTest, APortInUseIsNotFree) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const int64_t port = ntohs(address.sin_port);
  EXPECT_FALSE(PortIsFree("127.0.0.1", port));
  close(fd);
  EXPECT_TRUE(PortIsFree("127.0.0.1", port));
}

}  // namespace
}  // namespace tutti::cli
