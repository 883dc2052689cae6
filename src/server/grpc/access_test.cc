// Access rights of methods, and the bind rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "server/grpc/router.h"
#include "server/grpc/testing/small_calls.h"

namespace tutti::rpc {
namespace {

using testing::CallOptions;
using testing::GrpcServerTest;
using ::testing::HasSubstr;
using testing::kNotFound;
using testing::kUnauthenticated;
using ::testing::Not;
using testing::Outcome;

class KeyTest : public GrpcServerTest {
 protected:
  void SetUp() override { StartServer({}, "sk-test-0123456789"); }
  static CallOptions Bearer(const std::string& value) {
    CallOptions options;
    options.metadata = {{"authorization", value}};
    return options;
  }
};

TEST_F(KeyTest, EveryMethodButHealthAsksForTheKey) {
  for (const Method& method : Methods()) {
    const std::string path(method.path);
    for (const CallOptions& options : {CallOptions(), Bearer("Bearer wrong")}) {
      const auto call = client_->Start(path, options);
      (void)call->WriteBytes("");
      call->WritesDone();
      if (method.open && !method.watches) {
        (void)call->Read(nullptr);
        EXPECT_EQ(call->Finish().code, 0) << path;
      } else if (method.open) {
        EXPECT_TRUE(call->Read(nullptr)) << path;
      } else {
        EXPECT_FALSE(call->Read(nullptr)) << path;
        const Outcome outcome = call->Finish();
        EXPECT_EQ(outcome.code, kUnauthenticated) << path;
        EXPECT_EQ(outcome.Trailer("tutti-error-code"), "invalid_api_key");
        EXPECT_FALSE(outcome.Trailer("x-request-id").empty());
      }
    }
  }
  // An unknown method gets the same answer, so that it reveals nothing.
  EXPECT_EQ(client_->UnaryBytes("/no.Such/Method", "", nullptr).code, kUnauthenticated);
  EXPECT_EQ(
      client_->UnaryBytes("/no.Such/Method", "", nullptr, Bearer("Bearer sk-test-0123456789")).code,
      12);
}

// Each row with a key of only its scope, and with a key of all other scopes.
TEST_F(KeyTest, EveryMethodAsksForAScopeOfItsRow) {
  int allowed = 0, refused = 0;
  for (const auth::RouteClass scope : auth::kAllRouteClasses) {
    if (scope == auth::RouteClass::kPublic) continue;
    auth::KeySpec spec{
        .name = std::string(auth::RouteClassName(scope)), .grant = {}, .expires_s = {}};
    spec.grant.scopes.routes = {scope};
    const auto key = known_->accounts().CreateKey(spec, time(nullptr));
    ASSERT_TRUE(key.ok()) << key.status();
    for (const Method& method : Methods()) {
      if (method.open) continue;
      const auto call = client_->Start(std::string(method.path), Bearer("Bearer " + key->text));
      (void)call->WriteBytes("");
      call->WritesDone();
      while (call->Read(nullptr)) {
      }
      const Outcome outcome = call->Finish();
      const bool denied = outcome.message.find("this needs the scope") != std::string::npos;
      EXPECT_EQ(denied, !method.rule.Has(scope)) << spec.name << " " << method.path;
      ++(denied ? refused : allowed);
    }
  }
  EXPECT_GT(allowed, 30);
  EXPECT_GT(refused, 60);
}

TEST_F(KeyTest, LoadAndUnloadNeedAdminUnlessServerIsOpen) {
  const auto told = [&](const std::string& method, const CallOptions& options) {
    return client_->UnaryBytes(testing::kInference + method, "", nullptr, options).message;
  };
  for (const std::string method : {"RepositoryModelLoad", "RepositoryModelUnload"}) {
    EXPECT_THAT(told(method, Bearer("Bearer sk-test-0123456789")),
                HasSubstr("needs the scope admin"));
  }
  TearDown();
  StartServer();
  for (const std::string method : {"RepositoryModelLoad", "RepositoryModelUnload"})
    EXPECT_THAT(told(method, {}), HasSubstr("failed to"));
}

TEST_F(KeyTest, OneKeyAsABearerIsTakenAndNothingElse) {
  EXPECT_TRUE(Embed(Bearer("Bearer sk-test-0123456789")).ok());
  EXPECT_TRUE(Embed(Bearer("bearer sk-test-0123456789")).ok());
  for (const std::string& wrong :
       {std::string("sk-test-0123456789"), std::string("Bearer"), std::string("Bearer "),
        std::string("Basic sk-test-0123456789"), std::string("Bearer  sk-test-0123456789"),
        std::string("Bearer sk-test-012345678"), "Bearer " + std::string(5000, 'k')}) {
    EXPECT_EQ(Embed(Bearer(wrong)).code, kUnauthenticated) << wrong;
  }
  CallOptions two = Bearer("Bearer sk-test-0123456789");
  two.metadata.push_back(two.metadata[0]);
  EXPECT_EQ(Embed(two).code, kUnauthenticated);
  EXPECT_EQ(inference_.encodings(), 2u);
  server_->Stop();
  EXPECT_THAT(lines_->Joined(), Not(HasSubstr("sk-test")));
}

TEST_F(KeyTest, HealthOfTheServerIsOpenAndThatOfAModelIsNot) {
  EXPECT_EQ(Check(""), 1);
  EXPECT_EQ(Check("tutti.v1.Tutti"), 1);
  EXPECT_EQ(Check("minilm"), -kUnauthenticated);
  EXPECT_EQ(Check("nobody"), -kUnauthenticated);
  EXPECT_EQ(Check("minilm", Bearer("Bearer sk-test-0123456789")), 1);
  EXPECT_EQ(Check("nobody", Bearer("Bearer sk-test-0123456789")), -kNotFound);
}

// Which addresses count as loopback; the rule itself is tested with access/listen_rules.
TEST(GrpcBindTest, ANetworkIsServedWithKeyAndTlsOnly) {
  GrpcOptions options;
  EXPECT_TRUE(CheckBind(options).ok());
  for (const char* const local : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) {
    options.host = local;
    EXPECT_TRUE(CheckBind(options).ok()) << local;
  }
  for (const char* const open : {"0.0.0.0", "::", "192.168.1.7"}) {
    options = GrpcOptions();
    options.host = open;
    EXPECT_EQ(CheckBind(options).reason(), "invalid_value") << open;
    options.has_keys = true;
    EXPECT_FALSE(CheckBind(options).ok()) << open;
    options.tls_cert_file = options.tls_key_file = "x.pem";
    EXPECT_TRUE(CheckBind(options).ok()) << open;
  }
  options.host = "example.com";
  EXPECT_FALSE(CheckBind(options).ok());
}

TEST_F(GrpcServerTest, APortThatIsTakenIsToldAtStart) {
  StartServer();
  GrpcOptions options;
  options.port = server_->port();
  GrpcServer second(options, {&inference_, &known_->authority(), &inference_, repository_.get(),
                              nullptr, nullptr, &clock_});
  const Status status = second.Start();
  EXPECT_EQ(status.reason(), "io_error");
  EXPECT_EQ(status.param(), "grpc-port");
  EXPECT_EQ(server_->address(), "grpc://127.0.0.1:" + std::to_string(server_->port()));
}

}  // namespace
}  // namespace tutti::rpc
