// What `tutti bench mqtt` makes of its samples. Pure functions over plain values; any thread.
#pragma once

#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/mqtt_turns.h"

namespace tutti::bench {

// A ratio and its limit: a gate. Times have goals instead, which fail nothing.
struct MqttGate {
  std::string name;
  double measured = 0, limit = 0;
  bool at_most = true;  // else at least
  bool met() const { return at_most ? measured <= limit : measured >= limit; }
  std::string Line() const;  // "both / (A + B): 0.64, at most 0.75: met"
  boost::json::object Json() const;
};

// Answers of one level and way in.
struct WaySummary {
  int answers = 0, failed = 0, lossy = 0;  // lossy: deltas were lost, the last event had it all
  double seconds = 0;                      // from the first sending to the last end
  double tokens_per_s = 0, events_per_s = 0;
  std::vector<double> accepted_s, first_s, end_s;  // of those that did not fail
};
WaySummary Summarize(std::span<const ChatAnswer> answers, double seconds);
// One row of the table.
std::string WayLine(const std::string& name, const WaySummary& way);
boost::json::object WayJson(const WaySummary& way);

// How much of a dialog's prompts came from the cache: over the turns after the first that were not
// cut (whose prompt is not shorter than the one before).
struct CachedShare {
  double share = 0;  // cached / prompt tokens
  int turns = 0, cut = 0;
};
CachedShare CachedShareOf(std::span<const ChatAnswer> turns);

// "word-0042": of one client, and a part of no other's.
std::string SecretOf(int client);
// Whose secret an answer to `client` holds besides its own; -1: nobody's.
int ForeignSecretIn(const std::string& text, int client, int clients);

}  // namespace tutti::bench
