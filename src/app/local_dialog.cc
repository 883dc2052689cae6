#include "app/local_dialog.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <system_error>
#include <utility>

#include "api/models.h"
#include "app/blocking_waker.h"
#include "app/store.h"
#include "base/clock.h"
#include "base/random.h"
#include "services/responses/response.h"

namespace tutti::app {
namespace {

constexpr char kLocalTenant[] = "default", kProject[] = "terminal";
constexpr auto kLook = std::chrono::milliseconds(50);  // poll interval of `stopped`
constexpr int64_t kNever = int64_t{100} * 365 * 24 * 3600;

// Blocks until a call of Sessions has called back, and returns the value.
template <typename T, typename Call>
T Await(Call call) {
  auto told = std::make_shared<std::promise<T>>();
  std::future<T> answer = told->get_future();
  call([told](T value) { told->set_value(std::move(value)); });
  return answer.get();
}

// Dialogs in the user's own store never expire. The prompt limit leaves a quarter of the context of
// a small model for the answer.
sessions::SessionOptions OptionsFor(LocalInference& inference, const std::string& model) {
  sessions::SessionOptions options;
  options.ttl_s = kNever;
  const api::ModelList models = inference.gateway().Models();
  if (const api::ModelInfo* const info = api::FindModel(models, model))
    options.window.limit = std::min(options.window.limit, info->max_model_len * 3 / 4);
  return options;
}

Status EndOf(const protocol::ResponseState& state) {
  switch (state.status) {
    case protocol::ResponseStatus::kCancelled:
      return {StatusCode::kCancelled, "cancelled", "the answer was stopped"};
    case protocol::ResponseStatus::kFailed:
      return responses::FailureOf(state);
    default:
      return OkStatus();
  }
}

}  // namespace

Result<std::unique_ptr<LocalDialog>> LocalDialog::Open(LocalInference& inference, Options options) {
  ASSIGN_OR_RETURN(std::unique_ptr<store::Store> store, OpenStore(options.folder));
  try {
    std::unique_ptr<LocalDialog> dialog(
        new LocalDialog(inference, std::move(options), std::move(store)));
    RETURN_IF_ERROR(dialog->History().status());
    return dialog;
  } catch (const std::system_error& error) {  // the system refused a thread
    return Unavailable("overloaded", std::string("the dialog cannot start: ") + error.what());
  }
}

LocalDialog::LocalDialog(LocalInference& inference, Options options,
                         std::unique_ptr<store::Store> store)
    : options_(std::move(options)),
      key_{kLocalTenant, kProject, options_.session},
      store_(std::move(store)),
      responses_({}, inference.gateway(), *store_, inference.clock(), &UnixSeconds),
      sessions_(OptionsFor(inference, options_.model), inference.gateway(), *store_, responses_,
                inference.clock(), &UnixSeconds) {}

LocalDialog::~LocalDialog() = default;

Status LocalDialog::Ask(const Question& question,
                        const std::function<void(std::string_view)>& on_text,
                        const std::function<bool()>& stopped,
                        const std::function<void(std::string_view)>& on_reasoning) {
  sessions::Message message;
  message.id = NewId("m_");
  message.input = {{api::Role::kUser, question.text, ""}};
  message.request.model = message.state.model = options_.model;
  message.request.sampling = question.sampling;
  message.request.prompt = api::ChatPrompt{.template_arguments = question.template_arguments};
  message.state.store = false;  // its text is the dialog's
  message.state.truncation = "auto";
  if (!question.system.empty()) message.system_prompt = question.system;
  const std::string id = message.id;
  using Accepted = Result<sessions::Acceptance>;
  const Accepted accepted = Await<Accepted>(
      [&](auto done) { sessions_.Submit(key_, std::move(message), std::move(done)); });
  if (!accepted.ok()) return accepted.status();
  const auto waker = std::make_shared<BlockingWaker>();
  ASSIGN_OR_RETURN(responses::ResponseReader reader,
                   responses::ResponseReader::Attach(accepted->response, -1, waker));
  size_t told = 0, told_reasoning = 0;
  bool cancelled = false;
  while (true) {
    const uint64_t seen = waker->count();
    const bool ended = accepted->response->ended();
    const protocol::ResponseState state = accepted->response->State();
    std::string reasoning;
    for (const protocol::OutputReasoning& part : state.reasoning) reasoning += part.text;
    if (on_reasoning && !cancelled && reasoning.size() > told_reasoning) {
      on_reasoning(std::string_view(reasoning).substr(told_reasoning));
      told_reasoning = reasoning.size();
    }
    if (!cancelled && state.text.size() > told) {
      on_text(std::string_view(state.text).substr(told));
      told = state.text.size();
    }
    if (ended) return EndOf(state);
    if (!cancelled && stopped()) {
      // If the turn has already ended, the answer is kept and shown completely.
      cancelled =
          Await<Status>([&](auto done) { sessions_.Cancel(key_, id, std::move(done)); }).ok();
    }
    waker->Wait(seen, std::chrono::steady_clock::now() + kLook);
  }
}

Result<std::vector<api::ChatMessage>> LocalDialog::History() {
  using List = Result<sessions::ItemList>;
  const List list = Await<List>([&](auto done) {
    sessions_.History(key_, {.limit = 100, .ascending = false, .after = {}}, std::move(done));
  });
  std::vector<api::ChatMessage> messages;
  if (list.status().code() == StatusCode::kNotFound) return messages;
  if (!list.ok()) return list.status();
  for (auto item = list->items.rbegin(); item != list->items.rend(); ++item)
    messages.push_back({item->role, item->content, ""});
  return messages;
}

Status LocalDialog::Clear() {
  return Await<Status>([&](auto done) { sessions_.Clear(key_, std::move(done)); });
}

}  // namespace tutti::app
