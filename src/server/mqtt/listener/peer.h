// Peer: the protocol state of one client on one connection (3.1.1 and 5.0 sections 3 and 4),
// without sockets, threads or clock of its own.
//
// Packets come in through OnFrame, bytes go out through Host::Write. Messages for the client's
// subscriptions wait in its Session; Serve sends them as fast as the socket accepts them. The
// Principal defines what the client may do. Violations end the connection: in 5.0 with CONNACK or
// DISCONNECT and a reason code, in 3.1.1 by closing. Used by the io thread only; destroyed only
// after OnGone().
//
//   connecting --CONNECT--> authenticating --OnAuthenticated--> open --> ended
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "mqtt/codec.h"
#include "mqtt/message_port.h"
#include "server/mqtt/listener/authenticator.h"
#include "server/mqtt/listener/hub.h"
#include "server/mqtt/listener/limits.h"

namespace tutti::mqtt::listener {

class Peer final {
 public:
  class Host {
   public:
    virtual ~Host() = default;
    virtual void Write(std::string bytes) = 0;
    virtual size_t unsent() const = 0;  // written bytes that the socket has not accepted
    // OnAuthenticated() must follow, but not from within this call.
    virtual void Authenticate(Credentials credentials) = 0;
    // Returns a function that calls OnReceipt(serial, ...) from any thread, and does nothing once
    // the peer is gone.
    virtual Receipt::Callback ReceiptCallback(uint64_t serial) = 0;
    virtual std::string NewClientId() = 0;  // a unique id
    // The client lacks the right for such a topic or filter. `what`: "publish" or "subscribe".
    virtual void Forbidden(std::string_view what, std::string_view topic) = 0;
    virtual void LoggedIn() = 0;           // larger packets and all types are now allowed
    virtual void End(ReasonCode why) = 0;  // close once everything is written; read no more
  };

  Peer(Host& host, Hub& hub, const Limits& limits, const Clock& clock);
  ~Peer();

  // --- input ---
  void OnFrame(const Frame& frame);
  void OnFramingFault(const Fault& fault);
  void OnAuthenticated(const Result<Principal>& result);
  void OnReceipt(uint64_t serial, const Status& status);
  void OnTime();  // due() has come
  void OnGone();  // the connection is closed
  // Sends what the session has to send: when the Hub flushes, and when the socket accepts more.
  void Serve();
  void Shutdown();  // the server stops: 0x8B
  // Another connection has taken the session over. Does not call the Hub, which calls this.
  void OnTakenOver();

  // --- state ---
  void Revoke(std::string_view credential);  // ends it if it logged in with that
  bool reading() const;  // whether a frame may come now; otherwise the host reads nothing
  bool open() const { return state_ == State::kOpen; }
  bool ended() const { return state_ == State::kEnded; }
  Version version() const { return version_; }
  TimePoint opened() const { return opened_; }  // when the client logged in
  TimePoint due() const;
  const Session* session() const { return session_; }

 private:
  enum class State { kConnecting, kAuthenticating, kOpen, kEnded };
  // A message of QoS 1 from the client, until it is acknowledged; in order of arrival.
  struct Pending {
    uint16_t packet_id;
    uint64_t serial;
    size_t receipts;  // receipts that are still missing
    ReasonCode reason;
    TimePoint due;
  };

  // peer.cc: CONNECT
  void OnConnect(Connect connect);
  ReasonCode CheckConnect(const Connect& connect) const;
  ReasonCode CheckWill(const Principal& principal) const;
  void Refuse(ReasonCode code, std::string_view why);  // sends CONNACK and ends
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

  // peer.cc: all other packets
  void OnPacket(Packet packet);
  void OnSubscribe(const Subscribe& packet);
  void OnUnsubscribe(const Unsubscribe& packet);
  void OnDisconnect(const Disconnect& packet);
  bool WithinRate();
  void Send(const Packet& packet);
  // Ends the connection of a client that has logged in; with DISCONNECT in 5.0.
  void Abort(ReasonCode code, std::string_view why);
  void Leave(bool publish_will);  // detaches the session
  bool v5() const { return version_ == Version::k5; }

  Host& host_;
  Hub& hub_;
  const Limits& limits_;
  const Clock& clock_;
  State state_ = State::kConnecting;
  Version version_ = Version::k5;
  TimePoint login_due_;
  Session* session_ = nullptr;  // owned by the Hub; not null while open

  // --- of CONNECT ---
  Connect connect_;      // without its password
  Duration silence_{0};  // silence after which the client counts as gone
  size_t send_quota_ = 0;
  size_t max_packet_bytes_ = 0;  // limit of the client

  // --- while open ---
  TimePoint opened_;
  TimePoint last_packet_;
  TimePoint rate_due_;  // theoretical arrival time of the packet rate (GCRA)
  std::deque<Pending> pending_;
  uint64_t next_serial_ = 1;
  std::unordered_map<uint16_t, std::string> aliases_;  // topic aliases of the client
};

}  // namespace tutti::mqtt::listener
