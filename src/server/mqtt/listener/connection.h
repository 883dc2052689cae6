// Connection: one socket, from accept to close: splits received bytes into frames for its Peer,
// writes the Peer's output, and enforces time limits.
//
// Invariants: at most one read and one write in flight; unwritten bytes are bounded by
// Limits::unsent_bytes and one message, because beyond it nothing is read and nothing sent. Owned
// by the Loop; used by the io thread only.
#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mqtt/codec.h"
#include "server/access/listen_rules.h"
#include "server/mqtt/listener/loop.h"
#include "server/mqtt/listener/peer.h"
#include "server/net/transport.h"

namespace tutti::mqtt::listener {

class Connection final : public std::enable_shared_from_this<Connection>, private Peer::Host {
 public:
  // The caller has entered the loop's login gate.
  Connection(Loop& loop, std::shared_ptr<sockets::Transport> transport, std::string address);
  ~Connection() override;

  void Start();
  void Revoke(std::string_view credential);  // ends it if it logged in with that
  void CheckLogin();                         // ends the connection if its client may not stay
  void Shutdown();                           // sends DISCONNECT because the server ends, and closes
  void Close();                              // at once
  const std::string& address() const { return address_; }
  bool has_asked() const { return has_asked_; }  // CONNECT has arrived
  const Peer& peer() const { return peer_; }

 private:
  enum class Phase {
    kHandshake,
    kOpen,
    kFlushing,   // the peer has ended; its last output is being written
    kLingering,  // the sending side is shut; received bytes are dropped
    kClosed,
  };

  // --- Peer::Host ---
  void Write(std::string bytes) override;
  size_t unsent() const override { return writing_.size() - written_ + pending_.size(); }
  void Authenticate(Credentials credentials) override;
  Receipt::Callback ReceiptCallback(uint64_t serial) override;
  std::string NewClientId() override;
  void Forbidden(std::string_view what, std::string_view topic) override;
  void LoggedIn() override;
  void End(ReasonCode why) override;

  template <typename Work>
  void Guarded(const Work& work);
  void Read();
  void OnRead(bool ok, size_t bytes);
  void Advance();    // processes the bytes that were read
  bool PostWrite();  // false: a write is on its way already
  void StartWrite();
  void OnWritten(bool ok, size_t bytes);
  void Finish();  // called when everything is written
  void LeaveGate();
  void Event();  // called after every event: serves others, sets the timer
  TimePoint Due() const;
  void Arm();
  void OnTimer();

  Loop& loop_;
  const std::shared_ptr<sockets::Transport> transport_;
  const std::string address_;
  Phase phase_ = Phase::kHandshake;
  std::optional<access::ClientCertificate> certificate_;  // of the client
  bool in_gate_ = true, has_asked_ = false;
  std::string user_;        // empty before the login
  std::string asked_name_;  // user name of CONNECT, as it may be logged
  FrameSplitter splitter_;
  Peer peer_;
  std::array<char, 8192> buffer_;
  std::string_view unread_;  // of buffer_
  bool reading_ = false;
  size_t lingered_bytes_ = 0;

  std::string writing_, pending_;  // in flight; waiting
  size_t written_ = 0;             // of writing_
  bool write_in_flight_ = false, write_posted_ = false, wrote_ = false;
  TimePoint last_progress_;  // of writing
  TimePoint handshake_due_, lingering_due_;

  boost::asio::steady_timer timer_;
  TimePoint armed_for_ = TimePoint::max();
};

// The transport of a connection whose packets come in binary messages of WebSocket (section 6 of
// both versions; RFC 6455), at /mqtt, with the sub-protocol mqtt, on top of TCP or TLS. Every other
// request is answered in HTTP and closed. A browser opens WebSockets for pages of any origin, so
// `rule`, which outlives the transport, is checked first. `tls` null: without.
std::shared_ptr<sockets::Transport> MakeWebSocket(sockets::Transport::Socket socket,
                                                  std::shared_ptr<sockets::TlsContext> tls,
                                                  const access::WebRule& rule);

}  // namespace tutti::mqtt::listener
