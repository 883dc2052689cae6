#include <boost/json/serialize.hpp>

#include "client/mqtt/dialect.h"

namespace tutti::client {
namespace {

namespace json = boost::json;

// An error is always an envelope and never text that could be an answer. Servers that write no
// properties are recognised by the envelope's shape.
std::optional<Status> ErrorOf(const mqtt::Publish& message) {
  const std::string type = PropertyOf(message, "type");
  if (!type.empty() && type != "error") return std::nullopt;
  const json::object root = ObjectOf(message.payload);
  const json::object* const error = ObjectAt(root, "error");
  if (error == nullptr || TextAt(*error, "code").empty()) {
    if (type.empty()) return std::nullopt;
    return Unavailable("bad_response", "the server's answer holds an error that cannot be read");
  }
  return ErrorIn(*error);
}

class ProjectReply final : public MqttReply {
 public:
  ProjectReply(std::string topic, MqttSend question)
      : topic_(std::move(topic)), question_(std::move(question)) {}

  bool accepted() const override { return accepted_; }

  Update Take(const mqtt::Publish& message) override {
    if (message.topic != topic_) return {};
    accepted_ = true;
    Update update;
    if (const std::optional<Status> error = ErrorOf(message); error.has_value()) {
      update.ended = true;
      update.status = *error;
      return update;
    }
    const json::object body = ObjectOf(message.payload);
    const json::value* const final = body.if_contains("final");
    // Plain text is the whole answer; JSON says whether it is a part of it.
    const bool plain = final == nullptr || !final->is_bool() || PlainText(message);
    if (plain || final->get_bool()) return Whole(plain ? message.payload : TextAt(body, "text"));
    const int64_t index = NumberAt(body, "index").value_or(-1);
    if (index != next_) return update;  // seen, or behind one that was lost: the last has it all
    ++next_;
    update.text = TextAt(body, "text");
    shown_ += update.text;
    return update;
  }

  // The same request is answered once, and its answer again.
  MqttSend AfterLoss() const override { return question_; }
  std::optional<MqttSend> Cancel() const override { return std::nullopt; }

 private:
  static bool PlainText(const mqtt::Publish& message) {
    return message.properties.content_type.value_or("").starts_with("text/plain");
  }

  Update Whole(const std::string& text) {
    Update update;
    update.ended = true;
    update.text = text.starts_with(shown_) ? text.substr(shown_.size()) : "\n" + text;
    shown_ = text;
    return update;
  }

  const std::string topic_;
  const MqttSend question_;
  std::string shown_;
  int64_t next_ = 0;
  bool accepted_ = false;
};

class ProjectDialect final : public MqttDialect {
 public:
  ProjectDialect(std::string project, std::string session, std::string client)
      : project_(std::move(project)), session_(std::move(session)), client_(std::move(client)) {}

  std::string replies() const override { return OwnReplies() + "/+"; }
  std::string status() const override { return project_ + "/status"; }
  bool has_acceptance() const override { return false; }

  std::optional<bool> OnlineIn(const mqtt::Publish& message) const override {
    if (message.topic != status()) return std::nullopt;
    return TextAt(ObjectOf(message.payload), "status") == "online";
  }

  Result<MqttSend> Ask(const MqttQuestion& question) const override {
    const char* const cannot = !question.model.empty()                ? "a model"
                               : question.seed.has_value()            ? "a seed"
                               : question.top_k.has_value()           ? "top-k"
                               : !question.template_arguments.empty() ? "template options"
                                                                      : nullptr;
    if (cannot != nullptr) {
      return InvalidArgument("invalid_value",
                             "a project cannot be asked for " + std::string(cannot));
    }
    json::object body{{"sessionId", session_},
                      {"message", question.text},
                      {"clientId", client_},
                      {"requestId", question.id},
                      {"replyTopic", ReplyTopic(question.id)}};
    if (!question.system.empty()) body["systemPrompt"] = question.system;
    if (question.temperature.has_value()) body["temperature"] = *question.temperature;
    if (question.top_p.has_value()) body["topP"] = *question.top_p;
    if (question.max_tokens.has_value()) body["maxTokens"] = *question.max_tokens;
    return MqttSend{project_ + "/user_input", json::serialize(body), question.id};
  }

  std::unique_ptr<MqttReply> Reply(const MqttQuestion& question) const override {
    return std::make_unique<ProjectReply>(ReplyTopic(question.id), *Ask(question));
  }

  std::optional<MqttSend> AskHistory(const std::string&) const override { return std::nullopt; }
  std::optional<Result<std::vector<MqttItem>>> HistoryIn(const mqtt::Publish&,
                                                         const std::string&) const override {
    return std::nullopt;
  }

  MqttSend Clear(const std::string& id) const override {
    const json::object body{{"session_id", session_}, {"clientId", client_}, {"requestId", id}};
    return MqttSend{project_ + "/clear", json::serialize(body), id};
  }

  std::optional<Status> ClearedIn(const mqtt::Publish& message,
                                  const std::string& id) const override {
    if (message.topic != ReplyTopic(id)) return std::nullopt;
    if (std::optional<Status> error = ErrorOf(message); error.has_value()) return error;
    return OkStatus();
  }

 private:
  std::string OwnReplies() const {
    return project_ + "/assistant_response/" + session_ + "/" + client_;
  }
  std::string ReplyTopic(const std::string& id) const { return OwnReplies() + "/" + id; }

  const std::string project_, session_, client_;
};

}  // namespace

Result<std::unique_ptr<MqttDialect>> MakeProjectDialect(const std::string& project,
                                                        const std::string& session,
                                                        const std::string& client) {
  RETURN_IF_ERROR(CheckLevel(project, "the project"));
  RETURN_IF_ERROR(CheckLevel(session, "the session"));
  RETURN_IF_ERROR(CheckLevel(client, "the client"));
  return std::unique_ptr<MqttDialect>(std::make_unique<ProjectDialect>(project, session, client));
}

}  // namespace tutti::client
