#include "bench/mixed.h"

#include <fmt/format.h>

#include <atomic>
#include <boost/json/object.hpp>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "app/blocking_waker.h"
#include "app/loading/loading.h"
#include "app/loading/model_registry.h"
#include "app/local_inference.h"
#include "base/mutex.h"
#include "bench/report.h"
#include "bench/workload.h"

namespace tutti::bench {
namespace {

constexpr int kTextSenders = 32;  // that many texts may be unanswered before one is sent late

struct Half {
  std::vector<double> ttft_s, itl_s, text_s;
  std::vector<double> late_s, queue_s, inference_s;  // of the texts: parts of text_s
  int64_t tokens = 0, texts = 0;
  double seconds = 0;
  std::vector<std::string> failures;
};

// One half of the run: streams, and maybe texts, for a given time.
class MixedLoad {
 public:
  MixedLoad(api::Inference& inference, const MixedOptions& options, bool texts)
      : inference_(inference), options_(options), with_texts_(texts) {}

  Half Run() {
    start_ = clock_.Now();
    end_ = start_ + FromSeconds(options_.seconds);
    std::vector<std::thread> threads;
    for (int s = 0; s < options_.streams; ++s) threads.emplace_back([this, s] { Stream(s); });
    for (int s = 0; with_texts_ && s < kTextSenders; ++s) threads.emplace_back([this] { Texts(); });
    for (std::thread& thread : threads) thread.join();
    half_.seconds = ToSeconds(clock_.Now() - start_);
    return std::move(half_);
  }

 private:
  void Stream(int stream) {
    for (int round = 0; clock_.Now() < end_; ++round) {
      api::GenerateRequest request;
      request.prompt = api::TextPrompt{
          .text =
              fmt::format("Story {} of stream {} begins on a quiet morning, when", round, stream)};
      request.sampling.temperature = 0;
      // Lengths differ, so that streams that begin together do not stay together; otherwise a run
      // would measure how the streams happened to fall into groups.
      request.sampling.max_tokens =
          std::max(1, options_.new_tokens * (6 + (round * 5 + stream * 3) % 5) / 8);
      request.sampling.ignore_eos = true;
      request.use_prefix_cache = false;
      const TimePoint sent = clock_.Now();
      auto waker = std::make_shared<app::BlockingWaker>();
      Result<api::Generation> generation = inference_.Generate(std::move(request), waker);
      if (!generation.ok()) return Fail(generation.status());
      std::vector<TimePoint> times;
      while (const api::StreamEvent* event = waker->Next(*generation))
        if (event->kind == api::StreamEvent::Kind::kToken) times.push_back(clock_.Now());
      if (!generation->stream().status().ok()) return Fail(generation->stream().status());
      const MutexLock lock(mutex_);
      half_.tokens += static_cast<int64_t>(times.size());
      if (!times.empty()) half_.ttft_s.push_back(ToSeconds(times.front() - sent));
      for (size_t i = 1; i < times.size(); ++i)
        half_.itl_s.push_back(ToSeconds(times[i] - times[i - 1]));
    }
  }

  void Texts() {
    auto waker = std::make_shared<app::BlockingWaker>();
    while (true) {
      const int index = next_text_++;
      const TimePoint due = start_ + FromSeconds(index / options_.texts_per_s);
      if (due >= end_) return;
      std::this_thread::sleep_until(due);
      const TimePoint sent = clock_.Now();
      api::EncodeRequest request;
      request.inputs = {PromptText(Workload::kRandom, options_.tokens - 2, 1, index)};
      Result<api::Encoding> encoding = inference_.Encode(std::move(request), waker);
      if (!encoding.ok()) return Fail(encoding.status());
      const Result<api::EncodeResult> result = waker->Await(*encoding);
      if (!result.ok()) return Fail(result.status());
      const double took = ToSeconds(clock_.Now() - due);
      const MutexLock lock(mutex_);
      half_.text_s.push_back(took);
      half_.late_s.push_back(ToSeconds(sent - due));
      half_.queue_s.push_back(ToSeconds(result->timings.queue));
      half_.inference_s.push_back(ToSeconds(result->timings.inference));
      ++half_.texts;
    }
  }

  void Fail(const Status& status) {
    const MutexLock lock(mutex_);
    if (half_.failures.size() < 10) half_.failures.push_back(status.ToString());
  }

  api::Inference& inference_;
  const MixedOptions& options_;
  const bool with_texts_;
  const SteadyClock clock_;
  TimePoint start_{}, end_{};
  std::atomic<int> next_text_{0};
  Mutex mutex_;
  Half half_;  // guarded by mutex_ while threads run
};

boost::json::object HalfJson(const Half& half) {
  return {{"seconds", half.seconds},
          {"tok_s", static_cast<double>(half.tokens) / half.seconds},
          {"texts_s", static_cast<double>(half.texts) / half.seconds},
          {"ttft_ms", MillisJson(half.ttft_s)},
          {"itl_ms", MillisJson(half.itl_s)},
          {"text_ms", MillisJson(half.text_s)},
          {"text_sent_late_ms", MillisJson(half.late_s)},
          {"text_queue_ms", MillisJson(half.queue_s)},
          {"text_inference_ms", MillisJson(half.inference_s)}};
}

std::string Row(const char* name, const Half& half) {
  std::string row = fmt::format("{:>12} {:>8.0f} {:>8.0f} {:>22} {:>22}", name,
                                static_cast<double>(half.tokens) / half.seconds,
                                static_cast<double>(half.texts) / half.seconds,
                                MillisText(half.ttft_s), MillisText(half.itl_s));
  if (!half.text_s.empty())
    row += fmt::format(" {:>22}\n{:>12} of a text: sent late {}, queue {}, inference {}",
                       MillisText(half.text_s), "", MillisText(half.late_s),
                       MillisText(half.queue_s), MillisText(half.inference_s));
  return row;
}

Status LoadModel(app::LocalInference& inference, const std::string& model) {
  ASSIGN_OR_RETURN(const app::ModelRef ref, app::ResolveModel(model));
  ASSIGN_OR_RETURN(app::OpenedModel opened, app::OpenOne(inference, ref));
  return inference.Load(std::move(opened));
}

}  // namespace

Result<Report> BenchMixed(const MixedOptions& options, const Progress& progress) {
  app::Settings::Inputs inputs;
  inputs.flags = options.flags;
  inputs.flags["max-num-seqs"] = std::to_string(options.streams);
  inputs.environment = app::TuttiEnvironment();
  ASSIGN_OR_RETURN(const app::Settings settings, app::Settings::Resolve(inputs));
  app::LocalInference inference(settings, nullptr);
  RETURN_IF_ERROR(LoadModel(inference, options.chat_model));
  RETURN_IF_ERROR(LoadModel(inference, options.encoder));

  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  MixedOptions warm_up = options;
  warm_up.seconds = std::min(1.0, options.seconds);
  MixedLoad(inference.gateway(), warm_up, true).Run();
  say(fmt::format("{:>12} {:>8} {:>8} {:>22} {:>22} {:>22}", "", "tok/s", "texts/s",
                  "TTFT ms p50/p95/p99", "ITL ms p50/p95/p99", "text ms p50/p95/p99"));
  const Half alone = MixedLoad(inference.gateway(), options, false).Run();
  say(Row("alone", alone));
  const Half with_texts = MixedLoad(inference.gateway(), options, true).Run();
  say(Row("with texts", with_texts));
  for (const Half* half : {&alone, &with_texts})
    report.failures.insert(report.failures.end(), half->failures.begin(), half->failures.end());

  const double itl = PercentilesOf(with_texts.itl_s).p99 / PercentilesOf(alone.itl_s).p99;
  const double ttft = PercentilesOf(with_texts.ttft_s).p50 / PercentilesOf(alone.ttft_s).p50;
  const double text_ms = PercentilesOf(with_texts.text_s).p99 * 1e3;
  say(fmt::format(
      "with texts / alone: p99 ITL {:.2f}, p50 TTFT {:.2f} (1.50 allowed); p99 of a text "
      "{:.1f} ms (50 allowed){}",
      itl, ttft, text_ms,
      options.gated ? "" : "; not judged at another rate or number of streams"));
  if (options.gated) {
    if (itl > 1.5) report.failures.push_back(fmt::format("p99 ITL is {:.2f} x alone", itl));
    if (ttft > 1.5) report.failures.push_back(fmt::format("p50 TTFT is {:.2f} x alone", ttft));
    if (text_ms > 50) report.failures.push_back(fmt::format("a text's p99 is {:.1f} ms", text_ms));
  }
  report.json = {{"schema", "tutti.bench.mixed.v1"},
                 {"streams", options.streams},
                 {"rate", options.texts_per_s},
                 {"alone", HalfJson(alone)},
                 {"with_texts", HalfJson(with_texts)},
                 {"itl_ratio", itl},
                 {"ttft_ratio", ttft},
                 {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
