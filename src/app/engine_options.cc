#include "app/engine_options.h"

#include <string>

namespace tutti::app {

engine::EngineOptions EngineOptionsFrom(const Settings& settings) {
  engine::EngineOptions options;
  engine::SchedulerOptions& s = options.scheduler;
  const std::string& strategy = settings.Text("strategy");
  s.strategy = strategy == "interleaved" ? engine::Strategy::kInterleaved
               : strategy == "blocking"  ? engine::Strategy::kBlocking
               : strategy == "static"    ? engine::Strategy::kStatic
                                         : engine::Strategy::kContinuous;
  s.admission = settings.Text("sched.admission") == "no_evict" ? engine::Admission::kNoEvict
                                                               : engine::Admission::kPack;
  s.max_num_seqs = static_cast<int>(settings.Int("max-num-seqs"));
  if (const auto chunk = settings.OptionalInt("prefill-chunk")) {
    s.prefill_chunk = s.prefill_chunk_alone = static_cast<int>(*chunk);
  }
  s.itl_target = FromSeconds(settings.Number("sched.itl_target_ms") / 1e3);
  s.prefix_cache = settings.On("prefix-cache");
  s.static_batch = static_cast<int>(settings.Int("sched.static_batch"));
  s.static_wait = FromSeconds(settings.Number("sched.static_wait_ms") / 1e3);
  options.queue.requests = static_cast<int>(settings.Int("queue"));
  const double age_s = settings.Number("sched.queue_age_s");
  options.queue.age = age_s > 0 ? FromSeconds(age_s) : Duration::max();
  return options;
}

}  // namespace tutti::app
