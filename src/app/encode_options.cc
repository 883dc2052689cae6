#include "app/encode_options.h"

namespace tutti::app {
namespace {

Duration Millis(double ms) { return Duration(static_cast<int64_t>(ms * 1e6)); }

}  // namespace

engine::EncoderOptions EncodeOptionsFrom(const Settings& settings) {
  engine::EncoderOptions options;
  options.batch_items = static_cast<int>(settings.Int("encode.batch_items"));
  options.batch_tokens = static_cast<int>(settings.Int("encode.batch_tokens"));
  options.batch_time = Millis(settings.Number("encode.batch_ms"));
  options.window = Millis(settings.Number("encode.window_ms"));
  options.share = settings.Number("encode.share");
  options.requests = static_cast<int>(settings.Int("encode.queue"));
  const double age_s = settings.Number("sched.queue_age_s");
  options.age = age_s > 0 ? Millis(age_s * 1e3) : Duration::max();
  return options;
}

}  // namespace tutti::app
