#include "bench/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/threads.h"
#include "bench/job_accepts.h"
#include "bench/machine.h"
#include "client/http_client.h"
#include "client/http_connection.h"
#include "client/served_models.h"

namespace tutti::bench {
namespace {

constexpr int kLongTokens = 200;     // of the answer that is streamed while jobs are submitted
constexpr int kJobsLevel = 1 << 20;  // of the seed of their prompts
constexpr auto kLook = std::chrono::milliseconds(50);

// Jobs of one server and one key.
class JobRun {
 public:
  JobRun(const JobsOptions& options, client::Server server, std::string model)
      : options_(options), server_(std::move(server)), model_(std::move(model)) {}

  Status Pause(bool paused) {
    ASSIGN_OR_RETURN(client::HttpConnection connection, Connect());
    ASSIGN_OR_RETURN(const client::HttpConnection::Answer answer,
                     connection.Post(paused ? "/v1/jobs/pause" : "/v1/jobs/resume", ""));
    return answer.status == 200 ? OkStatus() : client::AnswerError(answer.status, answer.body);
  }

  struct Submitted {
    std::vector<double> accept_s = {};  // how long each took to be accepted
    double per_s = 0;                   // 202s
  };
  Result<Submitted> Submit(int count) {
    Submitted submitted;
    const TimePoint begin = clock_.Now();
    Mutex mutex;
    Status failure;
    std::atomic<int> next{0};
    {
      std::vector<std::jthread> submitters;
      for (int i = 0; i < options_.submitters; ++i) {
        submitters.emplace_back([&] {
          Result<client::HttpConnection> connection = Connect();
          Status status = connection.status();
          std::vector<double> mine;
          while (status.ok() && next++ < count) {
            const TimePoint sent = clock_.Now();
            const auto answer =
                connection->Post("/v1/chat/completions", Body(), "Prefer: respond-async\r\n");
            mine.push_back(ToSeconds(clock_.Now() - sent));
            status = !answer.ok()            ? answer.status()
                     : answer->status == 202 ? OkStatus()
                                             : client::AnswerError(answer->status, answer->body);
          }
          const MutexLock lock(mutex);
          submitted.accept_s.insert(submitted.accept_s.end(), mine.begin(), mine.end());
          if (!status.ok()) failure = status;
        });
      }
    }
    RETURN_IF_ERROR(failure);
    submitted.per_s = count / ToSeconds(clock_.Now() - begin);
    return submitted;
  }

  // A batch, uploaded before the measurement: its duration and its number of failed lines.
  struct Batch {
    double seconds = 0;
    int64_t failed = 0;
  };
  Result<Batch> RunBatch(int lines) {
    std::string form =
        "--tutti-bench\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
        "--tutti-bench\r\nContent-Disposition: form-data; name=\"file\"; "
        "filename=\"lines.jsonl\"\r\nContent-Type: application/jsonl\r\n\r\n";
    for (int i = 0; i < lines; ++i) {
      form += fmt::format(
          "{{\"custom_id\":\"{}\",\"method\":\"POST\",\"url\":\"/v1/chat/"
          "completions\",\"body\":{}}}\n",
          i, Body());
    }
    form += "\r\n--tutti-bench--\r\n";
    ASSIGN_OR_RETURN(
        const std::string file,
        Created("/v1/files", form, "Content-Type: multipart/form-data; boundary=tutti-bench\r\n"));
    const TimePoint begin = clock_.Now();
    ASSIGN_OR_RETURN(
        const std::string batch,
        Created("/v1/batches",
                boost::json::serialize(boost::json::object{{"input_file_id", file},
                                                           {"endpoint", "/v1/chat/completions"},
                                                           {"completion_window", "24h"}}),
                ""));
    while (true) {
      ASSIGN_OR_RETURN(const boost::json::object seen, Look("/v1/batches/" + batch));
      const boost::json::value* status = seen.if_contains("status");
      if (status != nullptr && *status == "completed") {
        Batch done{.seconds = ToSeconds(clock_.Now() - begin)};
        done.failed = seen.at("request_counts").at("failed").to_number<int64_t>();
        return done;
      }
      if (status == nullptr || *status == "failed" || *status == "expired" ||
          *status == "cancelled")
        return Internal("the batch ended as " + boost::json::serialize(seen));
      std::this_thread::sleep_for(kLook);
    }
  }

  // Waits until all jobs have ended or `enough` returns true; returns whether all ended.
  Result<bool> AwaitNone(const std::function<bool()>& enough) {
    while (true) {
      bool none = true;
      for (const char* status : {"queued", "running"}) {
        ASSIGN_OR_RETURN(const int count, Count(status, 1));
        none = none && count == 0;
      }
      if (none || enough()) return none;
      std::this_thread::sleep_for(kLook);
    }
  }
  // Number of jobs in that status, counted up to `limit` (the server lists at most 100).
  Result<int> Count(const std::string& status, int limit) {
    ASSIGN_OR_RETURN(const boost::json::object list,
                     Look(fmt::format("/v1/jobs?status={}&limit={}", status, limit)));
    if (!list.contains("data")) return Internal("the server's list of jobs cannot be read");
    return static_cast<int>(list.at("data").get_array().size());
  }

  // Closed loop; an error if any request was not answered.
  Result<LevelResult> Closed(int clients, int requests, int max_tokens) {
    return RunClosedLoop(options_.load, server_, model_, clients, requests, max_tokens,
                         LevelSeed(options_.load.seed, ++levels_));
  }

 private:
  Result<client::HttpConnection> Connect() const {
    return client::HttpConnection::Open(server_, options_.load.api_key, options_.load.patience);
  }

  Result<boost::json::object> Look(const std::string& path) const {
    ASSIGN_OR_RETURN(const std::string text,
                     client::Get(server_, path, options_.load.api_key, options_.load.patience));
    return ObjectOf(text);
  }
  static Result<boost::json::object> ObjectOf(const std::string& text) {
    boost::system::error_code error;
    boost::json::value value = boost::json::parse(text, error);
    if (error || !value.is_object()) return Internal("the server's answer cannot be read: " + text);
    return std::move(value.get_object());
  }
  // Its id.
  Result<std::string> Created(const std::string& path, const std::string& body,
                              std::string_view fields) const {
    ASSIGN_OR_RETURN(client::HttpConnection connection, Connect());
    ASSIGN_OR_RETURN(const client::HttpConnection::Answer answer,
                     connection.Post(path, body, fields));
    if (answer.status != 200) return client::AnswerError(answer.status, answer.body);
    ASSIGN_OR_RETURN(const boost::json::object made, ObjectOf(answer.body));
    if (!made.contains("id")) return Internal("what was made has no id: " + answer.body);
    return std::string(made.at("id").as_string());
  }

  // A prompt like the interactive ones, but different from all of them.
  std::string Body() {
    const std::string text =
        PromptText(options_.load.workload, options_.load.prompt_tokens,
                   LevelSeed(options_.load.seed, kJobsLevel), static_cast<int>(++bodies_));
    return boost::json::serialize(
        boost::json::object{{"model", model_},
                            {"messages", boost::json::array{{{"role", "user"}, {"content", text}}}},
                            {"max_tokens", options_.load.max_tokens},
                            {"ignore_eos", options_.load.ignore_eos}});
  }

  const JobsOptions& options_;
  const client::Server server_;
  const std::string model_;
  const SteadyClock clock_;
  std::atomic<int64_t> bodies_{0};
  int levels_ = 0;
};

struct Printer {
  void Print(const std::string& line) { report.Print(line, progress); }
  void Demand(bool met, std::string what) {
    if (!met) report.failures.push_back(std::move(what));
  }
  Report report;
  const Progress& progress;
};

// In this process; no server.
Status Accepts(const JobsOptions& options, Printer* printer, boost::json::object* json) {
  std::error_code none;
  const std::string folder =
      options.folder.empty() ? std::filesystem::temp_directory_path(none).string() : options.folder;
  ASSIGN_OR_RETURN(const AcceptFigures plain, PlainCommits(folder, options.seconds));
  printer->Print(
      fmt::format("durable accepts of 2,000 bytes in {}; x plain: times a commit each", folder));
  printer->Print(fmt::format("{:>26} {:>10} {:>8} {:>22}", "at once", "accepts/s", "x plain",
                             "ms p50/p95/p99"));
  printer->Print(fmt::format("{:>26} {:>10.0f} {:>8} {:>22}", "plain, a commit each", plain.per_s,
                             "", MillisText(plain.accept_s, 2)));
  boost::json::array rows, redis_rows;
  double best = 0;
  for (const int at_once : options.at_once) {
    ASSIGN_OR_RETURN(const AcceptFigures figures, AcceptsOf(folder, at_once, options.seconds));
    const double ratio = plain.per_s > 0 ? figures.per_s / plain.per_s : 0;
    best = std::max(best, ratio);
    printer->Print(fmt::format("{:>26} {:>10.0f} {:>8.2f} {:>22}", at_once, figures.per_s, ratio,
                               MillisText(figures.accept_s, 2)));
    rows.push_back(boost::json::object{{"at_once", at_once},
                                       {"accepts_per_s", figures.per_s},
                                       {"of_plain", ratio},
                                       {"accept_ms", MillisJson(figures.accept_s)}});
  }
  for (const int at_once : options.at_once) {
    ASSIGN_OR_RETURN(const std::optional<AcceptFigures> figures,
                     RedisAcceptsOf(folder, at_once, options.seconds));
    if (!figures.has_value()) {
      printer->Print("no Redis stream for comparison: there is no redis-server in PATH");
      break;
    }
    const double ratio = plain.per_s > 0 ? figures->per_s / plain.per_s : 0;
    printer->Print(fmt::format("{:>26} {:>10.0f} {:>8.2f} {:>22}",
                               fmt::format("a Redis stream, {}", at_once), figures->per_s, ratio,
                               MillisText(figures->accept_s, 2)));
    redis_rows.push_back(boost::json::object{{"at_once", at_once},
                                             {"accepts_per_s", figures->per_s},
                                             {"accept_ms", MillisJson(figures->accept_s)}});
  }
  printer->Demand(best >= options.least_of_plain,
                  fmt::format("accepts: {:.1f} x a commit each, {:g} are asked for", best,
                              options.least_of_plain));
  (*json)["accepts"] = boost::json::object{{"folder", folder},
                                           {"plain_per_s", plain.per_s},
                                           {"plain_ms", MillisJson(plain.accept_s)},
                                           {"rows", std::move(rows)},
                                           {"redis", std::move(redis_rows)}};
  return OkStatus();
}

}  // namespace

Result<Report> BenchJobs(const JobsOptions& options, const Progress& progress) {
  const ServeOptions& load = options.load;
  ASSIGN_OR_RETURN(const kernels::KernelTable* kernels, kernels::SelectKernels());
  Calibration calibration(kernels->isa, UsableCores(), load.calibrate);
  Printer printer{{}, progress};
  boost::json::object json{{"schema", "tutti.bench.jobs.v1"}, {"machine", calibration.Json()}};
  if (load.url.empty()) {
    RETURN_IF_ERROR(Accepts(options, &printer, &json));
    printer.Print("on " + MachineLine(calibration.best()));
    json["passed"] = printer.report.failures.empty();
    printer.report.json = std::move(json);
    return std::move(printer.report);
  }
  ASSIGN_OR_RETURN(const client::Server server, client::ParseServer(load.url));
  const client::ModelServer at{server, load.api_key, load.patience};
  ASSIGN_OR_RETURN(const std::string model, client::ChooseModel(at, load.model, "generate"));
  RETURN_IF_ERROR(Accepts(options, &printer, &json));

  JobRun run(options, server, model);
  const SteadyClock clock;
  if (const auto warm = run.Closed(1, 1, load.max_tokens); !warm.ok())
    return client::Explained(at, model, "generate", warm.status());
  RETURN_IF_ERROR(run.Pause(true));
  Result<JobRun::Submitted> accepted = Internal("not asked");
  {
    std::atomic<bool> over{false};
    std::jthread busy([&] {
      while (!over.load()) {
        if (!run.Closed(1, 1, kLongTokens).ok()) return;
      }
    });
    accepted = run.Submit(options.jobs);
    over.store(true);
  }
  if (!accepted.ok()) {
    static_cast<void>(run.Pause(false));
    return accepted.status();
  }
  const Percentiles accept = PercentilesOf(accepted->accept_s);
  double ceiling = accepted->per_s;
  printer.Print(
      fmt::format("{} jobs over {} connections during a streamed answer: accepted within {} ms, "
                  "{:.0f} a second",
                  options.jobs, options.submitters, MillisText(accept, 2), accepted->per_s));
  printer.Demand(accept.p99 * 1e3 <= options.submit_p99_ms,
                 fmt::format("99 % of the jobs accepted within {:.1f} ms, {:g} ms are asked for",
                             accept.p99 * 1e3, options.submit_p99_ms));

  const int peak_requests = std::max(4 * options.clients, options.jobs / 10);
  const auto peak_of = [&]() -> Result<double> {
    ASSIGN_OR_RETURN(const LevelResult level,
                     run.Closed(options.clients, peak_requests, load.max_tokens));
    return static_cast<double>(level.tokens()) / level.seconds;
  };
  ASSIGN_OR_RETURN(const double before, peak_of());
  const TimePoint begin = clock.Now();
  RETURN_IF_ERROR(run.Pause(false));
  RETURN_IF_ERROR(run.AwaitNone([] { return false; }).status());
  const double took_s = ToSeconds(clock.Now() - begin);
  ASSIGN_OR_RETURN(const double after, peak_of());
  const double peak = (before + after) / 2;
  const double rate = static_cast<double>(options.jobs) * load.max_tokens / took_s;
  const double share = peak > 0 ? rate / peak : 0;
  printer.Print(fmt::format(
      "{} jobs of {} tokens alone: {:.0f} tokens/s, {:.1f} % of what {} clients get ({:.0f})",
      options.jobs, load.max_tokens, rate, share * 100, options.clients, peak));
  printer.Demand(share >= options.least_of_peak,
                 fmt::format("jobs reach {:.1f} % of the peak, {:.0f} % are asked for", share * 100,
                             options.least_of_peak * 100));
  ASSIGN_OR_RETURN(const int failed, run.Count("failed", 100));
  printer.Demand(failed == 0, fmt::format("{} jobs failed", failed));

  if (options.lines > 0) {
    ASSIGN_OR_RETURN(const JobRun::Batch batch, run.RunBatch(options.lines));
    ASSIGN_OR_RETURN(const double last, peak_of());
    const double batch_rate = static_cast<double>(options.lines) * load.max_tokens / batch.seconds;
    const double of_peak = batch_rate / ((after + last) / 2);
    printer.Print(fmt::format("a batch of {} lines alone: {:.0f} tokens/s, {:.1f} % of the peak",
                              options.lines, batch_rate, of_peak * 100));
    printer.Demand(of_peak >= options.least_of_peak,
                   fmt::format("a batch reaches {:.1f} % of the peak, {:.0f} % are asked for",
                               of_peak * 100, options.least_of_peak * 100));
    printer.Demand(batch.failed == 0, fmt::format("{} lines of the batch failed", batch.failed));
    json["batch"] = boost::json::object{
        {"lines", options.lines}, {"tokens_s", batch_rate}, {"share_of_peak", of_peak}};
  }

  boost::json::array rows_with_jobs;
  for (const int clients : options.interactive) {
    ASSIGN_OR_RETURN(const LevelResult alone,
                     run.Closed(clients, clients * options.probes, load.max_tokens));
    RETURN_IF_ERROR(run.Pause(true));
    ASSIGN_OR_RETURN(const JobRun::Submitted idle, run.Submit(options.jobs));
    ceiling = std::max(ceiling, idle.per_s);
    RETURN_IF_ERROR(run.Pause(false));
    ASSIGN_OR_RETURN(const LevelResult with_jobs,
                     run.Closed(clients, clients * options.probes, load.max_tokens));
    ASSIGN_OR_RETURN(const bool ran_out, run.AwaitNone([] { return true; }));
    printer.Demand(!ran_out,
                   "the jobs ended before the measured requests; raise the number of jobs");
    RETURN_IF_ERROR(run.AwaitNone([] { return false; }).status());
    const Percentiles first = PercentilesOf(alone.Ttft()), second = PercentilesOf(with_jobs.Ttft());
    const double ratio = first.p99 > 0 ? second.p99 / first.p99 : 0;
    printer.Print(
        fmt::format("first text of {} clients: alone {} ms, with jobs {} ms, p99 {:.2f} x", clients,
                    MillisText(first, 2), MillisText(second, 2), ratio));
    printer.Demand(
        ratio <= options.max_ttft,
        fmt::format("{} clients with jobs: first text at p99 {:.2f} x alone, {:g} asked for",
                    clients, ratio, options.max_ttft));
    rows_with_jobs.push_back(boost::json::object{{"clients", clients},
                                                 {"ttft_alone_ms", MillisJson(first)},
                                                 {"ttft_with_jobs_ms", MillisJson(second)},
                                                 {"ttft_ratio", ratio}});
  }

  printer.Print(fmt::format(
      "at most {:.0f} jobs accepted (202) a second over {} connections, bench and server on {}",
      ceiling, options.submitters, MachineLine(calibration.best())));

  json["accepted_per_s"] = ceiling;
  json["url"] = load.url;
  json["model"] = model;
  json["jobs"] = options.jobs;
  json["prompt_tokens"] = load.prompt_tokens;
  json["max_tokens"] = load.max_tokens;
  json["seed"] = load.seed;
  json["submit_ms"] = MillisJson(accept);
  json["peak_tokens_s"] = peak;
  json["jobs_tokens_s"] = rate;
  json["share_of_peak"] = share;
  json["failed"] = failed;
  json["with_jobs"] = std::move(rows_with_jobs);
  json["passed"] = printer.report.failures.empty();
  printer.report.json = std::move(json);
  return std::move(printer.report);
}

}  // namespace tutti::bench
