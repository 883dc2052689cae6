#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "client/mqtt/dialect.h"

namespace tutti::client {
namespace {

namespace json = boost::json;

constexpr int kHistoryItems = 100;

struct Topics {
  std::string in, out, control;
};

class NativeReply final : public MqttReply {
 public:
  NativeReply(Topics topics, MqttSend question, std::string id)
      : topics_(std::move(topics)), question_(std::move(question)), id_(std::move(id)) {}

  bool accepted() const override { return !response_.empty(); }

  Update Take(const mqtt::Publish& message) override {
    if (message.topic != topics_.out || message.properties.correlation_data != id_) return {};
    const json::object event = ObjectOf(message.payload);
    const std::string type = TextAt(event, "type");
    if (type == "accepted") response_ = TextAt(event, "response_id");
    if (type == "error") return TakeError(event);
    const std::optional<int64_t> last = NumberAt(event, "sequence_number");
    if (!last.has_value() || *last <= seen_) return {};
    if (type == "response.completed" || type == "response.incomplete") return TakeEnd(event);
    if (type == "response.failed" || type == "response.cancelled") return TakeFailure(event, type);
    if (NumberAt(event, "first_sequence_number").value_or(*last) != seen_ + 1) return Lost();
    seen_ = *last;
    Update update;
    if (type == "response.output_text.delta") update.text = TextAt(event, "delta");
    if (type == "response.reasoning_text.delta") update.reasoning = TextAt(event, "delta");
    shown_ += update.text;
    return update;
  }

  MqttSend AfterLoss() const override { return response_.empty() ? question_ : Control("resume"); }

  std::optional<MqttSend> Cancel() const override { return Control("cancel"); }

 private:
  MqttSend Control(const char* verb) const {
    json::object control{{"type", verb}, {"id", id_}};
    if (!response_.empty()) control["response_id"] = response_;
    if (std::string_view(verb) == "resume" && seen_ >= 0) control["starting_after"] = seen_;
    return {topics_.control, json::serialize(control), id_};
  }

  // Events are missing: requests them once, and ignores later events until they arrive.
  Update Lost() {
    if (response_.empty() || asked_after_ == seen_) return {};
    asked_after_ = seen_;
    Update update;
    update.send = Control("resume");
    return update;
  }

  // The last event has the whole answer, even if earlier events were lost.
  Update TakeEnd(const json::object& event) {
    Update update;
    update.ended = true;
    const json::object* const response = ObjectAt(event, "response");
    const std::string whole = response == nullptr ? "" : OutputTextIn(*response).value_or("");
    if (whole.starts_with(shown_)) {
      update.text = whole.substr(shown_.size());
    } else {
      update.text = "\n" + whole;  // the shown text differs: show the answer again
    }
    shown_ = whole;
    return update;
  }

  static Update TakeFailure(const json::object& event, const std::string& type) {
    Update update;
    update.ended = true;
    const json::object* const response = ObjectAt(event, "response");
    const json::object* const error = response == nullptr ? nullptr : ObjectAt(*response, "error");
    if (type == "response.cancelled") {
      update.status = Status(StatusCode::kCancelled, "cancelled", "the turn was cancelled");
    } else {
      update.status = ErrorIn(error == nullptr ? json::object() : *error);
    }
    return update;
  }

  Update TakeError(const json::object& event) {
    Update update;
    update.status = ErrorIn(event);
    // In mid-answer, `expired` means that old events were dropped; the last event still comes.
    update.ended = !accepted() || update.status.reason() != "expired";
    if (!update.ended) update.status = OkStatus();
    return update;
  }

  const Topics topics_;
  const MqttSend question_;
  const std::string id_;
  std::string response_;  // once it is accepted
  std::string shown_;
  int64_t seen_ = -1;         // the last event without a gap
  int64_t asked_after_ = -2;  // the last resume
};

class NativeDialect final : public MqttDialect {
 public:
  NativeDialect(const std::string& prefix, const std::string& base)
      : servers_(prefix + "/server/"), topics_{base + "/in", base + "/out", base + "/ctl"} {}

  std::string replies() const override { return topics_.out; }
  std::string status() const override { return servers_ + "+/status"; }
  bool has_acceptance() const override { return true; }

  std::optional<bool> OnlineIn(const mqtt::Publish& message) const override {
    if (!message.topic.starts_with(servers_) || !message.topic.ends_with("/status"))
      return std::nullopt;
    const json::object status = ObjectOf(message.payload);
    const json::value* const online = status.if_contains("online");
    return online != nullptr && online->is_bool() && online->get_bool();
  }

  Result<MqttSend> Ask(const MqttQuestion& question) const override {
    json::object body{{"id", question.id}, {"type", "message"}, {"input", question.text}};
    if (!question.system.empty()) body["instructions"] = question.system;
    if (!question.model.empty()) body["model"] = question.model;
    if (question.temperature.has_value()) body["temperature"] = *question.temperature;
    if (question.top_p.has_value()) body["top_p"] = *question.top_p;
    if (question.top_k.has_value()) body["top_k"] = *question.top_k;
    if (question.seed.has_value()) body["seed"] = *question.seed;
    if (question.max_tokens.has_value()) body["max_output_tokens"] = *question.max_tokens;
    if (!question.template_arguments.empty())
      body["chat_template_kwargs"] = json::parse(question.template_arguments);
    return MqttSend{topics_.in, json::serialize(body), question.id};
  }

  std::unique_ptr<MqttReply> Reply(const MqttQuestion& question) const override {
    return std::make_unique<NativeReply>(topics_, *Ask(question), question.id);
  }

  std::optional<MqttSend> AskHistory(const std::string& id) const override {
    return MqttSend{
        topics_.control,
        json::serialize(json::object{{"type", "history"}, {"id", id}, {"limit", kHistoryItems}}),
        id};
  }

  std::optional<Result<std::vector<MqttItem>>> HistoryIn(const mqtt::Publish& message,
                                                         const std::string& id) const override {
    if (message.topic != topics_.out || message.properties.correlation_data != id)
      return std::nullopt;
    const json::object event = ObjectOf(message.payload);
    if (TextAt(event, "type") == "error") return Result<std::vector<MqttItem>>(ErrorIn(event));
    const json::value* const list = event.if_contains("items");
    if (TextAt(event, "type") != "history" || list == nullptr || !list->is_array())
      return std::nullopt;
    std::vector<MqttItem> items;
    for (const json::value& each : list->get_array()) {
      if (!each.is_object()) continue;
      items.push_back({TextAt(each.get_object(), "role"), TextAt(each.get_object(), "content")});
    }
    return Result<std::vector<MqttItem>>(std::move(items));
  }

  MqttSend Clear(const std::string& id) const override {
    return {topics_.control, json::serialize(json::object{{"type", "clear"}, {"id", id}}), id};
  }
  std::optional<Status> ClearedIn(const mqtt::Publish& message,
                                  const std::string& id) const override {
    if (message.topic != topics_.out || message.properties.correlation_data != id)
      return std::nullopt;
    const json::object event = ObjectOf(message.payload);
    if (TextAt(event, "type") == "error") return ErrorIn(event);
    if (TextAt(event, "type") != "cleared") return std::nullopt;
    return OkStatus();
  }

 private:
  const std::string servers_;  // topic levels above each server's
  const Topics topics_;
};

}  // namespace

Result<std::unique_ptr<MqttDialect>> MakeNativeDialect(const std::string& prefix,
                                                       const std::string& user,
                                                       const std::string& session) {
  RETURN_IF_ERROR(CheckLevel(user, "the user"));
  RETURN_IF_ERROR(CheckLevel(session, "the session"));
  return std::unique_ptr<MqttDialect>(
      std::make_unique<NativeDialect>(prefix, prefix + "/" + user + "/" + session));
}

}  // namespace tutti::client
