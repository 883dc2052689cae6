// Connection: one socket, from accept to close: bytes to frames for its Peer, the Peer's bytes to
// the socket, and the times after which either is given up.
//
// Invariants: at most one read and one write in flight; what waits to be written is bounded by
// Limits::unsent_bytes and one message, for behind it nothing is read and nothing sent. Owned by
// the Loop; the io thread's.
#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "doors/mqtt/listener/loop.h"
#include "doors/mqtt/listener/peer.h"
#include "doors/sockets/transport.h"
#include "mqtt/frame_splitter.h"

namespace tutti::mqtt::listener {

class Connection final : public std::enable_shared_from_this<Connection>, private Peer::Host {
 public:
  // Has entered the loop's login gate.
  Connection(Loop& loop, std::shared_ptr<sockets::Transport> transport, std::string address);
  ~Connection() override;

  void Start();
  void Revoke(std::string_view credential);  // ends it if it was logged in with that
  void CheckLogin();                         // ends it if who logged in may not stay
  void Shutdown();                           // tells the client that the server ends, and closes
  void Abort();                              // closes at once
  const std::string& address() const { return address_; }
  bool has_asked() const { return has_asked_; }  // for a login

 private:
  enum class Phase {
    kHandshake,
    kOpen,
    kFlushing,   // the peer has ended; what it said last is being written
    kLingering,  // our side is shut; what still comes is thrown away
    kClosed,
  };

  // --- Peer::Host ---
  void Write(std::string bytes) override;
  size_t unsent() const override { return writing_.size() - written_ + pending_.size(); }
  void Authenticate(Credentials credentials) override;
  Receipt::Tell TellReceipt(uint64_t serial) override;
  std::string NewClientId() override;
  void Forbidden(std::string_view what, std::string_view topic) override;
  void LoggedIn() override;
  void End(ReasonCode why) override;

  template <typename Work>
  void Guarded(const Work& work);
  void Read();
  void OnRead(bool ok, size_t bytes);
  void Advance();  // as far as the bytes read allow
  void StartWrite();
  void OnWritten(bool ok, size_t bytes);
  void Finish();  // all is written
  void Close();
  void LeaveGate();
  void Event();  // after something happened: others are served, the timer is set
  TimePoint Due() const;
  void Arm();
  void OnTimer();

  Loop& loop_;
  const std::shared_ptr<sockets::Transport> transport_;
  const std::string address_;
  Phase phase_ = Phase::kHandshake;
  std::optional<access::ClientCertificate> certificate_;  // that the client showed
  bool in_gate_ = true, has_asked_ = false;
  std::string user_;        // empty before the login
  std::string asked_name_;  // that the login was asked for with, as it may be logged
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

}  // namespace tutti::mqtt::listener
