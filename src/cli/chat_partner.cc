#include "cli/chat_partner.h"

#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "api/names.h"
#include "app/blocking_waker.h"
#include "app/loading/loading.h"
#include "app/local_dialog.h"
#include "app/local_inference.h"
#include "cli/pull.h"
#include "client/http_client.h"
#include "client/served_models.h"

namespace tutti::cli {
namespace {

class LocalPartner final : public ChatPartner {
 public:
  LocalPartner(const app::Settings& settings, const SamplingOptions& sampling)
      : sampling_(sampling), inference_(settings, nullptr) {}

  Status Load(const app::ModelRef& ref, const std::optional<KeptDialog>& kept) {
    ASSIGN_OR_RETURN(app::OpenedModel opened, app::OpenOne(inference_, ref));
    RETURN_IF_ERROR(app::MustChat(opened, ref));
    introduction_ = ref.served_name + ": " + opened.summary();
    RETURN_IF_ERROR(inference_.Load(std::move(opened)));
    if (!kept.has_value()) return OkStatus();
    ASSIGN_OR_RETURN(dialog_, app::LocalDialog::Open(inference_, {.folder = kept->folder,
                                                                  .session = kept->session,
                                                                  .model = ref.served_name}));
    introduction_ += "; session " + kept->session;
    return OkStatus();
  }

  const std::string& introduction() const override { return introduction_; }

  Status Answer(const std::vector<api::ChatMessage>& messages, const AnswerSink& sink,
                const std::function<bool()>& stopped) override {
    if (dialog_ != nullptr) {
      app::LocalDialog::Question question{.text = messages.back().content,
                                          .system = "",
                                          .sampling = Sampling(),
                                          .template_arguments = sampling_.template_arguments()};
      if (messages.front().role == api::Role::kSystem) question.system = messages.front().content;
      return dialog_->Ask(question, sink.text, stopped, sink.reasoning);
    }
    api::GenerateRequest request;
    request.prompt =
        api::ChatPrompt{.messages = messages, .template_arguments = sampling_.template_arguments()};
    request.sampling = Sampling();
    auto waker = std::make_shared<app::BlockingWaker>();
    ASSIGN_OR_RETURN(api::Generation generation,
                     inference_.gateway().Generate(std::move(request), waker));
    bool cancelled = false;
    while (!generation.stream().ended() || generation.stream().size() > 0) {
      const api::StreamEvent* event = waker->Next(generation, std::chrono::milliseconds(50));
      if (!cancelled && stopped()) {
        generation.Cancel();
        cancelled = true;
      }
      if (event == nullptr) continue;
      sink.reasoning(event->reasoning);
      sink.text(event->text);
      if (event->kind == api::StreamEvent::Kind::kEnd) break;
    }
    if (cancelled) return {StatusCode::kCancelled, "cancelled", "the answer was stopped"};
    return generation.stream().status();
  }

  Result<std::optional<std::vector<api::ChatMessage>>> History() override {
    if (dialog_ == nullptr) return std::optional<std::vector<api::ChatMessage>>();
    ASSIGN_OR_RETURN(std::vector<api::ChatMessage> messages, dialog_->History());
    return std::optional(std::move(messages));
  }

  Result<std::string> Forget() override {
    if (dialog_ != nullptr) RETURN_IF_ERROR(dialog_->Clear());
    return std::string("forgotten");
  }

 private:
  api::SamplingParams Sampling() {
    return sampling_.Params(inference_.gateway().Models().front().sampling);
  }

  const SamplingOptions& sampling_;
  app::LocalInference inference_;
  std::unique_ptr<app::LocalDialog> dialog_;  // null: the messages are all there is
  std::string introduction_;
};

namespace json = boost::json;

// Time limit for the first byte of an answer: the server may be loading its model, or the request
// may be queued.
constexpr std::chrono::minutes kAnswerPatience{10};
constexpr std::chrono::seconds kListPatience{30};

std::string TextAt(const json::value& root, std::string_view pointer) {
  boost::system::error_code failed;
  const json::value* found = root.find_pointer(pointer, failed);
  return failed || found == nullptr || !found->is_string() ? "" : std::string(found->get_string());
}

Status WithFileHint(Status failure) {
  if (failure.code() != StatusCode::kUnauthenticated) return failure;
  return Status(failure.code(), failure.reason(),
                failure.message() + "; --api-key-file FILE gives the key to send");
}

class ServerPartner final : public ChatPartner {
 public:
  ServerPartner(client::Server server, std::string model, std::string api_key,
                const SamplingOptions& sampling)
      : server_(std::move(server)),
        model_(std::move(model)),
        api_key_(std::move(api_key)),
        sampling_(sampling),
        introduction_(model_ + " at http://" +
                      (server_.host.find(':') == std::string::npos ? server_.host
                                                                   : "[" + server_.host + "]") +
                      ":" + server_.port + server_.base) {}

  const std::string& introduction() const override { return introduction_; }

  Status Answer(const std::vector<api::ChatMessage>& messages, const AnswerSink& sink,
                const std::function<bool()>& stopped) override {
    Status failure;
    bool has_choices = false;  // some servers end an answer with an event without any
    const auto on_event = [&](std::string_view data, TimePoint) {
      if (!failure.ok() || data == "[DONE]") return;
      boost::system::error_code failed;
      const json::value event = json::parse(data, failed);
      if (failed) {
        failure = Unavailable("bad_response", "the server's answer is not JSON");
      } else if (const std::string error = client::ErrorText(event); !error.empty()) {
        failure = Unavailable("server_error", error);
      } else {
        has_choices |= event.is_object() && event.get_object().contains("choices");
        for (const std::string part : {"delta", "message"}) {  // "message": it does not stream
          const std::string at = "/choices/0/" + part;
          // Servers have two names for it, and some send both.
          const std::string reasoning = TextAt(event, at + "/reasoning_content");
          sink.reasoning(reasoning.empty() ? TextAt(event, at + "/reasoning") : reasoning);
          sink.text(TextAt(event, at + "/content"));
        }
      }
    };
    RETURN_IF_ERROR(WithFileHint(client::PostStream(server_, "/v1/chat/completions", Body(messages),
                                                    api_key_, kAnswerPatience, on_event, stopped)));
    if (failure.ok() && !has_choices)
      return Unavailable("bad_response", "the server's answer holds neither text nor an error");
    return failure;
  }

 private:
  // Sends only options that the user set, because other servers may refuse unknown fields.
  std::string Body(const std::vector<api::ChatMessage>& messages) const {
    json::array list;
    for (const api::ChatMessage& message : messages)
      list.push_back({{"role", api::RoleName(message.role)}, {"content", message.content}});
    const api::SamplingParams params = sampling_.Params();
    json::object body{{"model", model_}, {"messages", std::move(list)}, {"stream", true}};
    if (params.temperature.given()) body["temperature"] = params.temperature.value();
    if (params.max_tokens.has_value()) body["max_tokens"] = *params.max_tokens;
    if (params.seed.has_value()) body["seed"] = *params.seed;
    if (params.top_p.given()) body["top_p"] = params.top_p.value();
    if (params.top_k.given()) body["top_k"] = params.top_k.value();
    if (!sampling_.template_arguments().empty())
      body["chat_template_kwargs"] = json::parse(sampling_.template_arguments());
    return json::serialize(body);
  }

  const client::Server server_;
  const std::string model_, api_key_;
  const SamplingOptions& sampling_;
  const std::string introduction_;
};

}  // namespace

Result<std::unique_ptr<ChatPartner>> MakeLocalPartner(const std::string& model,
                                                      const app::Settings& settings,
                                                      const SamplingOptions& sampling,
                                                      const std::optional<KeptDialog>& kept) {
  ASSIGN_OR_RETURN(const app::ModelRef ref, FindModel(settings, model));
  auto partner = std::make_unique<LocalPartner>(settings, sampling);
  RETURN_IF_ERROR(partner->Load(ref, kept));
  return std::unique_ptr<ChatPartner>(std::move(partner));
}

Result<std::unique_ptr<ChatPartner>> MakeServerPartner(const std::string& url,
                                                       const std::string& model,
                                                       const std::string& api_key,
                                                       const SamplingOptions& sampling) {
  ASSIGN_OR_RETURN(client::Server server, client::ParseServer(url));
  Result<std::string> chosen =
      client::ChooseModel({server, api_key, kListPatience}, model, "generate");
  if (!chosen.ok()) return WithFileHint(std::move(chosen).status());
  std::string name = *std::move(chosen);
  return std::unique_ptr<ChatPartner>(
      std::make_unique<ServerPartner>(std::move(server), std::move(name), api_key, sampling));
}

}  // namespace tutti::cli
