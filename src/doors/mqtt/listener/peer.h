// Peer: the protocol with one client over one connection (3.1.1 and 5.0 sections 3 and 4), without
// sockets, threads or time of its own.
//
// Packets come in by OnFrame, bytes go out by Host::Write; what the client subscribed to waits in
// its Session and is sent by Serve as far as the socket takes it. What a client may is its
// Principal's. Violations end the connection: in 5.0 with CONNACK or DISCONNECT and a reason code,
// in 3.1.1 by closing. The io thread's; destroyed only after OnGone().
//
//   connecting --CONNECT--> authenticating --OnAuthenticated--> open --> ended
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "doors/mqtt/listener/authenticator.h"
#include "doors/mqtt/listener/hub.h"
#include "doors/mqtt/listener/limits.h"
#include "mqtt/codec.h"
#include "mqtt/message_port.h"

namespace tutti::mqtt::listener {

class Peer final : public SessionLink {
 public:
  class Host {
   public:
    virtual ~Host() = default;
    virtual void Write(std::string bytes) = 0;
    virtual size_t unsent() const = 0;  // bytes written that the socket has not taken
    // OnAuthenticated() is to follow, not from within.
    virtual void Authenticate(Credentials credentials) = 0;
    // What tells OnReceipt(serial, ...) from any thread, and does nothing once the peer is gone.
    virtual Receipt::Tell TellReceipt(uint64_t serial) = 0;
    virtual std::string NewClientId() = 0;  // one that nobody has
    // The client may not do that with such a topic or filter. `what`: "publish" or "subscribe".
    virtual void Forbidden(std::string_view what, std::string_view topic) = 0;
    virtual void LoggedIn() = 0;           // larger packets may come, of all types
    virtual void End(ReasonCode why) = 0;  // close once all is written; nothing more is read
  };

  Peer(Host& host, Hub& hub, const Limits& limits, const Clock& clock);
  ~Peer() override;

  // --- input ---
  void OnFrame(const Frame& frame);
  void OnFramingFault(const Fault& fault);
  void OnAuthenticated(const Result<Principal>& result);
  void OnReceipt(uint64_t serial, const Status& status);
  void OnTime();          // due() has come
  void OnGone();          // the connection is closed
  void Serve() override;  // also: the socket takes more
  void Shutdown();        // the server ends: 0x8B
  void OnTakenOver() override;

  // --- state ---
  void Revoke(std::string_view credential);  // ends it if it was logged in with that
  bool reading() const;  // whether a frame may come now; the host leaves bytes unread otherwise
  bool open() const { return state_ == State::kOpen; }
  bool ended() const { return state_ == State::kEnded; }
  TimePoint due() const;
  const Session* session() const { return session_; }

 private:
  enum class State { kConnecting, kAuthenticating, kOpen, kEnded };
  // A message of QoS 1 from the client, until it is acknowledged; in the order of their coming.
  struct Pending {
    uint16_t packet_id;
    uint64_t serial;
    size_t receipts;  // that are still owed
    ReasonCode reason;
    TimePoint due;
  };

  // peer_connect.cc
  void OnConnect(Connect connect);
  ReasonCode CheckConnect(const Connect& connect) const;
  ReasonCode CheckWill(const Principal& principal) const;
  void Refuse(ReasonCode code, std::string_view why);  // CONNACK, and the end
  Connack Welcome(bool present) const;
  StoredWill TakeWill(const Principal& principal, const std::string& client_id);

  // peer_publish.cc
  void OnPublish(Publish packet);
  bool ResolveAlias(Publish& packet);
  std::optional<ReasonCode> Objection(const Publish& packet) const;
  void Route(Publish packet);
  void Owe(uint16_t packet_id, size_t receipts, ReasonCode reason);
  void SendPubacks();
  void SendDelivery(const Delivery& delivery);
  bool DueReceipts(TimePoint now);

  // peer.cc
  void OnPacket(Packet packet);
  void OnSubscribe(const Subscribe& packet);
  void OnUnsubscribe(const Unsubscribe& packet);
  void OnDisconnect(const Disconnect& packet);
  bool WithinRate();
  void Send(const Packet& packet);
  // Ends the connection of a client that is logged in, with DISCONNECT in 5.0.
  void Abort(ReasonCode code, std::string_view why);
  void Leave(bool publish_will);  // gives the session back
  bool v5() const { return version_ == Version::k5; }

  Host& host_;
  Hub& hub_;
  const Limits& limits_;
  const Clock& clock_;
  State state_ = State::kConnecting;
  Version version_ = Version::k5;
  TimePoint login_due_;
  Session* session_ = nullptr;  // the Hub's; while open

  // --- of CONNECT ---
  Connect connect_;      // its password is taken out
  Duration silence_{0};  // after which the client is taken for gone
  size_t send_quota_ = 0;
  size_t most_packet_bytes_ = 0;  // that the client takes

  // --- while open ---
  TimePoint last_packet_;
  TimePoint rate_due_;  // theoretical arrival time of the packet rate (GCRA)
  std::deque<Pending> pending_;
  uint64_t next_serial_ = 1;
  std::unordered_map<uint16_t, std::string> aliases_;  // of topics, from the client
};

}  // namespace tutti::mqtt::listener
