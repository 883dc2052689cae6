// For tests: both profiles with the dialogs of a scripted model, a port in memory and a manual
// clock.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/testing/fake_inference.h"
#include "protocol/json/json.h"
#include "server/mqtt/chat/profile.h"
#include "server/mqtt/chat/testing/scripted_port.h"
#include "services/sessions/testing/sessions_fixture.h"

namespace tutti::mqtt::chat::testing {

// Members of a payload that is a JSON object; absent or of another kind: empty, 0, false.
class Event {
 public:
  explicit Event(const std::string& payload) {
    const Result<protocol::JsonDocument> document = protocol::ParseJson(payload);
    if (document.ok() && document->root().is_object()) root_ = document->root();
  }
  bool is_object() const { return root_.is_object(); }
  const protocol::Json* Find(std::string_view name) const {
    return is_object() ? root_.get_object().if_contains(name) : nullptr;
  }
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  std::string Text(std::string_view name) const { return TextOf(Find(name)); }
  int64_t Int(std::string_view name, int64_t otherwise = 0) const {
    const protocol::Json* value = Find(name);
    return value != nullptr && value->is_int64() ? value->get_int64() : otherwise;
  }
  bool Flag(std::string_view name) const {
    const protocol::Json* value = Find(name);
    return value != nullptr && value->is_bool() && value->get_bool();
  }
  // A member as JSON; absent: "".
  std::string Json(std::string_view name) const {
    const protocol::Json* value = Find(name);
    return value == nullptr ? "" : protocol::PrintJson(*value);
  }
  // The code of an error event, or of the envelope.
  std::string Code() const {
    const protocol::Json* error = Find("error");
    if (error == nullptr || !error->is_object()) return Text("code");
    return TextOf(error->get_object().if_contains("code"));
  }
  // The text of the answer in a terminal event.
  std::string Answer() const {
    const protocol::Json* response = Find("response");
    if (response == nullptr || !response->is_object()) return "";
    for (const protocol::Json& item : response->get_object().at("output").get_array()) {
      const protocol::JsonObject& members = item.get_object();
      if (TextOf(members.if_contains("type")) != "message") continue;
      return TextOf(&members.at("content").get_array()[0].get_object().at("text"));
    }
    return "";
  }

 private:
  static std::string TextOf(const protocol::Json* value) {
    if (value == nullptr || !value->is_string()) return "";
    return std::string(value->get_string().data(), value->get_string().size());
  }
  protocol::Json root_;
};

// The value of a user property; nothing: "".
inline std::string Property(const Message& message, std::string_view name) {
  for (const auto& [key, value] : message.user_properties) {
    if (key == name) return value;
  }
  return "";
}

// Lines of the log.
class Lines final : public Logger::Sink {
 public:
  void Line(std::string_view line) override {
    const std::lock_guard lock(mutex_);
    lines_ += std::string(line) + "\n";
  }
  std::string all() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::string lines_;
};

class ProfileFixture : public sessions::testing::SessionsFixture {
 protected:
  static Result<api::CallerRef> CallerOf(const std::string& credential, const std::string& tenant) {
    return std::make_shared<const api::Caller>(
        api::Caller{.tenant = tenant, .credential = credential, .models = {}, .limits = {}});
  }

  ProfileFixture() { profile_options_.node = "node-1"; }

  void Start() override {
    SessionsFixture::Start();
    Result<std::unique_ptr<Profile>> made = Profile::Make(
        profile_options_, Services{.port = port_,
                                   .sessions = *sessions_,
                                   .responses = *responses_,
                                   .inference = models_,
                                   .clock = clock_,
                                   .unix_ms = [this] { return UnixSeconds()() * 1000; },
                                   .log = log_,
                                   .admit =
                                       [this](const sessions::SessionKey& key) {
                                         const Status status = admit_ ? admit_(key) : OkStatus();
                                         return status.ok() ? Result<sessions::Admitted>(nullptr)
                                                            : status;
                                       },
                                   .caller_of = &CallerOf,
                                   .watch_job = watch_job_});
    ASSERT_TRUE(made.ok()) << made.status();
    profile_ = *std::move(made);
    ASSERT_TRUE(profile_->Subscribe().ok());
  }
  void Stop() override {
    profile_.reset();
    SessionsFixture::Stop();
  }
  // Restarts with the options that the test has set meanwhile.
  void Again() {
    Stop();
    port_.~ScriptedPort();
    new (&port_) ScriptedPort(clock_);
    Start();
  }

  // Also waits until the results of publications have come back.
  void Settle() {
    SessionsFixture::Settle();
    SessionsFixture::Settle();
  }
  void StepAll() {
    Settle();
    while (inference_->Step()) Settle();
  }

  using Delivery = ScriptedPort::Delivery;

  Delivery Deliver(Message message) {
    const Delivery delivery = port_.Deliver(message);
    Settle();
    return delivery;
  }
  Delivery Deliver(const std::string& topic, const std::string& payload,
                   const std::string& response_topic = "",
                   std::optional<std::string> correlation = std::nullopt) {
    Message message;
    message.topic = topic;
    message.payload = payload;
    message.qos = 1;
    message.response_topic = response_topic;
    message.correlation_data = std::move(correlation);
    return Deliver(std::move(message));
  }
  static bool Accepted(const Delivery& delivery) {
    return delivery.told->has_value() && (*delivery.told)->ok();
  }
  using SessionsFixture::Accepted;

  // --- the native profile ---
  static std::string Topic(const std::string& channel, const std::string& session = "s",
                           const std::string& user = "alice") {
    return "llm/v1/" + user + "/" + session + "/" + channel;
  }
  static std::string MessageJson(const std::string& text, const std::string& id,
                                 const std::string& more = "") {
    return R"({"id":")" + id + R"(","type":"message","input":")" + text + "\"" +
           (more.empty() ? "" : "," + more) + "}";
  }
  using SessionsFixture::HistoryText;

  std::vector<Event> Events(const std::string& topic) const {
    std::vector<Event> events;
    for (const Sent& each : port_.sent(topic)) events.emplace_back(each.message.payload);
    return events;
  }
  std::vector<std::string> Types(const std::string& topic) const {
    std::vector<std::string> types;
    for (const Event& event : Events(topic)) types.push_back(event.Text("type"));
    return types;
  }
  // The only one of that type, or else the test fails.
  Event Only(const std::string& topic, const std::string& type) const {
    std::vector<Event> found;
    for (const Event& event : Events(topic)) {
      if (event.Text("type") == type) found.push_back(event);
    }
    EXPECT_EQ(found.size(), 1u) << type << " on " << topic;
    return found.empty() ? Event("") : found[0];
  }

  // Advances the clock, and runs what is due.
  void Advance(Duration time) {
    Pass(time);
    Settle();
  }
  // The model does its work, a step of `time` each.
  void Work(Duration time) {
    Settle();
    while (inference_->Step()) {
      Settle();
      Advance(time);
    }
  }

  ProfileOptions profile_options_;
  ScriptedPort port_{clock_};
  static api::testing::FakeModel Model(const std::string& id) {
    api::testing::FakeModel model;
    model.info.id = id;
    return model;
  }
  api::testing::FakeInference models_{{Model("small"), Model("other")}};
  std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
  Logger log_{LogLevel::kInfo, lines_};
  std::function<Status(const sessions::SessionKey&)> admit_;
  decltype(Services::watch_job) watch_job_;
  std::unique_ptr<Profile> profile_;
};

}  // namespace tutti::mqtt::chat::testing
