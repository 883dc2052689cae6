// ScriptedServer: a transport for tests with a scripted MQTT server behind it. Its clock advances
// only while a call waits. One thread.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "client/mqtt/connection.h"
#include "mqtt/codec.h"

namespace tutti::client::testing {

struct ScriptedServer {
  struct Heard {
    mqtt::Publish message;
    TimePoint at;
  };

  ManualClock clock;
  std::vector<Heard> heard;  // what clients published
  std::vector<mqtt::Packet> packets;
  int connections = 0, goodbyes = 0;
  mqtt::Connack connack;  // to every CONNECT
  mqtt::ReasonCode subscribes_as = mqtt::ReasonCode::kGrantedQos1;
  mqtt::ReasonCode acknowledges_as = mqtt::ReasonCode::kSuccess;
  bool answers_pings = true, acknowledges = true;
  // Called with each message, after its acknowledgement; may call Send().
  std::function<void(const mqtt::Publish&)> on_message;
  std::function<void(const mqtt::Subscribe&)> on_subscribe;  // after SUBACK

  // To the client, when it next reads.
  void Send(const mqtt::Packet& packet) {
    const Result<std::string> bytes = mqtt::Encode(mqtt::Version::k5, packet);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    to_client.push_back(*bytes);
  }
  void Send(const std::string& topic, const std::string& payload, const std::string& correlation,
            std::vector<mqtt::UserProperty> properties = {}, const std::string& content_type = "") {
    mqtt::Publish publish;
    publish.topic = topic;
    publish.payload = payload;
    if (!correlation.empty()) publish.properties.correlation_data = correlation;
    if (!content_type.empty()) publish.properties.content_type = content_type;
    publish.properties.user = std::move(properties);
    Send(publish);
  }
  void Acknowledge(const mqtt::Publish& message) {
    mqtt::Puback puback;
    puback.packet_id = message.packet_id;
    puback.reason = acknowledges_as;
    Send(puback);
  }
  // Breaks the connection after the bytes that were sent.
  void HangUp() { to_client.emplace_back(); }

  std::unique_ptr<MqttTransport> NewTransport() {
    ++connections;
    to_client.clear();
    return std::make_unique<Transport>(*this);
  }

  std::deque<std::string> to_client;  // an empty one: the connection breaks

 private:
  class Transport final : public MqttTransport {
   public:
    explicit Transport(ScriptedServer& server) : server_(server) {}
    Status Send(std::string_view bytes) override {
      if (broken_) return Unavailable("unreachable", "broken");
      while (!bytes.empty()) {
        bytes.remove_prefix(splitter_.Feed(bytes));
        if (!splitter_.done()) break;
        mqtt::Decoded decoded = mqtt::Decode(mqtt::Version::k5, splitter_.Take());
        EXPECT_TRUE(decoded.ok());
        server_.Take(decoded.packet);
      }
      return OkStatus();
    }
    Result<std::string> Receive(std::chrono::milliseconds wait) override {
      if (server_.to_client.empty()) {
        server_.clock.Advance(wait);
        return std::string();
      }
      std::string bytes = std::move(server_.to_client.front());
      server_.to_client.pop_front();
      if (!bytes.empty()) return bytes;
      broken_ = true;
      return Unavailable("unreachable", "broken");
    }

   private:
    ScriptedServer& server_;
    mqtt::FrameSplitter splitter_{mqtt::FrameLimits{}};
    bool broken_ = false;
  };

  void Take(const mqtt::Packet& packet) {
    packets.push_back(packet);
    if (std::holds_alternative<mqtt::Connect>(packet)) Send(connack);
    if (std::holds_alternative<mqtt::Disconnect>(packet)) ++goodbyes;
    if (std::holds_alternative<mqtt::Pingreq>(packet) && answers_pings) Send(mqtt::Pingresp());
    if (const auto* subscribe = std::get_if<mqtt::Subscribe>(&packet)) {
      mqtt::Suback suback;
      suback.packet_id = subscribe->packet_id;
      suback.reasons = {subscribes_as};
      Send(suback);
      if (on_subscribe) on_subscribe(*subscribe);
    }
    if (const auto* publish = std::get_if<mqtt::Publish>(&packet)) {
      heard.push_back({*publish, clock.Now()});
      if (acknowledges) Acknowledge(*publish);
      if (on_message) on_message(*publish);
    }
  }
};

}  // namespace tutti::client::testing
