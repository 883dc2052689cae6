#include "bench/serve_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <numeric>
#include <thread>

#include "base/threads.h"
#include "bench/machine.h"
#include "client/http_connection.h"
#include "client/served_models.h"

namespace tutti::bench {
namespace {

constexpr int kMaxClients =
    1024;  // threads that send; an open loop with more requests outstanding sends late

std::string RequestBody(const ServeOptions& options, const std::string& model, int index) {
  const std::string text = PromptText(options.workload, options.prompt_tokens, options.seed, index);
  boost::json::object body{{"model", model},
                           {"max_tokens", options.max_tokens},
                           {"temperature", 0},
                           {"stream", true},
                           {"stream_options", {{"include_usage", true}}}};
  if (options.ignore_eos) body["ignore_eos"] = true;
  if (!options.cache_salt.empty()) body["cache_salt"] = options.cache_salt;
  if (options.chat) {
    body["messages"] = boost::json::array{boost::json::object{{"role", "user"}, {"content", text}}};
  } else {
    body["prompt"] = text;
  }
  return boost::json::serialize(body);
}

// The parts of one stream event that the bench needs.
struct Piece {
  bool text = false;
  int usage_tokens = -1;
  std::string error;
};

Piece ReadPiece(std::string_view data) {
  Piece piece;
  if (data == "[DONE]") return piece;
  boost::system::error_code failed;
  const boost::json::value parsed =
      boost::json::parse(boost::json::string_view(data.data(), data.size()), failed);
  const boost::json::object* object = failed ? nullptr : parsed.if_object();
  if (object == nullptr) {
    piece.error = "an event that is no JSON object";
    return piece;
  }
  if (const auto* error = object->if_contains("error"); error != nullptr && !error->is_null()) {
    piece.error = boost::json::serialize(*error).substr(0, 300);
  }
  if (const auto* usage = object->if_contains("usage"); usage != nullptr && usage->is_object()) {
    if (const auto* tokens = usage->get_object().if_contains("completion_tokens");
        tokens != nullptr && tokens->is_int64()) {
      piece.usage_tokens = static_cast<int>(tokens->get_int64());
    }
  }
  const auto* choices = object->if_contains("choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return piece;
  const boost::json::object* choice = choices->get_array()[0].if_object();
  if (choice == nullptr) return piece;
  const boost::json::value* text = choice->if_contains("text");
  if (const auto* delta = choice->if_contains("delta"); delta != nullptr && delta->is_object()) {
    text = delta->get_object().if_contains("content");
  }
  piece.text = text != nullptr && text->is_string() && !text->get_string().empty();
  return piece;
}

// `kept`: the sender's connection; null: one for this request alone.
RequestRecord RunRequest(const ServeOptions& options, const client::Server& server,
                         client::StreamConnection* kept, const std::string& body, double due_s,
                         TimePoint start) {
  const SteadyClock clock;
  RequestRecord record;
  record.sent_s = ToSeconds(clock.Now() - start);
  record.due_s = due_s >= 0 ? due_s : record.sent_s;
  int pieces = 0;
  double last = 0;
  std::string stream_error;
  const auto on_event = [&](std::string_view data, TimePoint when) {
    const Piece piece = ReadPiece(data);
    if (!piece.error.empty()) stream_error = piece.error;
    if (piece.usage_tokens >= 0) record.tokens = piece.usage_tokens;
    if (!piece.text) return;
    const double now = ToSeconds(when - start);
    if (pieces++ == 0) {
      record.first_s = now;
    } else {
      record.gaps_s.push_back(now - last);
    }
    last = now;
  };
  const std::string path = options.chat ? "/v1/chat/completions" : "/v1/completions";
  record.status = kept != nullptr ? kept->Post(path, body, on_event)
                                  : client::PostStream(server, path, body, options.api_key,
                                                       options.patience, on_event);
  record.end_s = ToSeconds(clock.Now() - start);
  if (record.status.ok() && !stream_error.empty())
    record.status = Unavailable("stream_error", stream_error);
  if (record.status.ok() && pieces == 0)
    record.status = Unavailable("no_text", "an answer without any text");
  if (record.tokens == 0) record.tokens = pieces;
  return record;
}

template <typename F>
std::vector<double> Collect(const std::vector<RequestRecord>& records, F add) {
  std::vector<double> out;
  for (const RequestRecord& record : records) {
    if (record.status.ok()) add(record, out);
  }
  return out;
}

// Requests a second that met every target given.
double Goodput(const ServeOptions& options, const LevelResult& level) {
  int good = 0;
  for (const RequestRecord& record : level.records) {
    if (!record.status.ok()) continue;
    const double ttft_ms = (record.first_s - record.due_s) * 1e3;
    const double tpot_ms =
        record.tokens > 1 ? (record.end_s - record.first_s) * 1e3 / (record.tokens - 1) : 0;
    good += (options.target_ttft_ms <= 0 || ttft_ms <= options.target_ttft_ms) &&
            (options.target_tpot_ms <= 0 || tpot_ms <= options.target_tpot_ms);
  }
  return good / level.seconds;
}

// `of` each part of the requests that were answered, in the order of their ends.
std::vector<double> PartsOfLevel(
    const LevelResult& level,
    const std::function<double(std::span<const RequestRecord* const>)>& of) {
  std::vector<const RequestRecord*> ended;
  for (const RequestRecord& record : level.records) {
    if (record.status.ok()) ended.push_back(&record);
  }
  std::sort(ended.begin(), ended.end(),
            [](const RequestRecord* a, const RequestRecord* b) { return a->end_s < b->end_s; });
  std::vector<double> places(ended.size());  // so that PartsOf() does the cutting
  std::iota(places.begin(), places.end(), 0.0);
  return PartsOf(places, [&](std::span<const double> part) {
    return of(std::span(ended).subspan(static_cast<size_t>(part.front()), part.size()));
  });
}

// The figures of a level: in a closed loop the output rate, in both kinds the median TTFT and TPOT.
// `share`: of the capacity, in a sweep; else 0.
std::vector<Figure> LevelFigures(const ServeOptions& options, const LevelResult& level, int clients,
                                 double rate, double share) {
  const auto median_ms = [&](const auto& seconds) {
    return PartsOfLevel(level, [&](std::span<const RequestRecord* const> part) {
      std::vector<double> values;
      for (const RequestRecord* record : part) values.push_back(seconds(*record));
      return 1e3 * Percentile(values, 50);
    });
  };
  const std::string work = fmt::format("{}, {} + {}", options.chat ? "chat" : "completions",
                                       options.prompt_tokens, options.max_tokens);
  Figure base;
  base.series = rate > 0 ? work + ", open loop" : work;
  base.axis = share > 0 ? "x capacity" : rate > 0 ? "requests/s" : "clients";
  base.at = share > 0 ? share : rate > 0 ? rate : clients;
  std::vector<Figure> figures;
  const auto add = [&](const char* metric, const char* unit, bool more,
                       std::vector<double> samples) {
    Figure figure = base;
    figure.metric = metric;
    figure.unit = unit;
    figure.more_is_better = more;
    figure.samples = std::move(samples);
    figures.push_back(std::move(figure));
  };
  if (rate <= 0) {
    // As many requests as clients are always in progress, so the rate of a part follows from the
    // times of its requests. Counting tokens in a span of time would depend on where the span cuts
    // through requests that end together.
    const double busy = std::min(clients, options.requests);
    add("output rate", "tokens/s", true,
        PartsOfLevel(level, [&](std::span<const RequestRecord* const> part) {
          double tokens = 0, seconds = 0;
          for (const RequestRecord* record : part) {
            tokens += record->tokens;
            seconds += record->end_s - record->sent_s;
          }
          return busy * tokens / seconds;
        }));
  }
  add("TTFT", "ms", false,
      median_ms([](const RequestRecord& record) { return record.first_s - record.due_s; }));
  if (options.max_tokens > 1) {
    add("TPOT", "ms", false, median_ms([](const RequestRecord& record) {
          return (record.end_s - record.first_s) / std::max(1, record.tokens - 1);
        }));
  }
  return figures;
}

}  // namespace

bool RequestRecord::refused() const {
  return status.reason() == "http_status" && status.retry_after().has_value() &&
         (status.code() == StatusCode::kUnavailable ||
          status.code() == StatusCode::kResourceExhausted);
}

ServeOptions ServeOptions::ShortRequests() {
  ServeOptions options;
  options.prompt_tokens = options.max_tokens = 32;
  options.keep_connections = true;
  return options;
}

int LevelResult::completed() const {
  return static_cast<int>(
      std::count_if(records.begin(), records.end(), [](const auto& r) { return r.status.ok(); }));
}
std::vector<double> LevelResult::Ttft() const {
  return Collect(records,
                 [](const RequestRecord& r, auto& out) { out.push_back(r.first_s - r.due_s); });
}
std::vector<double> LevelResult::Tpot() const {
  return Collect(records, [](const RequestRecord& r, auto& out) {
    if (r.tokens > 1) out.push_back((r.end_s - r.first_s) / (r.tokens - 1));
  });
}
std::vector<double> LevelResult::Itl() const {
  return Collect(records, [](const RequestRecord& r, auto& out) {
    out.insert(out.end(), r.gaps_s.begin(), r.gaps_s.end());
  });
}
std::vector<double> LevelResult::EndToEnd() const {
  return Collect(records,
                 [](const RequestRecord& r, auto& out) { out.push_back(r.end_s - r.due_s); });
}
std::vector<double> LevelResult::Late() const {
  return Collect(records,
                 [](const RequestRecord& r, auto& out) { out.push_back(r.sent_s - r.due_s); });
}
int64_t LevelResult::tokens() const {
  int64_t total = 0;
  for (const RequestRecord& record : records) total += record.status.ok() ? record.tokens : 0;
  return total;
}
double LevelResult::sent_rate() const {
  if (records.size() < 2) return 0;
  double first = records[0].sent_s, last = first;
  for (const RequestRecord& record : records) {
    first = std::min(first, record.sent_s);
    last = std::max(last, record.sent_s);
  }
  return last > first ? static_cast<double>(records.size() - 1) / (last - first) : 0;
}
bool LevelResult::stable() const {
  return IsStable(WindowRates(
      Collect(records, [](const RequestRecord& r, auto& out) { out.push_back(r.end_s); }), 3));
}

LevelResult RunLoad(const ServeOptions& options, const client::Server& server,
                    const std::string& model, int clients, const std::vector<double>& due) {
  const SteadyClock clock;
  LevelResult level;
  const int requests = due.empty() ? options.requests : static_cast<int>(due.size());
  level.records.resize(static_cast<size_t>(requests));
  // Made beforehand in a closed loop, where making one would be in the timing; else by a sender
  // that waits for its time.
  std::vector<std::string> bodies;
  for (int i = 0; due.empty() && i < requests; ++i)
    bodies.push_back(RequestBody(options, model, i));
  const int threads = std::min({clients > 0 ? clients : kMaxClients, requests, kMaxClients});
  std::atomic<int> next{0};
  const TimePoint start =
      clock.Now() + (due.empty() ? Duration::zero() : std::chrono::milliseconds(50));
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      client::StreamConnection connection(server, options.api_key, options.patience);
      client::StreamConnection* const kept = options.keep_connections ? &connection : nullptr;
      for (int i = next++; i < requests; i = next++) {
        const auto index = static_cast<size_t>(i);
        const double due_s = due.empty() ? -1 : due[index];
        const std::string body =
            due.empty() ? std::move(bodies[index]) : RequestBody(options, model, i);
        if (due_s >= 0) std::this_thread::sleep_until(start + FromSeconds(due_s));
        level.records[index] = RunRequest(options, server, kept, body, due_s, start);
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  for (const RequestRecord& record : level.records)
    level.seconds = std::max(level.seconds, record.end_s);
  return level;
}

Result<LevelResult> RunClosedLoop(const ServeOptions& options, const client::Server& server,
                                  const std::string& model, int clients, int requests,
                                  int max_tokens, uint64_t seed) {
  ServeOptions load = options;
  load.requests = requests;
  load.max_tokens = max_tokens;
  load.seed = seed;
  LevelResult level = RunLoad(load, server, model, clients, {});
  for (const RequestRecord& record : level.records) RETURN_IF_ERROR(record.status);
  return level;
}

Result<Report> BenchServe(const ServeOptions& options, const Progress& progress) {
  ASSIGN_OR_RETURN(const client::Server server, client::ParseServer(options.url));
  const client::ModelServer at{server, options.api_key, options.patience};
  ASSIGN_OR_RETURN(const std::string model, client::ChooseModel(at, options.model, "generate"));
  ASSIGN_OR_RETURN(const kernels::KernelTable* kernels, kernels::SelectKernels());
  Calibration calibration(kernels->isa, UsableCores(), options.calibrate);

  Report report;
  boost::json::array rows;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  say(fmt::format("{} at {}, {} requests a level, prompts of about {} tokens, {} tokens out", model,
                  options.url, options.requests, options.prompt_tokens, options.max_tokens));
  say(options.cache_salt.empty()
          ? fmt::format("seed {}, no cache salt: a server may reuse what an earlier run left",
                        options.seed)
          : fmt::format("seed {}, cache salt {}", options.seed, options.cache_salt));
  say(fmt::format("{:>12} {:>8} {:>7} {:>7} {:>21} {:>21} {:>21}", "load", "done", "req/s", "tok/s",
                  "TTFT ms p50/p95/p99", "ITL ms", "E2E ms"));
  {  // one request that is not counted: connections, pages, caches
    ServeOptions warm = options;
    warm.requests = 1;
    warm.seed = LevelSeed(options.seed, 0);
    const LevelResult first = RunLoad(warm, server, model, 1, {});
    const Status& status = first.records[0].status;
    if (!status.ok()) return client::Explained(at, model, "generate", status);
  }
  int levels = 0;
  const auto run = [&](const std::string& name, int clients, double rate, double share = 0) {
    ServeOptions own = options;
    own.seed = LevelSeed(options.seed, ++levels);
    const bool before = calibration.AtFullSpeed();
    const std::vector<double> due =
        rate > 0 ? ArrivalTimes(options.arrivals, rate, options.requests, options.seed)
                 : std::vector<double>();
    const LevelResult level = RunLoad(own, server, model, clients, due);
    const bool steady = before && calibration.AtFullSpeed();
    const int done = level.completed();
    for (const RequestRecord& record : level.records) {
      if (record.status.ok()) continue;
      report.failures.push_back(fmt::format("{}: {} of {} requests failed, the first with: {}",
                                            name, options.requests - done, options.requests,
                                            record.status.ToString()));
      break;
    }
    const double tok_s = static_cast<double>(level.tokens()) / level.seconds;
    say(fmt::format("{:>12} {:>4}/{} {:>7.2f} {:>7.0f} {:>21} {:>21} {:>21}{}{}", name, done,
                    options.requests, done / level.seconds, tok_s, MillisText(level.Ttft()),
                    MillisText(level.Itl()), MillisText(level.EndToEnd()),
                    level.stable() || rate > 0 ? "" : "  (unstable)",
                    steady ? "" : "  (machine slowed)"));
    boost::json::object row{{"requests", options.requests},
                            {"completed", done},
                            {"seconds", level.seconds},
                            {"req_s", done / level.seconds},
                            {"output_tok_s", tok_s},
                            {"ttft_ms", MillisJson(level.Ttft())},
                            {"tpot_ms", MillisJson(level.Tpot())},
                            {"itl_ms", MillisJson(level.Itl())},
                            {"e2e_ms", MillisJson(level.EndToEnd())},
                            {"goodput_req_s", Goodput(options, level)},
                            {"stable", level.stable()},
                            {"steady", steady}};
    if (rate > 0) {
      row["rate"] = rate;
      row["sent_rate"] = level.sent_rate();
      row["late_ms"] = MillisJson(level.Late());
      say(fmt::format("{:>12} sent late by ms p50/p95/p99 {}", "", MillisText(level.Late())));
    } else {
      row["concurrency"] = clients;
    }
    rows.push_back(std::move(row));
    const std::vector<Figure> figures = LevelFigures(options, level, clients, rate, share);
    report.figures.insert(report.figures.end(), figures.begin(), figures.end());
    return done / level.seconds;
  };
  if (options.rate > 0) {
    run(fmt::format("{:.2f} req/s", options.rate), 0, options.rate);
  } else {
    double capacity = 0;
    for (const int clients : options.concurrency)
      capacity = run(fmt::format("{} clients", clients), clients, 0);
    if (options.sweep && capacity > 0) {
      for (const double share : {0.5, 0.8, 1.0, 1.2})
        run(fmt::format("{:.1f} capacity", share), 0, share * capacity, share);
    }
  }
  report.json = {{"schema", "tutti.bench.serve.v1"},
                 {"machine", calibration.Json()},
                 {"url", options.url},
                 {"model", model},
                 {"chat", options.chat},
                 {"prompt_tokens", options.prompt_tokens},
                 {"max_tokens", options.max_tokens},
                 {"seed", options.seed},
                 {"cache_salt", options.cache_salt},
                 {"rows", std::move(rows)},
                 {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
