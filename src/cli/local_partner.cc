#include <optional>
#include <utility>

#include "app/blocking_waker.h"
#include "app/loading/loading.h"
#include "app/local_dialog.h"
#include "app/local_inference.h"
#include "cli/chat_partner.h"

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

}  // namespace

Result<std::unique_ptr<ChatPartner>> MakeLocalPartner(const std::string& model,
                                                      const app::Settings& settings,
                                                      const SamplingOptions& sampling,
                                                      const std::optional<KeptDialog>& kept) {
  ASSIGN_OR_RETURN(const app::ModelRef ref, app::ResolveModel(model));
  auto partner = std::make_unique<LocalPartner>(settings, sampling);
  RETURN_IF_ERROR(partner->Load(ref, kept));
  return std::unique_ptr<ChatPartner>(std::move(partner));
}

}  // namespace tutti::cli
