#include "simulation.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "base/random.h"
#include "engine/decoder_instance.h"
#include "engine/engine.h"
#include "engine/invariants.h"
#include "engine/policy/window.h"
#include "engine/testing/fake_model_runner.h"
#include "engine/testing/fake_prefix_store.h"

namespace tutti::engine {
namespace {

using testing::FakeModelOptions;
using testing::FakePrefixStore;
using testing::FakeTokenText;
using testing::TimingModel;
using testing::TimingRunner;

constexpr int kVocab = 48;
constexpr TokenId kEnd = 7;
constexpr int kLongestPinMs = 3000;

Duration Millis(double ms) { return Duration(static_cast<int64_t>(ms * 1e6)); }

// One client: its request, its later actions, and the events that it received.
struct Client {
  Request request;  // a copy; the engine takes its own
  TimePoint arrives, cancels = TimePoint::max();
  bool reads_slowly = false;  // takes text only now and then
  bool stops_reading = false;
  TimePoint next_read = TimePoint::max(), next_grant = TimePoint::max();

  bool sent = false, refused = false, dropped = false, done = false;
  std::shared_ptr<api::TokenStream> stream;
  std::shared_ptr<RequestControl> control;
  api::TokenStream::Cursor cursor;
  std::vector<std::vector<TokenId>> tokens;  // by choice
  std::vector<bool> choice_ended;
  std::vector<api::FinishReason> reasons;
  int prompt_events = 0, ends = 0, starts = 0;
  size_t unread = 0;
  bool fault_hit = false;  // an injected fault struck one of its sequences
};

class Simulation {
 public:
  Simulation(uint64_t seed, bool trace) : random_(seed), trace_(trace) {}

  ScheduleReport Run() {
    MakeOptions();
    MakeClients();
    MakeEngine();
    MakePredictions();
    Loop();
    if (report_.failure.empty()) CheckEnd();
    report_.requests = static_cast<int>(clients_.size());
    return report_;
  }

 private:
  int Between(int low, int high) { return static_cast<int>(random_.Between(low, high)); }
  void Fail(std::string why) {
    if (report_.failure.empty()) report_.failure = std::move(why);
  }

  void MakeOptions() {
    SchedulerOptions& s = options_.scheduler;
    const double pick = random_.Uniform();
    s.strategy = pick < 0.7   ? Strategy::kContinuous
                 : pick < 0.8 ? Strategy::kInterleaved
                 : pick < 0.9 ? Strategy::kStatic
                              : Strategy::kBlocking;
    s.admission = random_.Chance(0.8) ? Admission::kPack : Admission::kNoEvict;
    s.max_num_seqs = Between(3, 8);
    s.prefill_chunk = Between(1, 64);
    s.prefill_chunk_alone = s.prefill_chunk + Between(0, 96);
    s.prefix_cache = random_.Chance(0.7);
    s.speculate = random_.Chance(0.6);
    s.static_batch = Between(2, 8);
    s.max_overtakes = Between(0, 16);
    s.max_preemptions = Between(1, 3);
    s.itl_target = Millis(Between(5, 80));
    s.priority_aging = Millis(Between(50, 2000));
    options_.queue.requests = random_.Chance(0.1) ? Between(5, 15) : 256;
    options_.queue.age = random_.Chance(0.1) ? Millis(Between(50, 2000)) : Duration::max();
    options_.reader.unread_bytes = sizeof(api::StreamEvent) * static_cast<size_t>(Between(2, 12));
    options_.prefix_hash_bits = random_.Chance(0.2) ? Between(2, 8) : 128;
    options_.reader.patience = Millis(Between(100, 1500));
    stateful_ = random_.Chance(0.4);
    windowed_ = random_.Chance(0.4);
    s.load_patience = Millis(Between(1, 200));
    options_.reader.aside = random_.Chance(0.3) ? Between(0, 2) : 1024;
  }

  std::vector<TokenId> RandomTokens(int count) {
    std::vector<TokenId> tokens(static_cast<size_t>(count));
    for (TokenId& t : tokens) t = static_cast<TokenId>(random_.Below(kVocab));
    return tokens;
  }

  void MakeClients() {
    std::vector<std::vector<TokenId>> beginnings;
    for (int i = 0; i < 3; ++i) beginnings.push_back(RandomTokens(Between(1, 100)));
    const int count = Between(20, 26);
    const double hurry = random_.Uniform();  // burst or trickle
    TimePoint at = TimePoint(std::chrono::seconds(1));
    static const char* const kTenants[] = {"", "a", "b"};
    std::vector<int> worst;
    for (int i = 0; i < count; ++i) {
      clients_.emplace_back();
      Client& c = clients_.back();
      Request& r = c.request;
      if (random_.Chance(0.5)) {
        r.prompt = beginnings[random_.Below(beginnings.size())];
        r.prompt.resize(std::min<size_t>(r.prompt.size(), 1 + random_.Below(100)));
      }
      const std::vector<TokenId> own = RandomTokens(Between(r.prompt.empty() ? 1 : 0, 40));
      r.prompt.insert(r.prompt.end(), own.begin(), own.end());
      r.sampling.temperature = random_.Chance(0.5) ? 0.0 : 0.8;
      r.sampling.max_tokens = random_.Chance(0.5) ? Between(20, 90) : Between(1, 16);
      r.sampling.ignore_eos = random_.Chance(0.7);
      r.end_tokens = {kEnd};
      if (random_.Chance(0.1))
        r.sampling.stop_token_ids = {static_cast<TokenId>(random_.Below(kVocab))};
      r.seed = random_.Next();
      r.n = random_.Chance(0.15) ? Between(2, 3) : 1;
      r.priority = static_cast<api::Priority>(random_.Chance(0.6) ? 0 : Between(0, 2));
      r.tenant = kTenants[random_.Below(random_.Chance(0.5) ? 1 : 3)];
      r.tenant_weight = r.tenant == kTenants[1] ? 3 : 1;
      r.use_prefix_cache = random_.Chance(0.9);
      if (random_.Chance(0.05)) {
        r.sampling.prompt_logprobs = 0;
        if (random_.Chance(0.5)) {
          r.score_only = true;
          r.sampling.max_tokens = 0;
        }
      }
      r.stepwise = !r.score_only && random_.Chance(0.05);
      if (random_.Chance(0.05) && r.prompt.size() > kBlockTokens && r.use_prefix_cache) {
        r.score_only = true;
        r.stepwise = false;
        r.n = 1;
        r.sampling.max_tokens = 0;
        r.sampling.prompt_logprobs = -1;
        r.pin = {.id = "pin " + std::to_string(i), .ttl = Millis(Between(1, kLongestPinMs))};
      }
      at += Millis(random_.Uniform() * (hurry < 0.3 ? 2 : 40));
      c.arrives = at;
      if (random_.Chance(0.15)) c.cancels = at + Millis(random_.Uniform() * 400);
      if (random_.Chance(0.1)) r.deadline = at + Millis(1 + random_.Uniform() * 1000);
      c.reads_slowly = random_.Chance(0.1);
      c.stops_reading = random_.Chance(0.03);
      const int target =
          static_cast<int>(r.prompt.size()) + (r.score_only ? 0 : *r.sampling.max_tokens);
      for (int k = 0; k < r.n; ++k) worst.push_back(WorstCaseBlocks(target));
    }
    std::sort(worst.rbegin(), worst.rend());
    int need = 0;
    for (int i = 0; i < options_.scheduler.max_num_seqs; ++i) need += worst[static_cast<size_t>(i)];
    const double share = 0.3 + 0.5 * random_.Uniform();
    pool_blocks_ = std::max(worst[0], static_cast<int>(share * need));
    report_.pool_share = static_cast<double>(pool_blocks_) / need;
  }

  // A second model that proposes tokens, right or wrong, cheap or dear, with faults of its own.
  void MakeDraft(FakeModelOptions model) {
    model.limits.kv_blocks = Between(1, pool_blocks_);
    model.limits.window_blocks = model.limits.window = 0;
    model.limits.max_step_tokens = Between(160, 400);
    model.limits.max_step_slices = kMaxDraftSequences;
    model.limits.context = Between(64, 1024);
    model.salt = random_.Chance(0.7) ? 1 : 0;
    model.salted_parts = Between(1, 8);
    TimingModel timing;
    timing.base = std::chrono::microseconds(Between(10, 6000));
    timing.per_prefill_token = std::chrono::microseconds(Between(1, 200));
    draft_ = std::make_unique<TimingRunner>(model, timing, &clock_);
    const double faults = random_.Chance(0.2) ? 0.02 : 0;
    if (faults > 0) {
      draft_->fault = [=, this](const StepPlan&, const SequenceSlice*) {
        return random_.Chance(faults) ? Internal("injected") : OkStatus();
      };
    }
  }

  // Keeps evicted prefixes; its reads are slow or fail, and its queue is full now and then.
  void MakeStore(const FakeModelOptions& model) {
    store_ = std::make_unique<FakePrefixStore>(model);
    store_->read_delay = random_.Chance(0.1) ? 1 << 30 : Between(0, 20);
    const double failed = random_.Chance(0.3) ? 0.3 : 0, refused = random_.Chance(0.3) ? 0.5 : 0;
    store_->fails = [=, this] { return random_.Chance(failed); };
    store_->refuses = [=, this] { return random_.Chance(refused); };
    if (random_.Chance(0.7)) FillStore(model);
  }

  // Prompts of some clients were computed by an earlier process.
  void FillStore(const FakeModelOptions& model) {
    ManualClock clock;
    TimingRunner runner(model, TimingModel{}, &clock);
    Engine engine(
        options_,
        EngineDependencies{
            .runner = &runner, .text = &text_, .clock = &clock, .prefixes = store_.get()});
    for (const Client& c : clients_) {
      if (!random_.Chance(0.6)) continue;
      Request request;
      request.prompt = c.request.prompt;
      request.tenant = c.request.tenant;
      request.sampling.max_tokens = Between(1, 20);
      request.sampling.ignore_eos = true;
      Result<api::Generation> generation = engine.Submit(std::move(request), nullptr);
      for (int i = 0; i < 10'000 && generation.ok() && !generation->stream().ended(); ++i) {
        (void)engine.RunOneStep();
        clock.Advance(Millis(0.1));
      }
    }
  }

  void MakeEngine() {
    FakeModelOptions model;
    model.sample_rows = false;
    model.repeats_itself = random_.Chance(0.6);
    model.limits = {.kv_blocks = pool_blocks_,
                    .max_step_tokens = std::max(options_.scheduler.prefill_chunk_alone, 8) +
                                       options_.scheduler.max_num_seqs,
                    .max_step_slices = random_.Chance(0.1) ? Between(1, 4) : 64,
                    .context = random_.Chance(0.5) ? 256 : 1024,
                    .vocab_size = kVocab};
    if (windowed_) {
      model.limits.window = Between(1, 120);
      const int rows = MaxPromptRows(options_.scheduler, model.limits.max_step_tokens);
      const int least =
          std::min(pool_blocks_, MaxWindowBlocks(model.limits.window, rows, pool_blocks_));
      model.limits.window_blocks =
          random_.Chance(0.3) ? pool_blocks_ : Between(least, std::max(least, pool_blocks_));
    }
    if (stateful_) {
      // From fewer slots than sequences may run to enough for a checkpoint of each request.
      model.limits.state_slots = random_.Chance(0.2)
                                     ? Between(1, options_.scheduler.max_num_seqs)
                                     : options_.scheduler.max_num_seqs + Between(1, 30);
    }
    runner_ = std::make_unique<TimingRunner>(model, TimingModel{}, &clock_);
    const double slice_faults = random_.Chance(0.2) ? 0.01 : 0,
                 step_faults = random_.Chance(0.2) ? 0.01 : 0;
    const double allocation_faults = random_.Chance(0.3) ? 0.02 : 0;
    if (slice_faults > 0 || step_faults > 0) {
      runner_->fault = [=, this](const StepPlan& plan, const SequenceSlice* slice) -> Status {
        if (!random_.Chance(slice == nullptr ? step_faults : slice_faults)) return OkStatus();
        ++report_.injected_faults;
        if (slice != nullptr) MarkFault(slice->sequence);
        // A step of one slice that fails as a whole fails that sequence.
        if (slice == nullptr && plan.slices.size() == 1) MarkFault(plan.slices[0].sequence);
        return Internal("injected");
      };
    }
    if (random_.Chance(0.5) && !stateful_) MakeDraft(model);
    if (random_.Chance(0.4)) MakeStore(model);
    engine_ = std::make_unique<Engine>(options_, EngineDependencies{.runner = runner_.get(),
                                                                    .text = &text_,
                                                                    .clock = &clock_,
                                                                    .draft = draft_.get(),
                                                                    .prefixes = store_.get()});
    if (allocation_faults > 0) {
      engine_->decoder_for_test().mutable_pool().SetAllocationFault([=, this](uint32_t sequence) {
        if (!random_.Chance(allocation_faults)) return false;
        ++report_.injected_faults;
        MarkFault(sequence);
        return true;
      });
    }
  }

  void MarkFault(uint32_t sequence) {
    for (const auto& work : engine_->decoder_for_test().works()) {
      for (const Sequence* s : work->sequences) {
        if (s->id != sequence || s->state() == SequenceState::kFinished) continue;
        for (Client& c : clients_) {
          if (c.stream == work->stream) c.fault_hit = true;
        }
      }
    }
  }

  void Send(Client& c) {
    c.sent = true;
    c.tokens.resize(static_cast<size_t>(c.request.n));
    c.choice_ended.resize(static_cast<size_t>(c.request.n));
    c.reasons.resize(static_cast<size_t>(c.request.n));
    AdmitRequest admit{c.request.n, c.request.prompt.size(), c.request.priority,
                       c.request.deadline};
    Result<AdmissionPermit> permit = engine_->Admit(admit);
    if (!permit.ok()) return Refuse(c, permit.status());
    c.stream = std::make_shared<api::TokenStream>(nullptr);
    c.control = permit->control();
    c.cursor = api::TokenStream::Cursor(*c.stream);
    if (c.request.stepwise) c.next_grant = clock_.Now();
    if (random_.Chance(0.01))
      return;  // prepared for ever: the permit falls at once, nothing was submitted
    Status status = engine_->Submit(*std::move(permit), c.request, c.stream);
    if (!status.ok()) Refuse(c, status);
    c.next_read = clock_.Now();
  }

  void Refuse(Client& c, const Status& status) {
    c.refused = true;
    ++report_.refused;
    const std::string& why = status.reason();
    if (c.request.pin && why == "pin_limit") return;
    if (why != "queue_full" && why != "overloaded" && why != "deadline_exceeded") {
      Fail("refused for " + status.ToString());
    }
  }

  void Act(TimePoint now) {
    for (Client& c : clients_) {
      if (c.done) continue;
      if (!c.sent && c.arrives <= now) Send(c);
      if (!c.sent) continue;
      if (c.refused || c.stream == nullptr || c.next_read == TimePoint::max()) {
        c.done = true;
        continue;
      }
      if (c.cancels <= now) {
        c.cancels = TimePoint::max();
        c.dropped = true;
        c.control->Cancel();
      }
      if (c.next_grant <= now) {
        c.control->Grant(Between(1, 4));
        c.next_grant = now + Millis(Between(1, 30));
      }
      ReadEvents(c);
      if (c.next_read <= now && !c.stops_reading) {
        c.stream->Consumed(c.unread);
        c.unread = 0;
        c.next_read = c.reads_slowly ? now + Millis(Between(50, 400)) : now;
      }
    }
  }

  void ReadEvents(Client& c) {
    while (const api::StreamEvent* e = c.cursor.Next()) {
      using Kind = api::StreamEvent::Kind;
      const auto choice = static_cast<size_t>(e->choice);
      c.unread += e->text.size() + api::TokenStream::EventBytes(*e);
      if (c.ends > 0) Fail("an event after the terminal one");
      if ((e->kind == Kind::kStarted) != (c.starts == 0))
        Fail("the first event is not kStarted, or a later one is");
      switch (e->kind) {
        case Kind::kStarted:
          ++c.starts;
          break;
        case Kind::kPromptToken:
          if (e->token != c.request.prompt[static_cast<size_t>(c.prompt_events)])
            Fail("prompt tokens out of order");
          if (e->logprobs.has_value() != (c.prompt_events > 0))
            Fail("prompt log-probabilities at the wrong place");
          ++c.prompt_events;
          break;
        case Kind::kToken:
          if (c.choice_ended[choice]) Fail("a token after its choice's end");
          c.tokens[choice].push_back(e->token);
          ++report_.tokens;
          break;
        case Kind::kChoiceEnd:
          if (c.choice_ended[choice]) Fail("a choice ends twice");
          c.choice_ended[choice] = true;
          c.reasons[choice] = e->finish_reason;
          break;
        case Kind::kEnd:
          ++c.ends;
          c.done = true;
          CheckClient(c, *e);
          break;
      }
    }
  }

  std::vector<TokenId> SoloOf(const Request& r, int choice) {
    sampling::RowState state;
    state.params = &r.sampling;
    state.seed = r.seed;
    state.stream = static_cast<uint32_t>(choice);
    std::vector<TokenId> ends = r.sampling.stop_token_ids;
    if (!r.sampling.ignore_eos) ends.push_back(kEnd);
    return runner_->Solo(r.prompt, state, r.score_only ? 0 : *r.sampling.max_tokens, ends);
  }

  // Some clients send a prediction: the correct answer with some wrong tokens.
  void MakePredictions() {
    for (Client& c : clients_) {
      if (!random_.Chance(0.2)) continue;
      c.request.prediction = SoloOf(c.request, 0);
      const double wrong = random_.Chance(0.3) ? 0 : random_.Uniform() * 0.3;
      for (TokenId& token : c.request.prediction) {
        if (random_.Chance(wrong)) token = static_cast<TokenId>(random_.Below(kVocab));
      }
    }
  }

  void CheckClient(Client& c, const api::StreamEvent& end) {
    const Request& r = c.request;
    const Status& status = c.stream->status();
    const bool ok = status.ok();
    int completion = 0;
    for (int i = 0; i < r.n; ++i) {
      const auto choice = static_cast<size_t>(i);
      std::vector<TokenId> ends = r.sampling.stop_token_ids;
      if (!r.sampling.ignore_eos) ends.push_back(kEnd);
      const std::vector<TokenId> solo = SoloOf(r, i);
      const std::vector<TokenId>& got = c.tokens[choice];
      completion += static_cast<int>(got.size());
      if (ok && got != solo) Fail("the output differs from the solo output");
      if (!ok && (got.size() > solo.size() || !std::equal(got.begin(), got.end(), solo.begin()))) {
        Fail("a cut output does not begin like the solo output");
      }
      if (ok && !c.choice_ended[choice]) Fail("a choice has no end");
      if (ok) {
        const bool stopped =
            !solo.empty() && std::find(ends.begin(), ends.end(), solo.back()) != ends.end();
        if (c.reasons[choice] != (stopped ? api::FinishReason::kStop : api::FinishReason::kLength))
          Fail("wrong finish reason");
      }
    }
    if (ok && r.sampling.prompt_logprobs >= 0 &&
        c.prompt_events != static_cast<int>(r.prompt.size())) {
      Fail("prompt tokens are missing");
    }
    if (end.usage.completion_tokens != completion) Fail("usage miscounts");
    if (end.usage.prompt_tokens != static_cast<int>(r.prompt.size()))
      Fail("usage miscounts the prompt");
    if (end.usage.cached_tokens >= end.usage.prompt_tokens)
      Fail("all of a prompt cannot come from the cache");
    const std::string& why = status.reason();
    bool allowed = ok;
    if (why == "cancelled")
      allowed = c.dropped || c.reads_slowly || c.stops_reading, ++report_.cancelled;
    if (why == "deadline_exceeded") allowed = r.deadline != TimePoint::max(), ++report_.expired;
    if (why == "overloaded") allowed = options_.queue.age != Duration::max(), ++report_.expired;
    if (why == "internal_error" || why == "kv_exhausted") allowed = c.fault_hit, ++report_.failed;
    if (r.pin && (why == "pin_limit" || why == "kv_exhausted")) allowed = true, ++report_.refused;
    if (r.pin && ok) ++report_.pins;
    if (!allowed) Fail("ended without cause: " + status.ToString());
    if (ok) ++report_.ended_ok;
  }

  void CheckInvariants() {
    TakeSnapshot(engine_->decoder_for_test(), &snapshot_);
    if (std::string why = FindViolation(snapshot_); !why.empty()) Fail(why);
    if (!runner_->violations().empty()) Fail(runner_->violations().front());
    if (draft_ == nullptr) return;
    if (!draft_->violations().empty()) Fail("draft: " + draft_->violations().front());
    const auto& drafter = engine_->decoder_for_test().drafter();
    if (drafter.has_value() && snapshot_.sequences.empty() &&
        drafter->free_blocks() != draft_->limits().kv_blocks)
      Fail("blocks of the draft are held by nobody");
  }

  TimePoint NextClientEvent() const {
    TimePoint next = TimePoint::max();
    for (const Client& c : clients_) {
      if (c.done) continue;
      if (!c.sent) {
        next = std::min(next, c.arrives);
        continue;
      }
      next = std::min({next, c.cancels, c.next_grant});
      if (c.reads_slowly && c.unread > 0) next = std::min(next, c.next_read);
    }
    return next;
  }

  void Loop() {
    for (int64_t round = 0; report_.failure.empty(); ++round) {
      Act(clock_.Now());
      if (std::all_of(clients_.begin(), clients_.end(), [](const Client& c) { return c.done; }))
        break;
      const bool ran = engine_->RunOneStep();
      CheckInvariants();
      if (trace_) {
        const EngineStats s = engine_->stats();
        std::printf(
            "%8.1f ms  running %d waiting %d deferred %d  kv free %d active %d cached %d  "
            "preemptions %llu\n",
            ToMillis(clock_.Now().time_since_epoch()), s.running, s.waiting_capacity,
            s.waiting_deferred, s.kv_blocks_free, s.kv_blocks_active, s.kv_blocks_cached,
            static_cast<unsigned long long>(s.preemptions));
      }
      if (round > 200'000) Fail("no end in sight");
      if (ran) {
        ++report_.steps;
        continue;
      }
      Act(clock_.Now());  // what ended without a step
      if (std::all_of(clients_.begin(), clients_.end(), [](const Client& c) { return c.done; }))
        break;
      const TimePoint next = std::min(NextClientEvent(), engine_->NextWork());
      if (next == TimePoint::max()) return Fail("deadlock: nothing will ever happen again");
      if (next > clock_.Now())
        clock_.Advance(next - clock_.Now());
      else
        clock_.Advance(Millis(0.1));
    }
  }

  void CheckEnd() {
    clock_.Advance(Millis(kLongestPinMs + 1));  // the ends of pins
    engine_->RunOneStep();
    CheckInvariants();
    const DecoderInstance& decoder = engine_->decoder_for_test();
    const AdmissionState& admission = *decoder.admission();
    if (!decoder.works().empty()) Fail("a request is left over");
    if (decoder.pool().active() != 0 || decoder.pool().promised() != 0) Fail("blocks leaked");
    if (decoder.pool().states().active() != 0) Fail("states leaked");
    if (decoder.pool().window_blocks().active() != 0) Fail("blocks of windows leaked");
    if (admission.unfinished != 0 || admission.places != 0 || admission.aside != 0 ||
        admission.preparing != 0 || admission.queued_bytes != 0 || admission.queued_tokens != 0) {
      Fail("the queue's admission state does not balance");
    }
    std::string why;
    if (!decoder.pool().index().Check(&why)) Fail("prefix index: " + why);
    for (Client& c : clients_) {
      if (c.stream == nullptr || c.refused || c.next_read == TimePoint::max()) continue;
      if (!c.stream->ended() || c.ends != 1) Fail("a request has no terminal event");
    }
    const EngineStats stats = engine_->stats();
    report_.preemptions = static_cast<int64_t>(stats.preemptions);
    report_.prefix_hit_tokens = static_cast<int64_t>(stats.prefix_hit_tokens);
    if (stateful_) {
      report_.state_hit_tokens = report_.prefix_hit_tokens;
      report_.checkpoints_evicted = static_cast<int64_t>(stats.evicted_checkpoints);
    }
    if (windowed_) report_.window_hit_tokens = report_.prefix_hit_tokens;
    report_.loaded_tokens = static_cast<int64_t>(stats.loaded_prefix_tokens);
    report_.failed_loads = static_cast<int64_t>(stats.failed_prefix_loads);
    report_.drafts = static_cast<int64_t>(stats.draft_tokens);
    report_.accepted = static_cast<int64_t>(stats.accepted_tokens);
    report_.reader_pauses = static_cast<int64_t>(stats.reader_pauses);
  }

  Random random_;
  const bool trace_;
  ScheduleReport report_;
  EngineOptions options_;
  std::vector<Client> clients_;
  int pool_blocks_ = 0;
  bool stateful_ = false;  // the model has recurrent states
  bool windowed_ = false;  // the model has layers with a window, with blocks of their own
  ManualClock clock_;
  FakeTokenText text_;
  std::unique_ptr<TimingRunner> runner_, draft_;
  std::unique_ptr<FakePrefixStore> store_;
  std::unique_ptr<Engine> engine_;
  EngineSnapshot snapshot_;
};

}  // namespace

ScheduleReport RunSchedule(uint64_t seed, bool trace) { return Simulation(seed, trace).Run(); }

}  // namespace tutti::engine
