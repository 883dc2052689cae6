// The server behind a certificate.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "server/access/testing/certificate.h"
#include "server/grpc/testing/small_calls.h"

namespace tutti::rpc {
namespace {

using access::testing::CertificatePaths;
using access::testing::ClientCertificates;
using access::testing::MakeCertificate;
using testing::CallOptions;
using testing::GrpcServerTest;
using testing::kTutti;
using testing::OneText;
using testing::Outcome;
using testing::TestClient;

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(GrpcServerTest, TheSameCallsAreThereBehindACertificate) {
  const support::TempFolder folder;
  const auto pem = MakeCertificate(folder, "a");
  GrpcOptions options;
  options.tls_cert_file = pem.cert;
  options.tls_key_file = pem.key;
  StartServer(options);
  EXPECT_EQ(server_->address(), "grpcs://127.0.0.1:" + std::to_string(server_->port()));
  TestClient secure(server_->port(), TextOf(pem.cert));
  v1::EmbedResponse response;
  const Outcome outcome = secure.Unary(kTutti + "Embed", OneText(), &response);
  EXPECT_TRUE(outcome.ok()) << outcome.message;
  CallOptions impatient;
  impatient.timeout = std::chrono::milliseconds(500);
  EXPECT_FALSE(Embed(impatient).ok());  // a client without TLS
}

class CertificateReloadTest : public GrpcServerTest {
 protected:
  void Start() {
    options_ = Shows(first_);
    StartServer(options_);
  }
  static GrpcOptions Shows(const CertificatePaths& pem) {
    GrpcOptions options;
    options.tls_cert_file = pem.cert;
    options.tls_key_file = pem.key;
    return options;
  }
  void Reload(const CertificatePaths& pem) {
    const auto apply = server_->PrepareReload(Shows(pem));
    ASSERT_TRUE(apply.ok()) << apply.status();
    (*apply)();
  }
  std::unique_ptr<TestClient> Trusting(const CertificatePaths& pem) {
    return std::make_unique<TestClient>(server_->port(), TextOf(pem.cert));
  }
  bool Serves(const CertificatePaths& pem) {
    CallOptions impatient;
    impatient.timeout = std::chrono::milliseconds(2000);
    v1::EmbedResponse response;
    return Trusting(pem)->Unary(kTutti + "Embed", OneText(), &response, impatient).ok();
  }

  const support::TempFolder folder_;
  const CertificatePaths first_ = MakeCertificate(folder_, "first");
  const CertificatePaths second_ = MakeCertificate(folder_, "second");
  GrpcOptions options_;
};

TEST_F(CertificateReloadTest, NewConnectionsGetItAndRunningCallsEnd) {
  Start();
  inference_.on_encode = [](const std::shared_ptr<kserve::testing::FakeEncoding>&) {
    return OkStatus();
  };
  const auto client = Trusting(first_);
  const auto running = client->Start(kTutti + "Embed");
  ASSERT_TRUE(running->Write(OneText()));
  const auto encoding = inference_.Encoding(0);
  ASSERT_NE(encoding, nullptr);
  Reload(second_);
  inference_.on_encode = nullptr;
  EXPECT_TRUE(Serves(second_));
  EXPECT_FALSE(Serves(first_));
  EXPECT_FALSE(encoding->cancelled.load());
  encoding->Answer();
  v1::EmbedResponse response;
  EXPECT_TRUE(running->Read(&response));
  EXPECT_TRUE(running->Finish().ok());
}

TEST_F(CertificateReloadTest, EqualFilesChangeNoConnection) {
  Start();
  const auto client = Trusting(first_);
  ASSERT_TRUE(client->Unary(kTutti + "Embed", OneText(), nullptr).ok());
  const int before = server_->open_connections();
  Reload(first_);
  ASSERT_TRUE(client->Unary(kTutti + "Embed", OneText(), nullptr).ok());
  EXPECT_EQ(server_->open_connections(), before);
}

TEST_F(CertificateReloadTest, InvalidFilesChangeNothing) {
  Start();
  EXPECT_FALSE(server_->PrepareReload(Shows({.cert = second_.cert, .key = first_.key})).ok());
  EXPECT_FALSE(
      server_->PrepareReload(Shows({.cert = folder_.File("none"), .key = first_.key})).ok());
  EXPECT_FALSE(server_->PrepareReload({}).ok()) << "TLS may not be turned off";
  std::ofstream(folder_.File("chain"))
      << TextOf(first_.cert) << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  EXPECT_FALSE(
      server_->PrepareReload(Shows({.cert = folder_.File("chain"), .key = first_.key})).ok());
  EXPECT_TRUE(Serves(first_));
}

TEST_F(CertificateReloadTest, CallsOfEarlierCertificatesEndWithADrainOrAStop) {
  for (const bool drains : {true, false}) {
    Start();
    inference_.on_encode = [](const std::shared_ptr<kserve::testing::FakeEncoding>&) {
      return OkStatus();
    };
    const auto client = Trusting(first_);
    const auto running = client->Start(kTutti + "Embed");
    ASSERT_TRUE(running->Write(OneText()));
    ASSERT_NE(inference_.Encoding(drains ? 0 : 1), nullptr);
    Reload(second_);
    if (drains) {
      EXPECT_FALSE(server_->Drain(std::chrono::milliseconds(200)));
    }
    server_->Stop();
    EXPECT_FALSE(running->Finish().ok());
  }
}

// More replacements than are kept end the calls of the oldest.
TEST_F(CertificateReloadTest, ManyReplacementsKeepTheNewestServers) {
  Start();
  inference_.on_encode = [](const std::shared_ptr<kserve::testing::FakeEncoding>&) {
    return OkStatus();
  };
  const CertificatePaths* const pems[] = {&first_, &second_};
  std::vector<std::unique_ptr<TestClient>> clients;
  std::vector<decltype(client_->Start(""))> calls;
  for (size_t i = 0; i < 10; ++i) {
    clients.push_back(Trusting(*pems[i % 2]));
    calls.push_back(clients.back()->Start(kTutti + "Embed"));
    ASSERT_TRUE(calls.back()->Write(OneText()));
    ASSERT_NE(inference_.Encoding(i), nullptr);
    Reload(*pems[(i + 1) % 2]);
  }
  EXPECT_TRUE(Eventually([&] { return inference_.Encoding(0)->cancelled.load(); }));
  EXPECT_TRUE(Eventually([&] { return inference_.Encoding(1)->cancelled.load(); }));
  for (size_t i = 2; i < 10; ++i) {
    EXPECT_FALSE(inference_.Encoding(i)->cancelled.load()) << i;
    inference_.Encoding(i)->Answer();
    v1::EmbedResponse response;
    EXPECT_TRUE(calls[i]->Read(&response)) << i;
    EXPECT_TRUE(calls[i]->Finish().ok()) << i;
  }
}

class ClientCertificateTest : public GrpcServerTest {
 protected:
  void Start(bool required = false, const std::string& authorities = "") {
    options_.tls_cert_file = certificate_.cert;
    options_.tls_key_file = certificate_.key;
    options_.tls_client_ca_file = authorities.empty() ? clients_.authority.cert : authorities;
    options_.tls_client_required = required;
    StartServer(options_, "sk-test");
  }
  std::unique_ptr<TestClient> As(const CertificatePaths* own) {
    if (own == nullptr)
      return std::make_unique<TestClient>(server_->port(), TextOf(certificate_.cert));
    return std::make_unique<TestClient>(
        server_->port(), TextOf(certificate_.cert),
        TestClient::Identity{.cert = TextOf(own->cert), .key = TextOf(own->key)});
  }
  // A text is embedded: "", or the code of the refusal; "gone" where there is no connection.
  static std::string Ask(TestClient& client, const std::vector<std::string>& authorization = {}) {
    CallOptions options;
    options.timeout = std::chrono::milliseconds(testing::kPatienceMs);
    for (const std::string& each : authorization)
      options.metadata.emplace_back("authorization", each);
    v1::EmbedResponse response;
    const Outcome outcome = client.Unary(kTutti + "Embed", OneText(), &response, options);
    if (outcome.code == testing::kUnavailable && outcome.trailers.empty()) return "gone";
    return outcome.Trailer("tutti-error-code");
  }
  std::string AskAs(const CertificatePaths* own,
                    const std::vector<std::string>& authorization = {}) {
    return Ask(*As(own), authorization);
  }

  const support::TempFolder folder_;
  const CertificatePaths certificate_ = MakeCertificate(folder_, "server");
  const ClientCertificates clients_{folder_};
  GrpcOptions options_;
};

TEST_F(ClientCertificateTest, ItIsAUserAndWhoShowsNoneMayShowAKey) {
  Start();
  known_->AddUser("ann");
  EXPECT_EQ(AskAs(&clients_.ann), "");
  EXPECT_EQ(AskAs(&clients_.bob), "invalid_api_key") << "nobody has that name";
  EXPECT_EQ(AskAs(nullptr), "invalid_api_key");
  EXPECT_EQ(AskAs(nullptr, {"Bearer sk-test"}), "");
}

TEST_F(ClientCertificateTest, WhereItIsRequiredNothingIsAnsweredWithoutOne) {
  Start(/*required=*/true);
  known_->AddUser("ann");
  EXPECT_EQ(AskAs(&clients_.ann), "");
  EXPECT_EQ(AskAs(nullptr, {"Bearer sk-test"}), "gone");
  EXPECT_EQ(AskAs(&clients_.bob, {"Bearer sk-test"}), "");
}

TEST_F(ClientCertificateTest, OneThatIsNotOfTheAuthorityOrNotOfThisTimeEndsTheHandshake) {
  Start();
  known_->AddUser("ann");
  for (const CertificatePaths* const wrong : clients_.Refused())
    EXPECT_EQ(AskAs(wrong), "gone") << wrong->cert;
  EXPECT_EQ(AskAs(&clients_.ann), "");
  server_->Stop();
  for (const char* const word : {"others", "CN=", "BEGIN"})
    EXPECT_EQ(lines_->Joined().find(word), std::string::npos) << word;
}

TEST_F(ClientCertificateTest, AnAuthorityBelowAnotherIsOneByItself) {
  const CertificatePaths below = MakeCertificate(
      folder_, "below", {.names = {"below"}, .authority = true, .issuer = &clients_.authority});
  const CertificatePaths hers =
      MakeCertificate(folder_, "hers", {.names = {"ann"}, .issuer = &below});
  Start(/*required=*/false, below.cert);
  known_->AddUser("ann");
  EXPECT_EQ(AskAs(&hers), "");
  EXPECT_EQ(AskAs(&clients_.ann), "gone");
}

TEST_F(ClientCertificateTest, WhatACallShowsItselfIsJudgedAlone) {
  Start();
  auth::Grant narrow;
  narrow.scopes.routes = {auth::RouteClass::kGenerate};
  known_->AddUser("ann", narrow);
  EXPECT_EQ(AskAs(&clients_.ann), "insufficient_scope") << "what she was given, and no more";
  EXPECT_EQ(AskAs(&clients_.ann, {"Bearer sk-test"}), "");
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"Bearer sk-wrong"},
                                                {""},
                                                {"Basic eA=="},
                                                {"Bearer sk-test", "Bearer sk-test"}})
    EXPECT_EQ(AskAs(&clients_.ann, wrong), "invalid_api_key") << wrong[0];
}

TEST_F(ClientCertificateTest, AUserWhoIsDisabledOrRemovedIsNobodyFromTheNextCallOn) {
  Start();
  known_->AddUser("ann");
  const std::unique_ptr<TestClient> client = As(&clients_.ann);
  EXPECT_EQ(Ask(*client), "");
  ASSERT_TRUE(known_->accounts().EnableUser("ann", false).ok());
  EXPECT_EQ(Ask(*client), "invalid_api_key");
  ASSERT_TRUE(known_->accounts().EnableUser("ann", true).ok());
  EXPECT_EQ(Ask(*client), "");
  ASSERT_TRUE(known_->accounts().RemoveUser("ann").ok());
  EXPECT_EQ(Ask(*client), "invalid_api_key");
}

TEST_F(GrpcServerTest, FilesThatAreNoCertificateAreToldAtStart) {
  const support::TempFolder folder;
  const auto a = MakeCertificate(folder, "a"), b = MakeCertificate(folder, "b");
  const auto start = [&](const std::string& cert, const std::string& key,
                         const std::string& authorities = "") {
    GrpcOptions options;
    options.tls_client_ca_file = authorities;
    options.port = 0;
    options.tls_cert_file = cert;
    options.tls_key_file = key;
    auth::testing::OneKey known;
    GrpcServer server(options, {&inference_, &known.authority(), &inference_, nullptr, nullptr,
                                nullptr, &clock_});
    return server.Start().reason();
  };
  EXPECT_EQ(start(a.cert, a.key), "");
  EXPECT_EQ(start(folder.File("none"), a.key), "invalid_value");
  EXPECT_EQ(start(a.cert, folder.File("none")), "invalid_value");
  EXPECT_EQ(start(a.key, a.cert), "invalid_value");
  EXPECT_EQ(start(a.cert, b.key), "invalid_value");
  EXPECT_EQ(start(a.cert, a.key, a.cert), "");
  EXPECT_EQ(start(a.cert, a.key, a.key), "invalid_value");
  EXPECT_EQ(start("", "", a.cert), "invalid_value");
}

}  // namespace
}  // namespace tutti::rpc
