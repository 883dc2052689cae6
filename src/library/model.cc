#include "tutti/model.h"

#include <system_error>
#include <utility>

#include "app/version.h"
#include "base/threads.h"
#include "library/convert.h"
#include "library/loading.h"
#include "library/state.h"

namespace tutti {

// --- ModelOptions ---

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

namespace {

Expected<std::shared_ptr<Job::State>> Start(const std::shared_ptr<Model::State>& state,
                                            Request request) {
  return Job::State::Submit(state, std::move(request), std::make_shared<WakeCount>());
}

}  // namespace

Expected<Model> Model::Load(const ModelOptions& options) {
  Expected<std::shared_ptr<State>> state = library::LoadModel(options, {});
  if (!state.ok()) return state.error();
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
  const library::NoSignalsHere scope;
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
