// A closed loop of encodings: so many clients, each sends its next request of `texts` texts when
// the last has been answered. The part that all encoder benches share.
//
// Definitions: latency = sent until answered, as the client sees it; in flight = mean number of
// unanswered requests = sum of latencies / time of the run (Little's law makes it throughput x mean
// latency, and the closed loop bounds it by the clients); busy share = time of forward passes /
// time of the run; batch = texts of a forward pass. A run's first answers are compared with those
// of the same texts alone, bit for bit: company must not change a vector.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/encode_target.h"
#include "bench/statistics.h"

namespace tutti::bench {

struct EncodeShape {
  int clients = 1;
  int texts = 1;    // of a request
  int tokens = 16;  // of a text, about: so many less two common words
};

// How many words that is, and the text of so many.
int WordsOf(const EncodeShape& shape);
std::string EncodeText(int words, uint64_t seed, int index);

struct EncodeRun {
  EncodeShape shape;
  int requests = 0;                       // answered
  double seconds = 0;                     // from the first sent to the last answered
  std::vector<double> latency_s, ends_s;  // of each; ends since the run began
  int most_in_flight = 0;
  double tokens_read = 0;                              // mean of a text, where the target tells
  double prepare_s = 0, queue_s = 0, inference_s = 0;  // means, where the target tells
  api::ModelStatistics work;                           // of the target, during the run
  std::vector<std::string> failures;                   // answers that differ or did not come
  std::map<std::string, int> errors;                   // requests that failed, by "CODE reason"

  double texts_per_s() const;
  double in_flight() const;
  double mean_latency_s() const;
  double busy_share() const;
  double batch() const;  // mean texts of a forward pass; 0 where the target does not tell
  bool stable() const;
};

// `requests` in all, after `warmup` that do not count; none is sent once `most_time` has passed.
// `seed` decides the texts.
EncodeRun RunEncodeLoad(EncodeTarget& target, const EncodeShape& shape, int requests, int warmup,
                        uint64_t seed, Duration most_time = std::chrono::hours(24 * 365));

boost::json::object EncodeRunJson(const EncodeRun& run);
// A table's head, and one row of it.
std::string EncodeTableHead();
std::string EncodeTableRow(const EncodeRun& run);

}  // namespace tutti::bench
