#include "app/mqtt/mqtt_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace tutti::app {
namespace {

using mqtt::chat::AdmissionQueue;
using mqtt::chat::Statistics;
using ::testing::HasSubstr;

TEST(MqttMetricsTest, TheNumbersAreThoseOfTheStatisticsLine) {
  telemetry::MetricsRegistry registry;
  AdmissionQueue room({.all = 10, .per_user = 10});
  bool gone = false;
  const Collectors metrics = CollectMqtt(registry, "broker", [&]() -> std::optional<Statistics> {
    if (gone) return std::nullopt;
    return room.statistics();
  });
  const TimePoint start{Duration(std::chrono::seconds(1))};
  const auto leave = [&](AdmissionQueue::Outcome outcome, Duration after) {
    room.Enter({}, start)->Leave(outcome, start + after);
  };
  leave(AdmissionQueue::Outcome::kProcessed, std::chrono::milliseconds(1500));
  EXPECT_THAT(registry.Expose(), HasSubstr("processed\",server=\"broker\"} 1\n"));
  leave(AdmissionQueue::Outcome::kProcessed, std::chrono::milliseconds(500));
  leave(AdmissionQueue::Outcome::kError, std::chrono::seconds(9));
  room.Count(AdmissionQueue::Outcome::kRejected);
  const Result<AdmissionQueue::Permit> waits = room.Enter({}, start);
  const std::string text = registry.Expose();
  const std::string messages = "tutti_mqtt_messages_total{door=\"broker\",outcome=";
  EXPECT_THAT(text, HasSubstr(messages + "\"processed\",server=\"broker\"} 2\n"));
  EXPECT_THAT(text, HasSubstr(messages + "\"error\",server=\"broker\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(messages + "\"rejected\",server=\"broker\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("tutti_mqtt_waiting_messages{door=\"broker\",server=\"broker\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("tutti_mqtt_answer_seconds_total{door=\"broker\",server=\"broker\"} 2\n"));
  EXPECT_EQ(room.statistics().average * 2, Duration(std::chrono::seconds(2)));
  gone = true;
  EXPECT_EQ(registry.Expose(), text);
}

TEST(MqttMetricsTest, ClientsAreCounted) {
  telemetry::MetricsRegistry registry;
  int clients = 3;
  const Collectors metrics =
      CollectMqttClients(registry, [&]() -> std::optional<int> { return clients; });
  EXPECT_THAT(registry.Expose(), HasSubstr("tutti_mqtt_clients 3\n"));
  clients = 1;
  EXPECT_THAT(registry.Expose(), HasSubstr("tutti_mqtt_clients 1\n"));
}

}  // namespace
}  // namespace tutti::app
