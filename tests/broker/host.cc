// A Bridge for tests with a real broker: commands come on standard input and events go to standard
// output, one JSON object a line each. Ends on a "stop" command or at the end of standard input.
//
//   bridge_host key=value ...     broker, version (5 | 3.1.1), client_id, username, password_file,
//     tls_ca, tls_cert, tls_key, will_topic, will_payload, keepalive_s, messages, bytes,
//     packet_bytes, publish_bytes, receive_maximum, receive_bytes, filters (with commas), log (a
//     file)
//   sink=accept | keep | echo:TOPIC | refuse:N | throw:N     when a message is accepted: at once,
//   on
//     an "accept" command, when the broker has acknowledged its copy, after N refusals, after the
//     sink has thrown N times
//
//   {"do":"publish","topic":..,"payload":..} with "size" (a payload of so many bytes), "qos",
//     "retain", "text", "content_type", "response_topic", "correlation", "expires_ms", "user",
//     "count" (so many times, with ":0", ":1" ... behind the payload)
//   {"do":"accept"}   all that were kept       {"do":"statistics"}    {"do":"stop","limit_ms":..}
#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "base/log.h"
#include "server/mqtt/bridge/bridge.h"

namespace {

namespace json = boost::json;
using tutti::Status;
using tutti::mqtt::Message;
using tutti::mqtt::Receipt;
using tutti::mqtt::bridge::Bridge;
using tutti::mqtt::bridge::BridgeOptions;
using Settings = std::map<std::string, std::string>;

constexpr size_t kShownBytes = 4096;

void Print(const json::object& event) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::cout << json::serialize(event) << std::endl;
}

BridgeOptions OptionsOf(Settings& settings) {
  BridgeOptions options;
  const auto number = [&](const char* key, auto& value) {
    if (settings.contains(key)) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(std::stoul(settings[key]));
    }
  };
  options.broker = settings["broker"];
  options.version =
      settings["version"] == "3.1.1" ? tutti::mqtt::Version::k311 : tutti::mqtt::Version::k5;
  options.client_id = settings["client_id"];
  options.username = settings["username"];
  options.password_file = settings["password_file"];
  options.tls_ca_file = settings["tls_ca"];
  options.tls_cert_file = settings["tls_cert"];
  options.tls_key_file = settings["tls_key"];
  if (settings.contains("will_topic")) {
    options.will.emplace();
    options.will->topic = settings["will_topic"];
    options.will->payload = settings["will_payload"];
    options.will->qos = 1;
    options.will->retain = true;
  }
  if (settings.contains("keepalive_s")) {
    options.keep_alive = std::chrono::seconds(std::stoul(settings["keepalive_s"]));
  }
  number("messages", options.outbox.messages);
  number("bytes", options.outbox.bytes);
  number("packet_bytes", options.packet_bytes);
  number("publish_bytes", options.publish_bytes);
  number("receive_maximum", options.receive_maximum);
  number("receive_bytes", options.receive_bytes);
  return options;
}

json::object ToJson(const Message& message) {
  json::object event{{"event", "message"},
                     {"topic", message.topic},
                     {"size", message.payload.size()},
                     {"qos", message.qos},
                     {"retain", message.retain},
                     {"redelivered", message.redelivered},
                     {"text", message.payload_is_text},
                     {"content_type", message.content_type},
                     {"response_topic", message.response_topic}};
  if (message.payload.size() <= kShownBytes) event["payload"] = message.payload;
  if (message.correlation_data) event["correlation"] = *message.correlation_data;
  if (message.expires) {
    event["expires_s"] = tutti::ToSeconds(*message.expires - tutti::SteadyClock().Now());
  }
  json::array user;
  for (const auto& [name, value] : message.user_properties) user.push_back({name, value});
  event["user"] = std::move(user);
  return event;
}

class Host {
 public:
  explicit Host(std::string sink) : sink_(std::move(sink)) {
    if (sink_.starts_with("echo:")) echo_topic_ = sink_.substr(5);
    if (sink_.starts_with("throw:")) throws_left_ = std::stoi(sink_.substr(6));
    if (sink_.starts_with("refuse:")) refusals_left_ = std::stoi(sink_.substr(7));
  }

  void Use(Bridge* bridge) { bridge_ = bridge; }

  void Take(Message message, Receipt receipt) {
    Print(ToJson(message));
    if (throws_left_ > 0) {
      --throws_left_;
      throw std::bad_alloc();
    }
    if (!echo_topic_.empty()) {
      Message copy;
      copy.topic = echo_topic_;
      copy.payload = message.payload;
      copy.qos = 1;
      auto held = std::make_shared<Receipt>(std::move(receipt));
      const Status status = bridge_->Publish(std::move(copy), [held](const Status& done) {
        if (done.ok() || done.code() == tutti::StatusCode::kNotFound) {
          held->Accept();
        } else {
          held->Refuse(done);
        }
      });
      if (!status.ok()) held->Refuse(status);
    } else if (refusals_left_ > 0) {
      --refusals_left_;
      receipt.Refuse(tutti::Unavailable("overloaded", "as the test wants it"));
    } else if (sink_ == "keep") {
      const std::lock_guard lock(mutex_);
      kept_.push_back(std::move(receipt));
    } else {
      receipt.Accept();
    }
  }

  void Publish(const json::object& order) {
    Message message;
    message.topic = order.at("topic").as_string();
    const auto text = [&](const char* key) {
      return order.contains(key) ? std::string(order.at(key).as_string()) : std::string();
    };
    const auto number = [&](const char* key, int64_t otherwise) {
      return order.contains(key) ? order.at(key).to_number<int64_t>() : otherwise;
    };
    message.payload = order.contains("size")
                          ? std::string(static_cast<size_t>(number("size", 0)), 'x')
                          : text("payload");
    message.qos = static_cast<uint8_t>(number("qos", 1));
    message.retain = order.contains("retain");
    message.payload_is_text = order.contains("text");
    message.content_type = text("content_type");
    message.response_topic = text("response_topic");
    if (order.contains("correlation")) message.correlation_data = text("correlation");
    if (order.contains("expires_ms")) {
      message.expires =
          tutti::SteadyClock().Now() + std::chrono::milliseconds(number("expires_ms", 0));
    }
    if (order.contains("user")) {
      for (const json::value& pair : order.at("user").as_array()) {
        message.user_properties.emplace_back(pair.at(0).as_string(), pair.at(1).as_string());
      }
    }
    const int64_t count = number("count", 0);
    if (count == 0) return PublishOne(std::move(message));
    for (int64_t i = 0; i < count; ++i) {
      Message one = message;
      one.payload += ":" + std::to_string(i);
      PublishOne(std::move(one));
    }
  }

  void AcceptKept() {
    const std::lock_guard lock(mutex_);
    for (Receipt& receipt : kept_) receipt.Accept();
    kept_.clear();
  }

 private:
  void PublishOne(Message message) {
    const std::string name = message.payload.substr(0, 64);
    const Status status = bridge_->Publish(std::move(message), [name](const Status& done) {
      Print({{"event", "published"}, {"payload", name}, {"reason", done.reason()}});
    });
    if (status.ok()) return;
    Print({{"event", "refused"},
           {"payload", name},
           {"reason", status.reason()},
           {"message", status.message()}});
  }

  const std::string sink_;
  std::string echo_topic_;
  int refusals_left_ = 0, throws_left_ = 0;  // bridge's thread
  Bridge* bridge_ = nullptr;
  std::mutex mutex_;
  std::vector<Receipt> kept_;
};

void SayStatistics(const Bridge& bridge) {
  const auto s = bridge.Statistics();
  Print({{"event", "statistics"},
         {"connected", s.connected},
         {"connects", s.connects},
         {"tries_failed", s.tries_failed},
         {"published", s.published},
         {"refused", s.refused},
         {"failed", s.failed},
         {"waiting", s.waiting},
         {"waiting_bytes", s.waiting_bytes},
         {"received", s.received},
         {"redelivered", s.redelivered},
         {"accepted", s.accepted},
         {"refused_by_sinks", s.refused_by_sinks},
         {"too_large", s.too_large},
         {"unmatched", s.unmatched},
         {"unacknowledged", s.unacknowledged},
         {"last_failure", s.last_failure.reason()}});
}

void SayStopped(const Status& status) {
  Print({{"event", "stopped"}, {"reason", status.reason()}, {"message", status.message()}});
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    settings[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  tutti::Logger log(tutti::LogLevel::kInfo, settings["log"]);
  const tutti::SteadyClock clock;
  Host host(settings["sink"]);
  auto made = Bridge::Create(OptionsOf(settings), {&log, &clock, /*seed=*/std::random_device{}()});
  if (!made.ok()) {
    SayStopped(made.status());
    return 1;
  }
  Bridge& bridge = **made;
  host.Use(&bridge);
  std::string_view filters = settings["filters"];
  while (!filters.empty()) {
    const size_t end = std::min(filters.find(','), filters.size());
    const Status status = bridge.Subscribe(std::string(filters.substr(0, end)),
                                           [&host](Message message, Receipt receipt) {
                                             host.Take(std::move(message), std::move(receipt));
                                           });
    if (!status.ok()) return SayStopped(status), 1;
    filters.remove_prefix(std::min(end + 1, filters.size()));
  }
  bridge.OnConnected([] { Print({{"event", "connected"}}); });
  bridge.Start();

  for (std::string line; std::getline(std::cin, line);) {
    const json::value value = json::parse(line);
    const json::object& order = value.as_object();
    const std::string what(order.at("do").as_string());
    if (what == "publish") host.Publish(order);
    if (what == "accept") host.AcceptKept();
    if (what == "statistics") SayStatistics(bridge);
    if (what == "stop") {
      SayStopped(bridge.Stop(std::chrono::milliseconds(order.at("limit_ms").to_number<int64_t>())));
      break;
    }
  }
  return 0;
}
