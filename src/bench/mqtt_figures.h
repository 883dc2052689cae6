// Evaluates the samples of `tutti bench mqtt`. Pure functions over plain values; any thread.
#pragma once

#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/mqtt_turns.h"

namespace tutti::bench {

// A gate: a ratio and its limit. Times have goals instead, which never fail the bench.
struct MqttGate {
  std::string name;
  double measured = 0, limit = 0;
  bool at_most = true;  // else at least
  bool met() const { return at_most ? measured <= limit : measured >= limit; }
  std::string Line() const;  // "both / (A + B): 0.64, at most 0.75: met"
  boost::json::object Json() const;
};

// Answers of one level and transport.
struct WaySummary {
  int answers = 0, failed = 0, lossy = 0;  // lossy: deltas were lost, the last event had it all
  double seconds = 0;                      // from the first sending to the last end
  double tokens_per_s = 0, events_per_s = 0;
  std::vector<double> accepted_s, first_s, end_s;  // of successful answers
};
WaySummary Summarize(std::span<const ChatAnswer> answers, double seconds);
// One row of the table.
std::string WayLine(const std::string& name, const WaySummary& way);
boost::json::object WayJson(const WaySummary& way);

// Share of a dialog's prompt tokens that came from the prefix cache, over the turns after the first
// whose history was not cut (whose prompt is not shorter than the one before).
struct CachedShare {
  double share = 0;  // cached / prompt tokens
  int turns = 0, cut = 0;
};
CachedShare CachedShareOf(std::span<const ChatAnswer> turns);

// "word-0042": the secret of a client; contained in no other client's.
std::string SecretOf(int client);
// The other client whose secret an answer to `client` contains; -1: none.
int ForeignSecretIn(const std::string& text, int client, int clients);

}  // namespace tutti::bench
