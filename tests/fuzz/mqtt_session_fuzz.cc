// Sequences of packets and events for the listener's state machines: two users with a connection
// each, logins, session takeover, time, receipts, readers that stop. For every input, the output
// consists of packets, no client receives another user's topic, and queues are bounded. Input: one
// byte for each event, then its arguments.
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "fuzz_input.h"
#include "server/mqtt/listener/hub.h"
#include "server/mqtt/listener/peer.h"

namespace {

using namespace tutti::mqtt;
using namespace tutti::mqtt::listener;
using tutti::fuzz::FuzzInput;

constexpr const char* kUsers[] = {"alice", "bob"};
constexpr const char* kTopics[] = {
    "llm/v1/alice/s/in",   "llm/v1/bob/s/in",   "llm/v1/alice/s/out",     "llm/v1/bob/s/out",
    "llm/v1/alice/status", "llm/v1/bob/status", "llm/v1/server/n/status", "x"};
constexpr const char* kFilters[] = {"#",
                                    "llm/v1/alice/#",
                                    "llm/v1/bob/+/out",
                                    "llm/v1/+/s/out",
                                    "llm/v1/server/#",
                                    "llm/v1/alice/s/out",
                                    "$share/g/llm/v1/bob/#",
                                    "llm/v1/bob/#"};

struct World {
  World() {
    limits.queue_messages = 8;
    limits.inflight = 4;
    limits.subscriptions = 3;
    limits.sessions = 3;
    limits.retained = 2;
    limits.packet_burst = 50;
  }
  tutti::ManualClock clock;
  Limits limits;
  Hub hub{limits, clock};
  std::deque<Receipt> receipts;
};

class Client final : public Peer::Host {
 public:
  Client(World& world, int user, Version version)
      : user_(user), version_(version), peer_(*this, world.hub, world.limits, world.clock) {}
  ~Client() override { peer_.OnGone(); }

  void Send(const Frame& frame) {
    if (peer_.reading()) peer_.OnFrame(frame);
  }
  void Send(const Packet& packet) {
    const auto bytes = Encode(version_, packet);
    if (!bytes.ok()) return;
    FrameSplitter splitter{FrameLimits()};
    splitter.Feed(*bytes);
    if (splitter.done()) Send(splitter.Take());
  }
  void Answer(bool accept) {
    if (!asked_) return;
    asked_ = false;
    peer_.OnAuthenticated(accept ? UserPrincipal("llm/v1", kUsers[user_], "t")
                                 : tutti::Result<Principal>(tutti::Internal("no")));
  }
  void Read() {
    unsent_ = 0;
    peer_.Serve();
  }
  void Check() const {
    if (peer_.session() != nullptr) {
      CHECK_LE(peer_.session()->outbox.inflight(), size_t{4});
      CHECK_LE(peer_.session()->outbox.waiting(), size_t{8});
      CHECK_LE(peer_.session()->subscriptions.size(), size_t{3});
      CHECK(!peer_.ended());
    }
  }
  Peer& peer() { return peer_; }
  Version version() const { return version_; }

 private:
  void Write(std::string bytes) override {
    CHECK(!ended_) << "written behind the end";
    unsent_ += bytes.size();
    FrameSplitter splitter{FrameLimits()};
    CHECK_EQ(splitter.Feed(bytes), bytes.size());
    CHECK(splitter.done());
    const Frame frame = splitter.Take();
    // A CONNECT of raw bytes may name the other version.
    Decoded decoded = Decode(version_, frame);
    if (!decoded.ok()) {
      decoded = Decode(version_ == Version::k5 ? Version::k311 : Version::k5, frame);
    }
    CHECK(decoded.ok()) << decoded.fault->why;
    if (const auto* publish = std::get_if<Publish>(&decoded.packet)) {
      const std::string own = std::string("llm/v1/") + kUsers[user_] + "/";
      CHECK(publish->topic.starts_with(own) || publish->topic.starts_with("llm/v1/server/"))
          << "a topic of another: " << publish->topic;
    }
  }
  size_t unsent() const override { return unsent_; }
  void Authenticate(Credentials) override { asked_ = true; }
  Receipt::Callback ReceiptCallback(uint64_t serial) override {
    return [this, serial, alive = std::weak_ptr<int>(alive_)](const tutti::Status& status) {
      if (alive.lock() != nullptr) peer_.OnReceipt(serial, status);
    };
  }
  std::string NewClientId() override { return "auto"; }
  void Forbidden(std::string_view, std::string_view) override {}
  void LoggedIn() override {}
  void End(ReasonCode) override { ended_ = true; }

  const int user_;
  const Version version_;
  size_t unsent_ = 0;
  bool asked_ = false, ended_ = false;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  Peer peer_;
};

Connect MakeConnect(FuzzInput& input, Version version) {
  Connect connect;
  connect.version = version;
  const uint8_t bits = input.Byte();
  connect.clean_start = (bits & 1) != 0;
  connect.client_id = (bits & 2) != 0 ? "c" : "d";
  connect.properties.session_expiry_s = bits >> 6;
  connect.keep_alive_s = bits & 7;
  if ((bits & 8) != 0) {
    Will& will = connect.will.emplace();
    will.topic = kTopics[input.Byte() % 8];
    will.retain = (bits & 16) != 0;
    will.properties.will_delay_s = (bits & 32) != 0 ? 2 : 0;
  }
  return connect;
}

Publish MakePublish(FuzzInput& input) {
  Publish publish;
  const uint8_t bits = input.Byte();
  publish.qos = bits % 3;
  publish.packet_id = static_cast<uint16_t>(bits % 6 + 1);
  publish.dup = publish.qos > 0 && (bits & 32) != 0;
  publish.retain = (bits & 64) != 0;
  if ((bits & 128) != 0) publish.properties.topic_alias = static_cast<uint16_t>(1 + bits % 18);
  const uint8_t topic = input.Byte();
  if (topic < 200) publish.topic = kTopics[topic % 8];
  publish.payload = "x";
  return publish;
}

Frame MakeFrame(FuzzInput& input) {
  Frame frame;
  const uint8_t first = input.Byte();
  frame.type = static_cast<PacketType>(first % 15 + 1);
  if (frame.type == PacketType::kPublish) frame.flags = first >> 4;
  for (int left = input.Byte() % 32; left > 0 && !input.empty(); --left) {
    frame.body += static_cast<char>(input.Byte());
  }
  return frame;
}

void Event(FuzzInput& input, World& world, std::unique_ptr<Client> (&clients)[2]) {
  const uint8_t what = input.Byte();
  std::unique_ptr<Client>& client = clients[what & 1];
  const Version version = (what & 128) != 0 ? Version::k311 : Version::k5;
  switch ((what >> 1) % 14) {
    case 0:
      return client->Send(MakeFrame(input));
    case 1: {  // a new connection before the old one closes: it may take over the session
      auto next = std::make_unique<Client>(world, what & 1, version);
      next->Send(MakeConnect(input, version));
      next->Answer(true);
      client = std::move(next);
      return;
    }
    case 2:
      return client->Send(MakeConnect(input, client->version()));
    case 3:
      return client->Answer(input.Byte() % 4 != 0);
    case 4:
    case 5:
      return client->Send(MakePublish(input));
    case 6: {
      Subscribe subscribe;
      subscribe.packet_id = 1;
      const uint8_t bits = input.Byte();
      Subscription& one = subscribe.subscriptions.emplace_back();
      one.filter = kFilters[bits % 8];
      one.qos = bits >> 3 & 1;
      one.no_local = (bits & 16) != 0 && !one.filter.starts_with('$');
      one.retain_handling = (bits >> 5) % 3;
      return client->Send(subscribe);
    }
    case 7: {
      Puback puback;
      puback.packet_id = static_cast<uint16_t>(1 + input.Byte() % 8);
      return client->Send(puback);
    }
    case 8: {
      Message message;
      const uint8_t bits = input.Byte();
      message.topic = kTopics[bits % 8];
      message.qos = bits >> 3 & 1;
      message.retain = (bits & 16) != 0;
      message.payload = std::string(static_cast<size_t>(bits >> 6) * 8000, 'x');
      if ((bits & 32) != 0) message.expires = world.clock.Now() + std::chrono::seconds(1);
      world.hub.Publish(std::move(message), nullptr);
      return;
    }
    case 9:
      world.clock.Advance(std::chrono::milliseconds(input.Byte() * 40));
      world.hub.OnTime();
      for (const auto& each : clients) {
        if (each->peer().due() <= world.clock.Now()) each->peer().OnTime();
      }
      return;
    case 10:
      if (world.receipts.empty()) return;
      if (input.Byte() % 4 != 0) world.receipts.front().Accept();
      return world.receipts.pop_front();
    case 11:
      return client->Read();
    case 12: {
      Disconnect disconnect;
      if (input.Byte() % 2 != 0) disconnect.reason = ReasonCode::kDisconnectWithWill;
      return client->Send(disconnect);
    }
    default:
      return client->peer().Shutdown();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  World world;
  world.hub.AddSink("llm/v1/+/+/in", [&world](Message message, Receipt receipt) {
    CHECK(message.topic == "llm/v1/" + message.user + "/s/in") << "a message in another's name";
    world.receipts.push_back(std::move(receipt));
  });
  std::unique_ptr<Client> clients[2] = {std::make_unique<Client>(world, 0, Version::k5),
                                        std::make_unique<Client>(world, 1, Version::k5)};
  for (int events = 0; events < 2000 && !input.empty(); ++events) {
    Event(input, world, clients);
    world.hub.Flush();
    for (const auto& client : clients) client->Check();
    CHECK_LE(world.hub.sessions(), size_t{6});
    CHECK_LE(world.hub.retained(), size_t{2});
  }
  return 0;
}
