#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/names.h"
#include "cli/chat_partner.h"
#include "client/mqtt/chat.h"
#include "mqtt/address.h"

namespace tutti::cli {
namespace {

// The user name in topics if none is given: an open server's name for anonymous users.
constexpr char kNobody[] = "local";

class MqttPartner final : public ChatPartner {
 public:
  MqttPartner(MqttPartnerOptions options, std::string model, const SamplingOptions& sampling)
      : options_(std::move(options)),
        model_(std::move(model)),
        sampling_(sampling),
        client_(client::RandomName("chat-")),
        session_(options_.session.empty() ? client::RandomName("chat-") : options_.session) {
    if (options_.user.empty()) options_.user = kNobody;
  }

  Status Begin(const mqtt::Address& address, bool told_user) {
    client::MqttChatOptions chat;
    chat.connection.address = address;
    chat.connection.ca_file = options_.ca_file;
    chat.connection.session.login.client_id = client_;
    if (told_user) chat.connection.session.login.user = options_.user;
    chat.connection.session.login.password = options_.password;
    chat.connection.session.login.keep_alive_s = 0;  // no pings are sent while the prompt waits
    ASSIGN_OR_RETURN(std::unique_ptr<client::MqttDialect> dialect, Dialect());
    Result<std::unique_ptr<client::MqttChat>> begun =
        client::MqttChat::Begin(chat, std::move(dialect));
    if (!begun.ok()) return NotBegun(begun.status());
    chat_ = *std::move(begun);
    introduction_ =
        (options_.project.empty() ? "user " + options_.user : "project " + options_.project) +
        ", session " + session_ + " at " + mqtt::UrlOf(address);
    return OkStatus();
  }

  const std::string& introduction() const override { return introduction_; }

  Status Answer(const std::vector<api::ChatMessage>& messages, const AnswerSink& sink,
                const std::function<bool()>& stopped) override {
    return chat_->Ask(
        Question(messages),
        {.on_text = sink.text,
         .on_hold =
             [](Duration hold) {
               std::fprintf(stderr, "(the server asks to wait %.1f s)\n", ToSeconds(hold));
             },
         .stopped = stopped,
         .on_notice =
             [](const std::string& notice) { std::fprintf(stderr, "(%s)\n", notice.c_str()); },
         .on_reasoning = sink.reasoning});
  }

  Result<std::optional<std::vector<api::ChatMessage>>> History() override {
    if (!options_.project.empty()) return std::optional<std::vector<api::ChatMessage>>();
    ASSIGN_OR_RETURN(const std::vector<client::MqttItem> items, chat_->History());
    std::vector<api::ChatMessage> messages;
    for (const client::MqttItem& item : items)
      messages.push_back({api::FindRole(item.role).value_or(api::Role::kSystem), item.content, ""});
    return std::optional(std::move(messages));
  }

  Result<std::string> Forget() override {
    // A named session keeps its name, so it is cleared instead of replaced.
    if (!options_.project.empty() || !options_.session.empty()) {
      RETURN_IF_ERROR(chat_->Clear());
      return std::string("forgotten");
    }
    session_ = client::RandomName("chat-");
    ASSIGN_OR_RETURN(std::unique_ptr<client::MqttDialect> dialect, Dialect());
    RETURN_IF_ERROR(chat_->GoOnWith(std::move(dialect)));
    return "a new session: " + session_;
  }

 private:
  Result<std::unique_ptr<client::MqttDialect>> Dialect() const {
    return options_.project.empty()
               ? client::MakeNativeDialect(options_.prefix, options_.user, session_)
               : client::MakeProjectDialect(options_.project, session_, client_);
  }

  // Servers and brokers give the same error for a missing project and for another user's.
  Status NotBegun(const Status& why) const {
    if (why.reason() == "invalid_api_key" && !options_.password.has_value())
      return Status(why.code(), why.reason(),
                    why.message() + "; give --user, and --password-file or --ask-password");
    if (options_.project.empty() || why.reason() != "insufficient_scope") return why;
    return Status(why.code(), why.reason(),
                  "user " + options_.user + " may not use project " + options_.project +
                      ", or there is none: " + why.message());
  }

  // Sends only options that the user set; the server chooses the others.
  client::MqttQuestion Question(const std::vector<api::ChatMessage>& messages) const {
    client::MqttQuestion question;
    question.text = messages.back().content;
    if (messages.front().role == api::Role::kSystem) question.system = messages.front().content;
    question.model = model_;
    const api::SamplingParams params = sampling_.Params();
    if (params.temperature.given()) question.temperature = params.temperature;
    question.max_tokens = params.max_tokens;
    question.seed = params.seed;
    if (params.top_p.given()) question.top_p = params.top_p;
    if (params.top_k.given()) question.top_k = params.top_k;
    question.template_arguments = sampling_.template_arguments();
    return question;
  }

  MqttPartnerOptions options_;
  const std::string model_;
  const SamplingOptions& sampling_;
  const std::string client_;
  std::string session_;
  std::unique_ptr<client::MqttChat> chat_;
  std::string introduction_;
};

// Rejects options that the project profile does not have, before the user types.
Status CheckProject(const std::string& model, const SamplingOptions& sampling) {
  const char* const cannot = !model.empty()                             ? "MODEL"
                             : sampling.Given("--seed")                 ? "--seed"
                             : sampling.Given("--top-k")                ? "--top-k"
                             : sampling.Given("--chat-template-kwargs") ? "--chat-template-kwargs"
                                                                        : nullptr;
  if (cannot == nullptr) return OkStatus();
  return InvalidArgument("invalid_value",
                         std::string(cannot) + ": with --project that is the project's to choose");
}

}  // namespace

Result<std::unique_ptr<ChatPartner>> MakeMqttPartner(const MqttPartnerOptions& options,
                                                     const std::string& model,
                                                     const SamplingOptions& sampling) {
  Result<mqtt::Address> address = mqtt::ParseAddress(options.url);
  if (!address.ok()) return std::move(address).status().WithContext("--mqtt");
  if (!options.project.empty()) RETURN_IF_ERROR(CheckProject(model, sampling));
  auto partner = std::make_unique<MqttPartner>(options, model, sampling);
  RETURN_IF_ERROR(partner->Begin(*address, !options.user.empty()));
  return std::unique_ptr<ChatPartner>(std::move(partner));
}

}  // namespace tutti::cli
