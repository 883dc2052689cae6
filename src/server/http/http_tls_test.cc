// TLS: the same routes behind a certificate, versions below 1.2 refused, files checked at start.
#include <gtest/gtest.h>

#include "server/access/testing/certificate.h"
#include "server/http/testing/server_fixture.h"
#include "server/net/testing/tls_session.h"

namespace tutti::http::testing {
namespace {

class TlsClient {
 public:
  explicit TlsClient(int port, int max_version = 0,
                     const access::testing::CertificatePaths* own = nullptr)
      : tcp_(port), tls_(tcp_.fd(), max_version, own) {}

  bool connected() const { return tls_.connected(); }
  void Send(const std::string& bytes) { tls_.Send(bytes); }
  std::string ReadUntil(const std::string& text) {
    std::string all;
    while (all.find(text) == std::string::npos && tls_.Fill(all)) {
    }
    return all;
  }
  // One answer with a Content-Length; incomplete where the server closes before.
  RawResponse Read() {
    RawResponse response;
    std::string all = ReadUntil("\r\n\r\n");
    const size_t end = all.find("\r\n\r\n");
    if (end == std::string::npos) return response;
    response.head = all.substr(0, end + 2);
    response.status = std::stoi(all.substr(9, 3));
    response.body = all.substr(end + 4);
    const size_t size = std::stoul(response.Header("content-length"));
    while (response.body.size() < size && tls_.Fill(response.body)) {
    }
    response.complete = response.body.size() == size;
    return response;
  }
  void SayGoodbye() { tls_.SayGoodbye(); }
  bool EndsCleanly() { return tls_.EndsCleanly(); }

 private:
  RawClient tcp_;
  sockets::testing::TlsSession tls_;
};

class TlsTest : public ServerTest {
 protected:
  HttpOptions WithTls() {
    const auto files = access::testing::MakeCertificate(folder_, "door");
    HttpOptions options;
    options.tls_cert_file = files.cert;
    options.tls_key_file = files.key;
    return options;
  }
  const support::TempFolder folder_;
};

TEST_F(TlsTest, StreamsLikeWithoutIt) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"over ", "TLS"});
    return OkStatus();
  };
  StartServer(WithTls());
  EXPECT_TRUE(server_->address().starts_with("https://"));
  TlsClient client(port());
  ASSERT_TRUE(client.connected());
  client.Send(Post("/v1/chat/completions", kChatStreamBody));
  const std::string answer = client.ReadUntil("[DONE]");
  EXPECT_NE(answer.find("over "), std::string::npos);
  client.Send(Get("/livez", "Connection: close\r\n"));
  EXPECT_NE(client.ReadUntil("{\"status\":\"ok\"}").find("200 OK"), std::string::npos);
  EXPECT_TRUE(client.EndsCleanly());
}

TEST_F(TlsTest, OldVersionsAndPlainTextAreRefused) {
  StartServer(WithTls());
  EXPECT_FALSE(TlsClient(port(), TLS1_1_VERSION).connected());
  EXPECT_TRUE(TlsClient(port(), TLS1_2_VERSION).connected());
  RawClient plain(port());
  plain.Send(Get("/livez"));
  EXPECT_EQ(plain.ReadAll().find("HTTP/"), std::string::npos);
  EXPECT_TRUE(TlsClient(port()).connected()) << "and the next client is served";
}

// A client set up for plain HTTP, or one that does not trust the certificate, left no trace.
TEST_F(TlsTest, AFailedHandshakeIsLoggedAndManyOfThemAreCounted) {
  StartServer(WithTls());
  for (int i = 0; i < 20; ++i) {
    RawClient plain(port());
    plain.Send(Get("/livez"));
    plain.WaitClosed(3000);
  }
  const auto lines = [&] {
    log_.Flush();
    const std::string all = lines_->Joined();
    size_t count = 0;
    for (size_t at = 0; (at = all.find("tls.handshake_failed", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  ASSERT_TRUE(Eventually([&] { return lines() > 0; }));
  EXPECT_NE(lines_->Joined().find("plain HTTP on the TLS port"), std::string::npos)
      << lines_->Joined();
  EXPECT_NE(lines_->Joined().find("127.0.0.1"), std::string::npos);
  EXPECT_LT(lines(), 20u) << "not one for each";
}

TEST_F(TlsTest, AConnectionThatOnlyComesAndGoesLeavesNoLine) {
  StartServer(WithTls());
  { RawClient probe(port()); }
  ASSERT_TRUE(Eventually([&] { return server_->open_connections() == 0; }));
  log_.Flush();
  EXPECT_EQ(lines_->Joined().find("tls.handshake_failed"), std::string::npos);
}

TEST_F(TlsTest, AClientThatLeavesCancels) {
  StartServer(WithTls());
  {
    TlsClient client(port());
    client.Send(Post("/v1/chat/completions", kChatBody));
    ASSERT_NE(inference_.Generation(0), nullptr);
  }
  EXPECT_TRUE(Eventually([&] { return inference_.Generation(0)->cancelled.load(); }));
}

TEST_F(TlsTest, AClientThatSaysGoodbyeBehindAWholeRequestGetsItsAnswer) {
  StartServer(WithTls());
  TlsClient client(port());
  client.Send(Post("/v1/chat/completions", kChatBody));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  client.SayGoodbye();
  ASSERT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  generation->Answer({"goodbye"});
  generation->Wake();
  const RawResponse response = client.Read();
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.complete);
  EXPECT_NE(response.body.find("goodbye"), std::string::npos);
  EXPECT_TRUE(client.EndsCleanly());
}

TEST_F(TlsTest, AHandshakeThatDoesNotEndIsGivenUp) {
  HttpOptions options = WithTls();
  options.limits.header_time = std::chrono::milliseconds(200);
  StartServer(options);
  RawClient silent(port()), half(port());
  half.Send(std::string("\x16\x03\x01\x02\x00\x01\x00", 7));
  EXPECT_TRUE(silent.WaitClosed(3000));
  EXPECT_TRUE(half.WaitClosed(3000));
  EXPECT_TRUE(TlsClient(port()).connected());
}

class ClientCertificateTest : public TlsTest {
 protected:
  using Own = const access::testing::CertificatePaths*;

  void Start(bool required = false) {
    HttpOptions options = WithTls();
    options.tls_client_ca_file = clients_.authority.cert;
    options.tls_client_required = required;
    options.api_key = "sk-test";
    StartServer(options);
  }
  // The status and, of an error, its code; "" where nothing is answered.
  static std::string AskOn(TlsClient& client, const std::string& request) {
    client.Send(request);
    const RawResponse response = client.Read();
    return response.complete ? std::to_string(response.status) + " " + CodeOf(response) : "";
  }
  std::string AskAs(Own own, const std::string& fields = "", const std::string& path = "/v1/models",
                    int max_version = 0) {
    TlsClient client(port(), max_version, own);
    return AskOn(client, Get(path, fields));
  }
  const access::testing::ClientCertificates clients_{folder_};
};

TEST_F(ClientCertificateTest, ItIsAUserAndWhoShowsNoneMayShowAKey) {
  Start();
  known_->AddUser("ann");
  EXPECT_EQ(AskAs(&clients_.ann), "200 ");
  EXPECT_EQ(AskAs(&clients_.bob), "401 invalid_api_key") << "nobody has that name";
  EXPECT_EQ(AskAs(nullptr), "401 invalid_api_key");
  EXPECT_EQ(AskAs(nullptr, "Authorization: Bearer sk-test\r\n"), "200 ");
  EXPECT_EQ(AskAs(nullptr, "", "/livez"), "200 ");
}

TEST_F(ClientCertificateTest, WhereItIsRequiredNothingIsAnsweredWithoutOne) {
  Start(/*required=*/true);
  known_->AddUser("ann");
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    EXPECT_EQ(AskAs(&clients_.ann, "", "/v1/models", version), "200 ");
    EXPECT_EQ(AskAs(nullptr, "Authorization: Bearer sk-test\r\n", "/v1/models", version), "");
    EXPECT_EQ(AskAs(nullptr, "", "/livez", version), "");
  }
  EXPECT_EQ(AskAs(&clients_.bob, "Authorization: Bearer sk-test\r\n"), "200 ");
}

TEST_F(ClientCertificateTest, OneThatIsNotOfTheAuthorityOrNotOfThisTimeEndsTheHandshake) {
  Start();
  known_->AddUser("ann");
  for (const Own wrong : clients_.Refused()) EXPECT_EQ(AskAs(wrong), "") << wrong->cert;
  EXPECT_EQ(AskAs(&clients_.ann), "200 ");
  server_->Stop();
  log_.Flush();
  EXPECT_NE(lines_->Joined().find("tls.handshake_failed"), std::string::npos);
  for (const char* const word : {"others", "CN=", "BEGIN"})
    EXPECT_EQ(lines_->Joined().find(word), std::string::npos) << word;
}

TEST_F(ClientCertificateTest, WhatARequestShowsItselfIsJudgedAlone) {
  Start();
  auth::Grant narrow;
  narrow.scopes.routes = {auth::RouteClass::kEmbed};
  known_->AddUser("ann", narrow);
  const std::string body = Post("/v1/chat/completions", kChatBody, "Connection: close\r\n");
  TlsClient hers(port(), 0, &clients_.ann);
  EXPECT_EQ(AskOn(hers, body).substr(0, 3), "403") << "what she was given, and no more";
  inference_.on_generate = [](const auto& generation) {
    EXPECT_EQ(generation->request.caller->credential, "key:configured");
    generation->Answer({"x"});
    return OkStatus();
  };
  TlsClient both(port(), 0, &clients_.ann);
  const std::string key = "Authorization: Bearer sk-test\r\n";
  EXPECT_EQ(AskOn(both, Post("/v1/chat/completions", kChatBody, key)), "200 ");
  for (const std::string& wrong :
       {std::string("Authorization: Bearer sk-wrong\r\n"), std::string("Authorization:\r\n"),
        std::string("Authorization: Basic eA==\r\n"), key + key})
    EXPECT_EQ(AskAs(&clients_.ann, wrong), "401 invalid_api_key") << wrong;
}

TEST_F(ClientCertificateTest, RequestsAreTheUsersInHerTenant) {
  Start();
  auth::Grant of_acme;
  of_acme.tenant = "acme";
  known_->AddUser("ann", of_acme);
  inference_.on_generate = [](const auto& generation) {
    EXPECT_EQ(generation->request.caller->credential, "user:ann");
    EXPECT_EQ(generation->request.caller->tenant, "acme");
    generation->Answer({"x"});
    return OkStatus();
  };
  TlsClient client(port(), 0, &clients_.ann);
  EXPECT_EQ(AskOn(client, Post("/v1/chat/completions", kChatBody)), "200 ");
}

TEST_F(ClientCertificateTest, AUserListsOnlyTheirConversations) {
  Start();
  known_->AddUser("ann");
  TlsClient client(port(), 0, &clients_.ann);
  const std::string key = "Authorization: Bearer sk-test\r\n";
  const auto ask = [&](const std::string& request) {
    client.Send(request);
    return client.Read().body;
  };
  const auto make = [&](const std::string& fields) {
    const std::string made = ask(Post("/v1/conversations", "{}", fields));
    return made.substr(made.find("conv_"), made.find('"', made.find("conv_")) - made.find("conv_"));
  };
  const std::string hers = make(""), others = make(key);
  const std::string list = ask(Get("/v1/conversations"));
  EXPECT_NE(list.find(hers), std::string::npos) << list;
  EXPECT_EQ(list.find(others), std::string::npos) << list;
  const std::string all = ask(Get("/v1/conversations", key));
  EXPECT_NE(all.find(hers), std::string::npos) << all;
  EXPECT_NE(all.find(others), std::string::npos) << all;
  EXPECT_NE(ask(Get("/v1/me")).find(R"("kind":"user","id":"ann")"), std::string::npos);
}

TEST_F(ClientCertificateTest, AUserWhoIsDisabledOrRemovedIsNobodyFromTheNextRequestOn) {
  Start();
  known_->AddUser("ann");
  TlsClient client(port(), 0, &clients_.ann);
  EXPECT_EQ(AskOn(client, Get("/v1/models")), "200 ");
  ASSERT_TRUE(known_->accounts().EnableUser("ann", false).ok());
  EXPECT_EQ(AskOn(client, Get("/v1/models")), "401 invalid_api_key");
  ASSERT_TRUE(known_->accounts().EnableUser("ann", true).ok());
  EXPECT_EQ(AskAs(&clients_.ann), "200 ");
  ASSERT_TRUE(known_->accounts().RemoveUser("ann").ok());
  EXPECT_EQ(AskOn(client, Get("/v1/models")), "401 invalid_api_key");
}

TEST_F(ClientCertificateTest, WithoutUsersNobodyIsServedEither) {
  HttpOptions options = WithTls();
  options.tls_client_ca_file = clients_.authority.cert;
  StartServer(options);
  EXPECT_EQ(AskAs(nullptr), "401 invalid_api_key");
  EXPECT_EQ(AskAs(&clients_.ann), "401 invalid_api_key");
}

TEST_F(TlsTest, FilesThatDoNotFitAreNamedAtStart) {
  const auto start = [&](const std::string& cert, const std::string& key,
                         const std::string& authorities = "") {
    HttpOptions options;
    options.tls_client_ca_file = authorities;
    options.port = 0;
    options.tls_cert_file = cert;
    options.tls_key_file = key;
    auth::testing::OneKey known;
    HttpServer server(options, {&inference_, &known.authority(), &inference_, &metrics_, nullptr,
                                &log_, &clock_});
    return server.Start();
  };
  const auto one = access::testing::MakeCertificate(folder_, "one");
  const auto other = access::testing::MakeCertificate(folder_, "other");
  EXPECT_TRUE(start(one.cert, one.key).ok());
  EXPECT_EQ(start(one.cert, one.key, one.key).param(), "tls-client-ca");
  EXPECT_EQ(start("", "", one.cert).param(), "tls-client-ca");
  EXPECT_EQ(start(one.cert + ".none", one.key).param(), "tls-cert");
  EXPECT_EQ(start(one.cert, other.key).param(), "tls-key");
}

}  // namespace
}  // namespace tutti::http::testing
