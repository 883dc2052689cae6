// The same bytes over TCP and TLS, and how each connection ends.
#include "server/net/transport.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/access/testing/certificate.h"
#include "server/net/io_thread.h"
#include "server/net/testing/tls_session.h"

namespace tutti::sockets {
namespace {

using access::testing::CertificatePaths;
using access::testing::ClientCertificates;
using access::testing::MakeCertificate;
using boost::asio::ip::tcp;
using boost::system::error_code;
using testing::TlsSession;

// A transport on an io thread, and the connected socket of its client, which blocks.
class TransportTest : public ::testing::Test {
 protected:
  ~TransportTest() override {
    OnThread([this] { transport_->Close(false); });
    thread_.Stop();
  }

  // Replaces an earlier connection.
  void Connect(const std::shared_ptr<TlsContext>& tls) {
    if (transport_ != nullptr) {
      OnThread([this] { transport_->Close(false); });
      client_.close();
      earlier_.push_back(transport_);  // until its handlers have run
    }
    tcp::acceptor listening(client_context_, {boost::asio::ip::make_address("127.0.0.1"), 0});
    client_.connect(listening.local_endpoint());
    transport_ = MakeTransport(listening.accept(thread_.context()), tls);
    if (!std::exchange(started_, true)) thread_.Start();
  }
  std::shared_ptr<TlsContext> ServerTls(const std::string& authorities = "",
                                        bool required = false) {
    const auto paths = access::testing::MakeCertificate(folder_, "server");
    auto tls = LoadServerTls({.cert_file = paths.cert,
                              .key_file = paths.key,
                              .client_ca_file = authorities,
                              .client_required = required});
    EXPECT_TRUE(tls.ok()) << tls.status();
    return *tls;
  }

  void OnThread(std::function<void()> work) {
    boost::asio::post(thread_.context(), boost::asio::use_future(std::move(work))).get();
  }
  std::string HandshakeFault() {
    std::string fault;
    OnThread([&] { fault = transport_->HandshakeFault(); });
    return fault;
  }
  std::string NameOfPeer() {
    std::optional<access::ClientCertificate> shown;
    OnThread([&] { shown = transport_->Certificate(); });
    return shown.has_value() ? shown->name : "nobody";
  }
  // Name in the certificate of a client that presents `own`; "refused" if the handshake fails.
  std::string PeerText(const std::shared_ptr<TlsContext>& tls, const CertificatePaths* own,
                       int max_version = 0) {
    Connect(tls);
    std::future<bool> shaken = Handshake();
    const TlsSession session(client_.native_handle(), max_version, own);
    return shaken.get() ? NameOfPeer() : "refused";
  }
  // Begins a handshake; returns its result.
  std::future<bool> Handshake() {
    auto done = std::make_shared<std::promise<bool>>();
    std::future<bool> result = done->get_future();
    boost::asio::post(thread_.context(), [this, done] {
      transport_->Handshake([done](bool ok, size_t) { done->set_value(ok); });
    });
    return result;
  }
  // Echoes one read, then shuts the sending side.
  void EchoOnce() {
    boost::asio::post(thread_.context(), [this] {
      transport_->ReadSome(buffer_.data(), buffer_.size(), [this](bool ok, size_t bytes) {
        if (!ok) return;
        transport_->WriteSome(buffer_.data(), bytes,
                              [this](bool, size_t) { transport_->ShutdownSend(); });
      });
    });
  }

  const support::TempFolder folder_;
  boost::asio::io_context client_context_;
  tcp::socket client_{client_context_};
  std::array<char, 4096> buffer_{};
  bool started_ = false;
  IoThread thread_{"test-io", nullptr, "test.handler_failed"};
  std::shared_ptr<Transport> transport_;
  std::vector<std::shared_ptr<Transport>> earlier_;
};

TEST_F(TransportTest, PlainBytesGoThereAndBackAndEnd) {
  Connect(nullptr);
  EXPECT_TRUE(Handshake().get());
  EchoOnce();
  boost::asio::write(client_, boost::asio::buffer(std::string("hello")));
  std::string all;
  error_code ec;
  boost::asio::read(client_, boost::asio::dynamic_buffer(all), ec);
  EXPECT_EQ(all, "hello");
  EXPECT_EQ(ec, boost::asio::error::eof);
}

TEST_F(TransportTest, TlsDoesTheSameAndSaysGoodbye) {
  Connect(ServerTls());
  std::future<bool> shaken = Handshake();
  TlsSession session(client_.native_handle());
  EXPECT_TRUE(session.connected());
  EXPECT_TRUE(shaken.get());
  EchoOnce();
  EXPECT_TRUE(session.Send("hello"));
  std::string all;
  while (all.size() < 5 && session.Fill(all)) {
  }
  EXPECT_EQ(all, "hello");
  EXPECT_TRUE(session.EndsCleanly());
}

TEST_F(TransportTest, WhyAHandshakeFailedIsTold) {
  Connect(ServerTls());
  std::future<bool> shaken = Handshake();
  boost::asio::write(client_, boost::asio::buffer(std::string("GET / HTTP/1.1\r\n\r\n")));
  EXPECT_FALSE(shaken.get());
  EXPECT_EQ(HandshakeFault(), "plain HTTP on the TLS port");
}

TEST_F(TransportTest, AClientThatOnlyComesAndGoesIsNoFault) {
  Connect(ServerTls());
  std::future<bool> shaken = Handshake();
  client_.close();
  EXPECT_FALSE(shaken.get());
  EXPECT_EQ(HandshakeFault(), "");
}

TEST_F(TransportTest, ACertificateOfTheAuthorityIsSeenAndWithoutOneNobodyIs) {
  const ClientCertificates clients(folder_);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const auto optional = ServerTls(clients.authority.cert);
    EXPECT_EQ(PeerText(optional, &clients.ann, version), "ann");
    EXPECT_EQ(PeerText(optional, nullptr, version), "nobody");
    const auto required = ServerTls(clients.authority.cert, /*required=*/true);
    EXPECT_EQ(PeerText(required, &clients.ann, version), "ann");
    EXPECT_EQ(PeerText(required, nullptr, version), "refused");
    EXPECT_EQ(PeerText(ServerTls(), &clients.ann, version), "nobody") << "it was not asked";
  }
}

TEST_F(TransportTest, WhatTheAuthorityHasNotSignedForNowAndForClientsIsRefused) {
  const ClientCertificates clients(folder_);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const bool required : {false, true}) {
      const auto tls = ServerTls(clients.authority.cert, required);
      for (const CertificatePaths* const wrong : clients.Refused())
        EXPECT_EQ(PeerText(tls, wrong, version), "refused") << wrong->cert;
    }
  }
  EXPECT_EQ(HandshakeFault(), "certificate verify failed (SSL routines)") << "and nothing of it";
}

TEST_F(TransportTest, ACertificateWithoutASubjectIsSeenByItsExtension) {
  const ClientCertificates clients(folder_);
  const CertificatePaths ann = MakeCertificate(
      folder_, "extension", {.names = {}, .alternatives = "DNS:ann", .issuer = &clients.authority});
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION})
    EXPECT_EQ(PeerText(ServerTls(clients.authority.cert), &ann, version), "ann");
}

TEST_F(TransportTest, AnAuthorityBelowAnotherIsOneByItself) {
  const ClientCertificates clients(folder_);
  const CertificatePaths below = MakeCertificate(
      folder_, "below", {.names = {"below"}, .authority = true, .issuer = &clients.authority});
  const CertificatePaths eve =
      MakeCertificate(folder_, "eve", {.names = {"eve"}, .issuer = &below});
  EXPECT_EQ(PeerText(ServerTls(below.cert), &eve), "eve");
  EXPECT_EQ(PeerText(ServerTls(below.cert), &clients.ann), "refused");
  EXPECT_EQ(PeerText(ServerTls(clients.authority.cert), &eve), "refused")
      << "its chain was not shown";
  const CertificatePaths with_chain = {folder_.File("chain.crt"), eve.key};
  std::ofstream(with_chain.cert) << std::ifstream(eve.cert).rdbuf()
                                 << std::ifstream(below.cert).rdbuf();
  EXPECT_EQ(PeerText(ServerTls(clients.authority.cert), &with_chain), "eve");
}

TEST_F(TransportTest, AResumedSessionIsStillItsClients) {
  const ClientCertificates clients(folder_);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const auto tls = ServerTls(clients.authority.cert, /*required=*/true);
    SSL_SESSION* session = nullptr;
    for (const bool again : {false, true}) {
      Connect(tls);
      std::future<bool> shaken = Handshake();
      TlsSession client(client_.native_handle(), version, again ? nullptr : &clients.ann, session);
      ASSERT_TRUE(shaken.get()) << HandshakeFault();
      EXPECT_EQ(NameOfPeer(), "ann");
      EXPECT_EQ(client.resumes(), again);
      EchoOnce();
      EXPECT_TRUE(client.Send("x"));
      std::string all;
      EXPECT_TRUE(client.Fill(all));
      EXPECT_TRUE(client.EndsCleanly());
      if (!again) session = client.session();
    }
    SSL_SESSION_free(session);
  }
}

// Reads end in both cases; only a peer that left answers writes with a reset.
TEST_F(TransportTest, APeerThatOnlyStoppedSendingIsNotGoneAndOneThatLeftIs) {
  Connect(nullptr);
  client_.shutdown(tcp::socket::shutdown_send);
  auto ended = std::make_shared<std::promise<bool>>();
  auto gone = std::make_shared<std::promise<void>>();
  std::future<void> left = gone->get_future();
  OnThread([&] {
    transport_->ReadSome(buffer_.data(), buffer_.size(),
                         [ended](bool ok, size_t) { ended->set_value(!ok); });
  });
  EXPECT_TRUE(ended->get_future().get());
  const auto write = [&] { OnThread([&] { transport_->WriteSome("x", 1, [](bool, size_t) {}); }); };
  OnThread([&] { transport_->AwaitGone(std::chrono::seconds(30), [gone] { gone->set_value(); }); });
  for (int i = 0; i < 3; ++i) {
    write();
    char byte = 0;
    EXPECT_EQ(boost::asio::read(client_, boost::asio::buffer(&byte, 1)), 1u);
  }
  EXPECT_EQ(left.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  client_.close();
  write();
  EXPECT_EQ(left.wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

TEST_F(TransportTest, AResetIsSeenAsOne) {
  Connect(nullptr);
  OnThread([this] { transport_->Close(true); });
  char byte;
  error_code ec;
  client_.read_some(boost::asio::buffer(&byte, 1), ec);
  EXPECT_EQ(ec, boost::asio::error::connection_reset);
}

}  // namespace
}  // namespace tutti::sockets
