#include "bench/mqtt_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/statistics.h"

namespace tutti::bench {
namespace {

std::string Millis(std::span<const double> seconds) {
  if (seconds.empty()) return "-";
  const Percentiles p = PercentilesOf(seconds);
  return fmt::format("{:.1f}/{:.1f}/{:.1f}", p.p50 * 1e3, p.p95 * 1e3, p.p99 * 1e3);
}

}  // namespace

std::string MqttGate::Line() const {
  return fmt::format("{}: {:.3f}, {} {:.3f}: {}", name, measured, at_most ? "at most" : "at least",
                     limit, met() ? "met" : "MISSED");
}

boost::json::object MqttGate::Json() const {
  return {{"name", name},
          {"measured", measured},
          {"limit", limit},
          {"at_most", at_most},
          {"met", met()}};
}

WaySummary Summarize(std::span<const ChatAnswer> answers, double seconds) {
  WaySummary way;
  way.seconds = seconds;
  int64_t tokens = 0, events = 0;
  for (const ChatAnswer& answer : answers) {
    ++way.answers;
    if (!answer.status.ok()) {
      ++way.failed;
      continue;
    }
    way.lossy += answer.lost_deltas;
    tokens += answer.output_tokens;
    events += answer.events;
    if (answer.accepted_s > 0) way.accepted_s.push_back(answer.accepted_s);
    if (answer.first_s > 0) way.first_s.push_back(answer.first_s);
    way.end_s.push_back(answer.end_s);
  }
  if (seconds > 0) {
    way.tokens_per_s = static_cast<double>(tokens) / seconds;
    way.events_per_s = static_cast<double>(events) / seconds;
  }
  return way;
}

std::string WayLine(const std::string& name, const WaySummary& way) {
  return fmt::format("{:>12} {:>5}/{:<5} {:>8.1f} {:>9.1f} {:>20} {:>22} {:>24}", name,
                     way.answers - way.failed, way.answers, way.tokens_per_s, way.events_per_s,
                     Millis(way.accepted_s), Millis(way.first_s), Millis(way.end_s));
}

boost::json::object WayJson(const WaySummary& way) {
  return {{"answers", way.answers},
          {"failed", way.failed},
          {"lossy", way.lossy},
          {"seconds", way.seconds},
          {"tokens_per_s", way.tokens_per_s},
          {"events_per_s", way.events_per_s},
          {"accepted_ms", MillisJson(way.accepted_s)},
          {"ttft_ms", MillisJson(way.first_s)},
          {"reply_ms", MillisJson(way.end_s)}};
}

CachedShare CachedShareOf(std::span<const ChatAnswer> turns) {
  CachedShare result;
  int64_t cached = 0, prompt = 0;
  for (size_t i = 1; i < turns.size(); ++i) {
    if (turns[i].prompt_tokens < turns[i - 1].prompt_tokens) {
      ++result.cut;
      continue;
    }
    ++result.turns;
    cached += turns[i].cached_tokens;
    prompt += turns[i].prompt_tokens;
  }
  if (prompt > 0) result.share = static_cast<double>(cached) / static_cast<double>(prompt);
  return result;
}

std::string SecretOf(int client) { return fmt::format("word-{:04}", client); }

int ForeignSecretIn(const std::string& text, int client, int clients) {
  for (int other = 0; other < clients; ++other) {
    if (other != client && text.find(SecretOf(other)) != std::string::npos) return other;
  }
  return -1;
}

}  // namespace tutti::bench
