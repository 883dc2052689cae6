// A hub, a manual clock, and clients that each use a Peer, without sockets.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "mqtt/codec.h"
#include "server/mqtt/listener/hub.h"
#include "server/mqtt/listener/peer.h"

// Tests name only the fields that they are about.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tutti::mqtt::listener::testing {

inline constexpr const char* kOut = "llm/v1/alice/s/out";

struct World {
  World() {
    limits.packets_per_s = 1'000'000;
    limits.packet_burst = 1'000'000;
  }
  void Advance(Duration by) {
    clock.Advance(by);
    hub.OnTime();
    hub.Flush();
  }
  // Records the messages to a filter, with their receipts.
  struct Taken {
    Message message;
    Receipt receipt;
  };
  void TakeAll(const std::string& filter) {
    hub.AddSink(filter, [this](Message message, Receipt receipt) {
      taken.push_back({std::move(message), std::move(receipt)});
    });
  }
  // Publishes like this process.
  size_t Publish(Message message) {
    const size_t subscribers = hub.Publish(std::move(message), nullptr);
    hub.Flush();
    return subscribers;
  }

  ManualClock clock;
  Limits limits;  // constant once objects use them
  Hub hub{limits, clock};
  std::deque<Taken> taken;
};

// One connection, seen from the client.
class Client final : public Peer::Host {
 public:
  Client(World& world, Version version)
      : world_(world),
        version_(version),
        peer_(std::make_unique<Peer>(*this, world.hub, world.limits, world.clock)) {}
  ~Client() override { Gone(); }

  // --- what the client does ---
  void Send(const Packet& packet) {
    const auto bytes = Encode(version_, packet);
    CHECK(bytes.ok()) << bytes.status();
    SendBytes(*bytes);
  }
  void SendBytes(std::string_view bytes) {
    FrameSplitter splitter{FrameLimits{.packet_bytes = 4 << 20}};
    while (!bytes.empty() && !ended) {
      bytes.remove_prefix(splitter.Feed(bytes));
      if (splitter.fault()) return peer_->OnFramingFault(*splitter.fault());
      if (splitter.done()) peer_->OnFrame(splitter.Take());
    }
    Settle();
  }
  // CONNECT with this, and the login as `user`.
  void Connect(mqtt::Connect connect, const std::string& user = "alice",
               const std::string& tenant = "t") {
    connect.version = version_;
    Send(connect);
    if (asked) Answer(UserPrincipal("llm/v1", user, tenant));
  }
  void Connect(const std::string& client_id, const std::string& user = "alice") {
    Connect(mqtt::Connect{.client_id = client_id}, user);
  }
  void Answer(const Result<Principal>& principal) {
    peer_->OnAuthenticated(principal);
    Settle();
  }
  ReasonCode Subscribe(const std::string& filter, uint8_t qos = 1) {
    return Subscribe(Subscription{.filter = filter, .qos = qos});
  }
  ReasonCode Subscribe(const Subscription& subscription, Properties properties = {}) {
    Send(mqtt::Subscribe{
        .packet_id = 1000, .subscriptions = {subscription}, .properties = properties});
    return Next<Suback>().reasons.at(0);
  }
  // QoS 1, with an id of its own.
  uint16_t Publish(const std::string& topic, const std::string& payload = "x",
                   Properties properties = {}) {
    Send(mqtt::Publish{.topic = topic,
                       .payload = payload,
                       .qos = 1,
                       .packet_id = ++last_id_,
                       .properties = std::move(properties)});
    return last_id_;
  }
  void Gone() {
    if (std::exchange(gone_, true)) return;
    ended = true;
    peer_->OnGone();
    world_.hub.Flush();
  }
  void OnTime() {
    peer_->OnTime();
    Settle();
  }
  void Revoke(std::string_view credential) {
    peer_->Revoke(credential);
    Settle();
  }
  void Shutdown() {
    peer_->Shutdown();
    Settle();
  }
  // The socket accepts all waiting bytes.
  void Drain() {
    unsent_ = 0;
    peer_->Serve();
    Settle();
  }

  // --- what it got ---
  // The next packet, which must be a T.
  template <typename T>
  T Next() {
    if (received.empty()) {
      ADD_FAILURE() << "nothing came";
      return T();
    }
    const Packet packet = std::move(received.front());
    received.pop_front();
    if (!std::holds_alternative<T>(packet)) {
      ADD_FAILURE() << "it is a " << PacketTypeName(TypeOf(packet));
      return T();
    }
    return std::get<T>(packet);
  }
  bool Quiet() const { return received.empty(); }
  Peer& peer() { return *peer_; }

  std::deque<Packet> received;
  bool asked = false;                  // for a login
  std::vector<std::string> forbidden;  // "publish llm/v1/bob/s/in"
  Credentials credentials;
  bool logged_in = false;
  bool ended = false;  // the server has closed
  ReasonCode why = ReasonCode::kSuccess;
  bool stuck = false;  // the socket takes nothing

 private:
  void Settle() { world_.hub.Flush(); }
  void GiveReceipt(uint64_t serial, const Status& status) {
    if (gone_) return;
    peer_->OnReceipt(serial, status);
    Settle();
  }

  // --- Peer::Host ---
  void Write(std::string bytes) override {
    CHECK(!ended) << "written behind the end";
    if (stuck) unsent_ += bytes.size();
    for (std::string_view rest = bytes; !rest.empty();) {
      rest.remove_prefix(in_.Feed(rest));
      CHECK(!in_.fault()) << in_.fault()->why;
      if (!in_.done()) continue;
      Decoded decoded = Decode(version_, in_.Take());
      CHECK(decoded.ok()) << decoded.fault->why;
      received.push_back(std::move(decoded.packet));
    }
  }
  size_t unsent() const override { return unsent_; }
  void Forbidden(std::string_view what, std::string_view topic) override {
    forbidden.push_back(std::string(what) + " " + std::string(topic));
  }
  void Authenticate(Credentials given) override {
    asked = true;
    credentials = std::move(given);
  }
  Receipt::Callback ReceiptCallback(uint64_t serial) override {
    return [this, serial, alive = std::weak_ptr<int>(alive_)](const Status& status) {
      if (alive.lock() != nullptr) GiveReceipt(serial, status);
    };
  }
  std::string NewClientId() override { return "auto-" + std::to_string(++ids_); }
  void LoggedIn() override { logged_in = true; }
  void End(ReasonCode code) override {
    ended = true;
    why = code;
  }

  World& world_;
  const Version version_;
  FrameSplitter in_{FrameLimits()};
  size_t unsent_ = 0;
  bool gone_ = false;
  uint16_t last_id_ = 0;
  inline static int ids_ = 0;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();  // receipts may outlive a client
  std::unique_ptr<Peer> peer_;
};

}  // namespace tutti::mqtt::listener::testing
