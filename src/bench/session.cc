#include "bench/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "app/loading/loading.h"
#include "app/loading/model_plan.h"
#include "base/random.h"
#include "engine/engine.h"
#include "model/decoder.h"
#include "model/decoder_checkpoint.h"
#include "model/model_files.h"
#include "model/weights.h"

namespace tutti::bench {

Session::Session(app::Settings settings) : settings_(std::move(settings)) {}

namespace {

Result<app::Settings> SettingsOf(const Flags& flags) {
  app::Settings::Inputs inputs;
  inputs.flags = flags;
  inputs.environment = app::TuttiEnvironment();
  return app::Settings::Resolve(inputs);
}

// A model that generates. Errors: as app::ResolveModel; invalid_value for an encoder.
Result<app::ModelRef> DecoderRef(const std::string& model) {
  ASSIGN_OR_RETURN(app::ModelRef ref, app::ResolveModel(model));
  if (model::ModelFiles::At(ref.path).holds == model::ModelFiles::Holds::kEncoder) {
    return InvalidArgument("invalid_value", ref.path +
                                                " generates no text: it is an encoder, which "
                                                "`tutti bench encode` measures");
  }
  return ref;
}

}  // namespace

Status Session::Check(const std::string& model, const Flags& flags, int tokens) {
  ASSIGN_OR_RETURN(const app::Settings settings, SettingsOf(flags));
  ASSIGN_OR_RETURN(const app::ModelRef ref, DecoderRef(model));
  const app::LocalInference inference(settings, nullptr);
  ASSIGN_OR_RETURN(const app::OpenedModel opened, inference.Open(ref));
  if (tokens <= opened.max_tokens()) return OkStatus();
  return InvalidArgument(
      "invalid_value",
      fmt::format("{} tokens of one sequence are more than the context of {} of {}", tokens,
                  opened.max_tokens(), ref.path));
}

Result<std::unique_ptr<Session>> Session::Load(const std::string& model, const Flags& flags,
                                               Stepping stepping, Passes passes) {
  ASSIGN_OR_RETURN(app::Settings settings, SettingsOf(flags));
  std::unique_ptr<Session> session(new Session(std::move(settings)));
  ASSIGN_OR_RETURN(const app::ModelRef ref, DecoderRef(model));
  // First, as its faults name the file.
  session->inference_ = std::make_unique<app::LocalInference>(session->settings_, nullptr);
  ASSIGN_OR_RETURN(app::OpenedModel opened,
                   app::OpenOne(*session->inference_, ref, passes == Passes::kFused));
  session->summary_ = opened.summary();
  ASSIGN_OR_RETURN(session->kernels_, app::KernelsFromSettings(session->settings_));
  session->threads_ = app::ThreadsFromSettings(session->settings_);
  ASSIGN_OR_RETURN(const model::DecoderCheckpoint checkpoint,
                   model::DecoderCheckpoint::FromFiles(model::ModelFiles::At(ref.path)));
  session->config_ = checkpoint.config;
  session->passes_ = passes;
  const model::WeightMode mode =
      app::WeightModeOf(app::DTypeOf(session->settings_, ref, checkpoint));
  const auto planned =
      model::Weights::Plan(checkpoint, app::LoadOptionsFor(mode, *session->kernels_));
  if (!planned.ok()) return Status(planned.status()).WithContext(ref.path);
  session->cost_ =
      ModelCost::Of(**planned, *session->kernels_, app::KvDtypeFromSettings(session->settings_));
  RETURN_IF_ERROR(
      session->inference_->Load(std::move(opened), nullptr, stepping == Stepping::kByHand));
  ASSIGN_OR_RETURN(session->served_, session->inference_->gateway().Find(""));
  return session;
}

int Session::regions_per_layer(int rows) const {
  return model::Decoder::RegionsPerLayer(config_, passes_ == Passes::kFused, threads_, rows);
}

struct Session::Running {
  struct One {
    api::Generation generation;
    std::shared_ptr<engine::RequestControl> control;
    ServedRequest served;
    bool ended = false;
  };
  std::vector<One> all;
  TimePoint start;
};

Result<Session::Running> Session::SubmitAll(const std::vector<std::vector<TokenId>>& prompts,
                                            int new_tokens, bool stepwise, double temperature,
                                            std::shared_ptr<grammar::TokenMasker> constraint) {
  Running running;
  running.start = inference_->clock().Now();
  for (const std::vector<TokenId>& prompt : prompts) {
    engine::Request request;
    request.prompt = prompt;
    request.sampling.temperature = temperature;
    request.seed = running.all.size();
    request.sampling.max_tokens = new_tokens;
    request.sampling.ignore_eos = constraint == nullptr;
    request.constraint = constraint;
    if (constraint != nullptr)
      request.end_tokens = {constraint->trie().ends().begin(), constraint->trie().ends().end()};
    request.use_prefix_cache = false;
    if (!adapters_.empty()) request.adapter = adapters_[running.all.size() % adapters_.size()];
    request.stepwise = stepwise;
    ASSIGN_OR_RETURN(engine::AdmissionPermit permit,
                     engine().Admit({.bytes = prompt.size() * sizeof(TokenId)}));
    auto stream = std::make_shared<api::TokenStream>(nullptr);
    Running::One one;
    one.control = permit.control();
    one.generation = api::Generation(stream, one.control);
    RETURN_IF_ERROR(engine().Submit(std::move(permit), std::move(request), stream));
    running.all.push_back(std::move(one));
  }
  return running;
}

Status Session::StepUntil(Running& running, size_t tokens_each, Until until) {
  while (true) {
    const TimePoint begin = inference_->clock().Now();
    const bool stepped = engine().RunOneStep();
    if (slowdown_ > 0) {
      const TimePoint end = inference_->clock().Now();
      const Duration wait = FromSeconds(ToSeconds(end - begin) * slowdown_);
      // A sleep would last longer than such a wait should.
      while (inference_->clock().Now() - end < wait) std::this_thread::yield();
    }
    const double now = ToSeconds(inference_->clock().Now() - running.start);
    bool done = true;
    for (Running::One& one : running.all) {
      ServedRequest& served = one.served;
      while (const api::StreamEvent* event = one.generation.Next()) {
        one.generation.Consumed(event->text.size());
        if (event->kind == api::StreamEvent::Kind::kToken) {
          if (served.output.empty()) served.first_token_s = now;
          served.output.push_back(event->token);
          served.end_s = now;
        }
        if (event->kind == api::StreamEvent::Kind::kEnd) {
          one.ended = true;
          RETURN_IF_ERROR(one.generation.stream().status());
        }
      }
      if (until == Until::kTokensOrEnd) {
        done = done && one.ended;
        continue;
      }
      if (one.ended && served.output.size() < tokens_each) {
        return Internal(fmt::format("a request ended after {} of {} tokens", served.output.size(),
                                    tokens_each));
      }
      done = done && served.output.size() >= tokens_each;
    }
    if (done) return OkStatus();
    if (!stepped) {
      const TimePoint next = engine().NextWork();
      if (next == TimePoint::max())
        return Internal("the engine has nothing to do and requests are unfinished");
      std::this_thread::sleep_until(next);
    }
  }
}

Result<std::vector<ServedRequest>> Session::Serve(const std::vector<std::vector<TokenId>>& prompts,
                                                  int new_tokens, double temperature) {
  ASSIGN_OR_RETURN(Running running,
                   SubmitAll(prompts, new_tokens, /*stepwise=*/false, temperature));
  RETURN_IF_ERROR(StepUntil(running, static_cast<size_t>(new_tokens)));
  std::vector<ServedRequest> out;
  for (Running::One& one : running.all) out.push_back(std::move(one.served));
  return out;
}

Result<std::vector<ServedRequest>> Session::ServeConstrained(
    const std::vector<std::vector<TokenId>>& prompts, int max_tokens,
    const std::shared_ptr<grammar::TokenMasker>& constraint) {
  ASSIGN_OR_RETURN(Running running, SubmitAll(prompts, max_tokens, /*stepwise=*/false,
                                              /*temperature=*/0, constraint));
  RETURN_IF_ERROR(StepUntil(running, static_cast<size_t>(max_tokens), Until::kTokensOrEnd));
  std::vector<ServedRequest> out;
  for (Running::One& one : running.all) out.push_back(std::move(one.served));
  return out;
}

Result<std::shared_ptr<const engine::Adapter>> Session::OpenAdapter(const std::string& path,
                                                                    std::string* summary) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<const gateway::ServedModel> model,
                   inference_->OpenAdapter(*served_, {.name = "bench", .path = path}, ""));
  *summary = model->summary;
  return model->adapter;
}

std::shared_ptr<const grammar::TokenTrie> Session::Trie() const {
  const auto& vocabulary = served_->tokenizer->vocabulary();
  std::vector<std::string> texts(static_cast<size_t>(served_->info.vocab_size));
  for (TokenId id = 0; id < served_->info.vocab_size; ++id) {
    if (!vocabulary.Contains(id)) continue;
    texts[static_cast<size_t>(id)] = vocabulary.IsSpecial(id) ? grammar::SpecialTokenBytes(id)
                                                              : std::string(vocabulary.Piece(id));
  }
  return grammar::TokenTrie::Create(std::move(texts), vocabulary.eog_tokens());
}

Result<Session::TwoPhases> Session::PrefillThenDecode(
    const std::vector<std::vector<TokenId>>& prompts, int new_tokens) {
  TwoPhases out;
  ASSIGN_OR_RETURN(Running running, SubmitAll(prompts, 1 + new_tokens, /*stepwise=*/true));
  for (Running::One& one : running.all) one.control->Grant(1);
  RETURN_IF_ERROR(StepUntil(running, 1));
  const TimePoint middle = inference_->clock().Now();
  out.prefill_s = ToSeconds(middle - running.start);
  if (new_tokens > 0) {
    for (Running::One& one : running.all) one.control->Grant(new_tokens);
    RETURN_IF_ERROR(StepUntil(running, 1 + static_cast<size_t>(new_tokens)));
    out.decode_s = ToSeconds(inference_->clock().Now() - middle);
  }
  for (Running::One& one : running.all) out.requests.push_back(std::move(one.served));
  return out;
}

Result<ServedBatches> ServeInBatches(const std::vector<std::vector<TokenId>>& prompts, int size,
                                     const std::function<Result<std::vector<ServedRequest>>(
                                         const std::vector<std::vector<TokenId>>& batch)>& serve) {
  ServedBatches all;
  for (size_t begin = 0; begin < prompts.size(); begin += static_cast<size_t>(size)) {
    const size_t end = std::min(prompts.size(), begin + static_cast<size_t>(size));
    const std::vector<std::vector<TokenId>> together(
        prompts.begin() + static_cast<std::ptrdiff_t>(begin),
        prompts.begin() + static_cast<std::ptrdiff_t>(end));
    ASSIGN_OR_RETURN(const std::vector<ServedRequest> served, serve(together));
    double first = 0, last = 0;
    for (const ServedRequest& request : served) {
      first = std::max(first, request.first_token_s);
      last = std::max(last, request.end_s);
      all.tokens += static_cast<double>(request.output.size()) - 1;
      all.outputs.push_back(request.output);
    }
    all.seconds += last - first;
  }
  return all;
}

std::vector<std::vector<TokenId>> RandomPrompts(int vocabulary, int count, int tokens,
                                                uint64_t seed, int most) {
  std::vector<std::vector<TokenId>> prompts;
  for (int i = 0; i < count; ++i) {
    Random random(seed * 1'000'003 + static_cast<uint64_t>(i));
    const auto length = static_cast<size_t>(random.Between(tokens, std::max(tokens, most)));
    std::vector<TokenId>& prompt = prompts.emplace_back();
    for (size_t t = 0; t < length; ++t) {
      prompt.push_back(static_cast<TokenId>(random.Below(static_cast<uint64_t>(vocabulary))));
    }
  }
  return prompts;
}

uint64_t Fingerprint(std::span<const ServedRequest> requests) {
  uint64_t hash = 14695981039346656037u;
  for (const ServedRequest& request : requests) {
    for (const TokenId token : request.output)
      hash = (hash ^ static_cast<uint32_t>(token)) * 1099511628211u;
    hash = (hash ^ 0xffffffffu) * 1099511628211u;
  }
  return hash;
}

}  // namespace tutti::bench
