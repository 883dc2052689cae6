// A closed loop of encodings: each client sends a request of `texts` texts when its previous one
// has been answered. Shared by all encoder benches.
//
// Definitions: latency = from sending to the answer, measured by the client; in flight = mean
// number of unanswered requests = sum of latencies / time of the run (by Little's law throughput x
// mean latency; at most the number of clients); busy share = time of forward passes / time of the
// run; batch = texts of a forward pass. The first answers of a run are compared with those of the
// same texts alone, bit for bit: other texts in the batch must not change a vector.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "bench/encode_target.h"
#include "bench/report.h"

namespace tutti::bench {

struct EncodeShape {
  int clients = 1;
  int texts = 1;    // of a request
  int tokens = 16;  // of a text, approximately: words, plus two special tokens
};

// Number of words of a text, and a text of `words` words.
int WordsOf(const EncodeShape& shape);
std::string EncodeText(int words, uint64_t seed, int index);

struct EncodeRun {
  EncodeShape shape;
  int requests = 0;                       // answered
  double seconds = 0;                     // from the first send to the last answer
  std::vector<double> latency_s, ends_s;  // of each request; ends since the start of the run
  int max_in_flight = 0;
  double tokens_read = 0;                              // mean of a text, if the target reports it
  double prepare_s = 0, queue_s = 0, inference_s = 0;  // means, if the target reports them
  api::ModelStatistics work;                           // of the target, during the run
  std::vector<std::string> failures;                   // answers that differ or are missing
  std::map<std::string, int> errors;                   // requests that failed, by "CODE reason"

  double texts_per_s() const;
  double in_flight() const;
  double mean_latency_s() const;
  double busy_share() const;
  double batch() const;  // mean texts of a forward pass; 0 if unknown
  bool stable() const;
};

// Sends `requests` requests after `warmup` unmeasured ones; sends none after `max_time`. `seed`
// determines the texts.
EncodeRun RunEncodeLoad(EncodeTarget& target, const EncodeShape& shape, int requests, int warmup,
                        uint64_t seed, Duration max_time = std::chrono::hours(24 * 365));

// With "parts": the samples of the figures, so that they can be made from a stored row.
boost::json::object EncodeRunJson(const EncodeRun& run);
// The figures of such a row: the rate of texts and the median latency. `series` is added to the
// row's own settings.
std::vector<Figure> EncodeFigures(const boost::json::object& row, const std::string& series = "");
// A table's head, and one row of it.
std::string EncodeTableHead();
std::string EncodeTableRow(const EncodeRun& run);

// Sends the first request to a target, before anything is measured: a target that cannot work gives
// one error with advice, and texts longer than the model's limit give a warning.
//
// A line for people if texts of the length of `shape` are truncated, by the target's own token
// count; else "". Errors: of the request, as the target explains them.
Result<std::string> Greet(EncodeTarget& target, const EncodeShape& shape);

}  // namespace tutti::bench
