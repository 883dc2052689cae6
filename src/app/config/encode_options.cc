#include "app/config/encode_options.h"

namespace tutti::app {
engine::EncoderOptions EncodeOptionsFrom(const Settings& settings) {
  engine::EncoderOptions options;
  options.batch_items = static_cast<int>(settings.Int("encode.batch_items"));
  options.batch_tokens = static_cast<int>(settings.Int("encode.batch_tokens"));
  options.batch_time = FromSeconds(settings.Number("encode.batch_ms") / 1e3);
  options.window = FromSeconds(settings.Number("encode.window_ms") / 1e3);
  options.share = settings.Number("encode.share");
  options.requests = static_cast<int>(settings.Int("encode.queue"));
  const double age_s = settings.Number("sched.queue_age_s");
  options.age = age_s > 0 ? FromSeconds(age_s) : Duration::max();
  return options;
}

}  // namespace tutti::app
