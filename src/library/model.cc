#include "tutti/model.h"

#include <signal.h>

#include <exception>
#include <map>
#include <system_error>
#include <utility>

#include "app/loading/model_registry.h"
#include "app/version.h"
#include "base/threads.h"
#include "library/convert.h"
#include "library/state.h"

namespace tutti {

// --- ModelOptions ---

struct ModelOptions::Impl {
  std::string model;
  std::map<std::string, std::string> values;  // option name -> text
  std::function<void(size_t, size_t)> progress;
};

ModelOptions::ModelOptions(std::string model) : impl_(std::make_unique<Impl>()) {
  impl_->model = std::move(model);
}
ModelOptions::ModelOptions(const ModelOptions& other)
    : impl_(std::make_unique<Impl>(*other.impl_)) {}
ModelOptions& ModelOptions::operator=(const ModelOptions& other) {
  *impl_ = *other.impl_;
  return *this;
}
ModelOptions::~ModelOptions() = default;

ModelOptions& ModelOptions::Path(std::string model) {
  impl_->model = std::move(model);
  return *this;
}
ModelOptions& ModelOptions::Set(std::string_view name, std::string_view value) {
  impl_->values[std::string(name)] = std::string(value);
  return *this;
}
ModelOptions& ModelOptions::OnProgress(std::function<void(size_t, size_t)> progress) {
  impl_->progress = std::move(progress);
  return *this;
}
ModelOptions& ModelOptions::Threads(int threads) { return Set("threads", std::to_string(threads)); }
ModelOptions& ModelOptions::Isa(std::string_view name) { return Set("isa", name); }
ModelOptions& ModelOptions::KvCacheBytes(size_t bytes) {
  return Set("kv-cache-bytes", std::to_string(bytes));
}
ModelOptions& ModelOptions::MaxNumSeqs(int sequences) {
  return Set("max-num-seqs", std::to_string(sequences));
}
ModelOptions& ModelOptions::Queue(int requests) { return Set("queue", std::to_string(requests)); }
ModelOptions& ModelOptions::Context(int tokens) { return Set("context", std::to_string(tokens)); }
ModelOptions& ModelOptions::PrefixCache(bool on) { return Set("prefix-cache", on ? "on" : "off"); }
ModelOptions& ModelOptions::Schedule(Strategy strategy) {
  switch (strategy) {
    case Strategy::kContinuous:
      return Set("strategy", "continuous");
    case Strategy::kInterleaved:
      return Set("strategy", "interleaved");
    case Strategy::kBlocking:
      return Set("strategy", "blocking");
    case Strategy::kStatic:
      return Set("strategy", "static");
  }
  return *this;
}

// --- loading ---

namespace {

// Threads started in this scope block all signals, which belong to the host program's own threads.
class NoSignalsHere {
 public:
  NoSignalsHere() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignalsHere() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignalsHere(const NoSignalsHere&) = delete;
  NoSignalsHere& operator=(const NoSignalsHere&) = delete;

 private:
  sigset_t before_;
};

// The library's options have no dashes: "--threads must be" -> "threads must be".
Status InOptionSpelling(const Status& status) {
  std::string message = status.message();
  for (const app::OptionSpec& option : app::AllOptions()) {
    const std::string flag = app::FlagName(option);
    for (size_t at = message.find(flag); at != std::string::npos; at = message.find(flag, at + 1))
      message.erase(at, 2);
  }
  return Status(status.code(), status.reason(), std::move(message)).WithParam(status.param());
}

std::vector<std::string> ModelOptionNames() {
  std::vector<std::string> names;
  for (const app::OptionSpec& option : app::AllOptions()) {
    if (option.group == app::OptionGroup::kModel) names.emplace_back(option.key);
  }
  return names;
}

Result<app::Settings> ResolveSettings(const std::map<std::string, std::string>& values) {
  app::Settings::Inputs inputs;
  inputs.flags_name = "option";
  // No queue age limit: a program must not be rejected by its own process, so accepted requests
  // wait.
  inputs.flags["sched.queue_age_s"] = "0";
  for (const auto& [name, value] : values) {
    const app::OptionSpec* option = app::FindOption(name);
    if (option == nullptr || option->group != app::OptionGroup::kModel) {
      const std::string meant = app::Suggestion(name.substr(0, 64), ModelOptionNames());
      return InvalidArgument("unknown_parameter",
                             "no model option is called " + name.substr(0, 64) +
                                 (meant.empty() ? "" : "; did you mean " + meant + "?"))
          .WithParam(name);
    }
    inputs.flags[option->key] = value;
  }
  Result<app::Settings> settings = app::Settings::Resolve(inputs);
  if (!settings.ok()) return InOptionSpelling(settings.status());
  return settings;
}

Result<std::shared_ptr<Model::State>> LoadState(const std::string& model,
                                                const ModelOptions::Impl& options, Error* failed) {
  ASSIGN_OR_RETURN(app::Settings settings, ResolveSettings(options.values));
  ASSIGN_OR_RETURN(const app::ModelRef ref, app::ResolveModel(model));
  const NoSignalsHere scope;
  auto state = std::make_shared<Model::State>(std::move(settings));
  Result<app::OpenedModel> opened = state->inference.Open(ref);
  if (!opened.ok()) return InOptionSpelling(opened.status());
  state->info.summary = opened->summary();
  // An exception of the callback must not pass through the loader, which is running threads.
  std::exception_ptr thrown;
  const auto progress = [&](size_t done, size_t total) {
    if (options.progress == nullptr || thrown != nullptr) return thrown == nullptr;
    try {
      options.progress(done, total);
    } catch (...) {
      thrown = std::current_exception();
    }
    return thrown == nullptr;
  };
  const Status loaded = state->inference.Load(*std::move(opened), progress);
  if (thrown != nullptr) {
    *failed = Error(ErrorCode::kAborted, "handler_failed", "the progress callback threw")
                  .WithCause(thrown);
  }
  RETURN_IF_ERROR(loaded);
  ASSIGN_OR_RETURN(state->served, state->inference.gateway().Find(""));
  const api::ModelInfo& info = state->served->info;
  state->info.name = info.id;
  state->info.architecture = info.architecture;
  state->info.quantisation = info.quantisation;
  state->info.digest = info.digest;
  state->info.context = info.max_model_len;
  state->info.vocabulary = info.vocab_size;
  return state;
}

Expected<std::shared_ptr<Job::State>> Start(const std::shared_ptr<Model::State>& state,
                                            Request request) {
  return Job::State::Submit(state, std::move(request), std::make_shared<WakeCount>());
}

}  // namespace

Expected<Model> Model::Load(const ModelOptions& options) {
  Error callback_failed;
  Result<std::shared_ptr<State>> state =
      LoadState(options.impl().model, options.impl(), &callback_failed);
  if (!callback_failed.ok()) return callback_failed;
  if (!state.ok()) return library::ToError(state.status());
  return Model(*std::move(state));
}

Model::Model(std::shared_ptr<State> state) : state_(std::move(state)) {}
Model::Model(const Model&) = default;
Model& Model::operator=(const Model&) = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

// --- generating ---

Expected<Completion> Model::Generate(Request request) const {
  Expected<std::shared_ptr<Job::State>> job = Start(state_, std::move(request));
  if (!job.ok()) return job.error();
  return (*job)->Finish();
}

Expected<Completion> Model::Generate(Request request, const TokenHandler& handler) const {
  Expected<std::shared_ptr<Job::State>> job = Start(state_, std::move(request));
  if (!job.ok()) return job.error();
  (*job)->Run(handler);
  return (*job)->Finish();
}

Expected<Job> Model::Submit(Request request) const {
  Expected<std::shared_ptr<Job::State>> job = Start(state_, std::move(request));
  if (!job.ok()) return job.error();
  return Job(*std::move(job));
}

Expected<Job> Model::Spawn(Request request, TokenHandler handler) const {
  Expected<std::shared_ptr<Job::State>> job = Start(state_, std::move(request));
  if (!job.ok()) return job.error();
  Job::State& state = **job;
  state.spawned = true;
  const NoSignalsHere scope;
  try {  // the job joins the thread before the state is destroyed
    state.runner = std::thread([&state, handler = std::move(handler)] {
      NameThread("tutti-job");
      state.Run(handler);
    });
  } catch (const std::system_error& error) {
    return Error(ErrorCode::kResourceExhausted, "internal_error",
                 std::string("no thread: ") + error.what());
  }
  return Job(*std::move(job));
}

// --- looking ---

Expected<std::vector<TokenId>> Model::Tokenize(const Prompt& prompt) const {
  Result<api::TokenizeResult> result =
      state_->inference.gateway().Tokenize({"", library::ToApi(prompt)});
  if (!result.ok()) return library::ToError(result.status());
  return std::move(result->tokens);
}

Expected<std::string> Model::Detokenize(const std::vector<TokenId>& tokens) const {
  Result<std::string> text = state_->inference.gateway().Detokenize({.tokens = tokens});
  if (!text.ok()) return library::ToError(text.status());
  return *std::move(text);
}

Expected<std::string> Model::Render(const Chat& chat) const {
  Result<api::TokenizeResult> result =
      state_->inference.gateway().Tokenize({"", library::ToApi(Prompt(chat))});
  if (!result.ok()) return library::ToError(result.status());
  return std::move(result->text);
}

ModelInfo Model::info() const { return state_->info; }

Stats Model::stats() const {
  const api::LoadSnapshot load = state_->inference.gateway().Load();
  return {.running = load.running,
          .waiting = load.waiting,
          .max_num_seqs = load.max_num_seqs,
          .kv_blocks_used = load.kv_blocks_used,
          .kv_blocks_total = load.kv_blocks_total};
}

const char* Version() { return app::kVersion; }

}  // namespace tutti
