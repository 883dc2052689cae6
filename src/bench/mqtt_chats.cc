#include "bench/mqtt_chats.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <random>
#include <thread>
#include <utility>

#include "bench/loopback.h"
#include "bench/machine.h"
#include "bench/mqtt_turns.h"
#include "bench/report.h"
#include "services/responses/inference_guard.h"

namespace tutti::bench {
namespace {

using std::chrono::milliseconds;

// Memory for KV blocks: enough for the dialog's 3,000 tokens and for the concurrent sequences.
// Small, because all of it is touched before the memory of sessions is measured.
constexpr char kKvBytes[] = "96MiB";
constexpr double kMaxSessionBytes = 64 << 10;
// Small models answer a secret with a story when they are asked for one.
constexpr char kStory[] = "Write a long story about a river, a mill and an old bridge.";

double ResidentBytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Folder of the dialogs during the bench: on a disk, as on a server.
class TemporaryStore {
 public:
  TemporaryStore() {
    std::error_code failed;
    std::string pattern = std::filesystem::temp_directory_path(failed) / "tutti-bench-XXXXXX";
    if (!failed && mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TemporaryStore() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryStore(const TemporaryStore&) = delete;
  TemporaryStore& operator=(const TemporaryStore&) = delete;
  const std::string& path() const { return path_; }  // empty: it could not be created

 private:
  std::string path_;
};

// One run of the bench: its server and its results so far.
class Run {
 public:
  Run(const MqttBenchOptions& options, Progress progress)
      : options_(options), progress_(std::move(progress)) {}

  Result<Report> Main() {
    Flags flags = options_.flags;
    flags.try_emplace("kv-cache-bytes", kKvBytes);
    ASSIGN_OR_RETURN(session_, Session::Load(options_.model, flags, Session::Stepping::kOwnThread));
    ChatLoopback::Options served;
    if (folder_.path().empty())
      return Unavailable("io_error", "no folder for the dialogs can be made where TMPDIR says");
    served.store_folder = folder_.path();
    // No session is evicted, not even those used before the idle ones.
    served.resident = 1 << 20;
    served.projects = {"driving", "general"};
    ASSIGN_OR_RETURN(server_, ChatLoopback::Start(session_->inference(), served));
    ASSIGN_OR_RETURN(http_, client::ParseServer(server_->http_url()));
    Calibration calibration(session_->kernels().isa, session_->threads(), /*guard=*/false);
    salt_ = fmt::format("bench-{:08x}", std::random_device{}());
    Print(session_->summary());
    RETURN_IF_ERROR(Levels());
    RETURN_IF_ERROR(Pairs());
    RETURN_IF_ERROR(Bursts());
    RETURN_IF_ERROR(Dialog());
    RETURN_IF_ERROR(IdleSessions());
    Holds();
    Print(MachineLine(calibration.best()));
    report_.json["schema"] = "tutti.bench.mqtt.v1";
    report_.json["machine"] = calibration.Json();
    report_.json["model"] = session_->model_name();
    report_.json["gates"] = std::move(gates_);
    report_.json["passed"] = report_.failures.empty();
    return std::move(report_);
  }

 private:
  void Print(const std::string& line) { report_.Print(line, progress_); }
  void Wrong(const std::string& what) {
    if (report_.failures.size() < 20) report_.failures.push_back(what);
  }
  // Prints a ratio and its gate; a gate stated for other sizes is not applied.
  void Judge(const MqttGate& gate) {
    Print("  " + gate.Line() + (options_.gated ? "" : " (other sizes: not judged)"));
    gates_.push_back(gate.Json());
    if (options_.gated && !gate.met()) Wrong(gate.Line());
  }

  static ChatTurn Secret(int client, int turn) {
    ChatTurn request;
    request.session = fmt::format("test-session-{}-{}", client, turn);
    request.text =
        fmt::format("Hello! My secret is {}. Which word is my secret?", SecretOf(client));
    return request;
  }

  // --- so many clients over MQTT, and the same over HTTP ---

  Status Levels() {
    Print(fmt::format("{:>12} {:>11} {:>8} {:>9} {:>20} {:>22} {:>24}", "clients", "answered",
                      "tok/s", "events/s", "accepted p50/95/99", "first text p50/95/99",
                      "reply p50/95/99 ms"));
    boost::json::array levels;
    for (const int clients : options_.concurrency) {
      // Alternating, so that speed changes of the machine affect both.
      std::vector<ChatAnswer> over_mqtt, over_http;
      double mqtt_s = 0, http_s = 0;
      for (int round = 0; round < options_.rounds; ++round) {
        ASSIGN_OR_RETURN(auto users, ConnectUsers(clients));
        const auto salt = fmt::format("{}-{}-{}", salt_, clients, round);
        mqtt_s += Together(clients, &over_mqtt, [&](int client, int turn, TimePoint epoch) {
          ChatTurn request = Filled(client, turn, salt + "m");
          request.session += fmt::format("-{}", round);
          return users[static_cast<size_t>(client)]->RunTurn(request, epoch);
        });
        http_s += Together(clients, &over_http, [&](int client, int turn, TimePoint epoch) {
          return RunTurnOverHttp(http_, session_->model_name(), Filled(client, turn, salt + "h"),
                                 epoch);
        });
      }
      CheckAnswers(clients, over_mqtt, over_http);
      const TransportSummary mqtt = Summarize(over_mqtt, mqtt_s),
                             http = Summarize(over_http, http_s);
      Print(SummaryLine(fmt::format("{} MQTT", clients), mqtt));
      Print(SummaryLine(fmt::format("{} HTTP", clients), http));
      const double added_ms = (Percentile(mqtt.first_s, 50) - Percentile(http.first_s, 50)) * 1e3;
      const double rate = http.tokens_per_s > 0 ? mqtt.tokens_per_s / http.tokens_per_s : 0;
      Print(fmt::format(
          "  tok/s of MQTT / HTTP: {:.3f}; first text p50 {:+.2f} ms (goal at most +1); "
          "accepted p99 {:.2f} ms (goal at most 5)",
          rate, added_ms, Percentile(mqtt.accepted_s, 99) * 1e3));
      levels.push_back(boost::json::object{{"clients", clients},
                                           {"mqtt", SummaryJson(mqtt)},
                                           {"http", SummaryJson(http)},
                                           {"tokens_per_s_ratio", rate},
                                           {"added_ttft_p50_ms", added_ms}});
    }
    report_.json["levels"] = std::move(levels);
    return OkStatus();
  }

  ChatTurn Filled(int client, int turn, const std::string& salt) const {
    ChatTurn request = Secret(client, turn);
    request.max_tokens = options_.tokens;
    request.cache_salt = salt;
    return request;
  }

  Result<std::vector<std::unique_ptr<MqttChatUser>>> ConnectUsers(int count) {
    std::vector<std::unique_ptr<MqttChatUser>> users;
    for (int i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(auto user,
                       MqttChatUser::Connect(server_->mqtt_port(), fmt::format("user-{}", i)));
      users.push_back(std::move(user));
    }
    return users;
  }

  // Runs `clients` threads, which start together and share `requests`; returns the elapsed time.
  template <typename Ask>
  double Together(int clients, std::vector<ChatAnswer>* answers, const Ask& ask) {
    const int turns = std::max(1, options_.requests / clients);
    std::vector<std::vector<ChatAnswer>> of(static_cast<size_t>(clients));
    std::latch ready(clients + 1);
    const SteadyClock clock;
    TimePoint epoch;
    std::vector<std::thread> threads;
    for (int client = 0; client < clients; ++client) {
      threads.emplace_back([&, client] {
        ready.arrive_and_wait();
        const TimePoint start = clock.Now();
        for (int turn = 0; turn < turns; ++turn)
          of[static_cast<size_t>(client)].push_back(ask(client, turn, start));
      });
    }
    epoch = clock.Now();
    ready.arrive_and_wait();
    for (std::thread& thread : threads) thread.join();
    const double seconds = ToSeconds(clock.Now() - epoch);
    for (auto& some : of) {
      for (ChatAnswer& answer : some) answers->push_back(std::move(answer));
    }
    return seconds;
  }

  void CheckAnswers(int clients, const std::vector<ChatAnswer>& mqtt,
                    const std::vector<ChatAnswer>& http) {
    const size_t turns = mqtt.size() / static_cast<size_t>(clients * options_.rounds);
    for (size_t i = 0; i < mqtt.size(); ++i) {
      const int client = static_cast<int>(i / turns) % clients;
      for (const auto* const answer : {&mqtt[i], &http[i]}) {
        if (!answer->status.ok()) {
          Wrong(fmt::format("{} clients: {}", clients, answer->status.ToString()));
        } else if (const int other = ForeignSecretIn(answer->text, client, clients); other >= 0) {
          Wrong(fmt::format("client {} was told the secret of {}", client, other));
        }
      }
      if (mqtt[i].status.ok() && http[i].status.ok() && mqtt[i].text != http[i].text)
        Wrong(fmt::format("{} clients: MQTT and HTTP answer differently", clients));
    }
  }

  // --- two sessions in two projects ---

  Status Pairs() {
    ASSIGN_OR_RETURN(auto driving,
                     ProjectClient::Connect(server_->mqtt_port(), "driving", Duration(0)));
    ASSIGN_OR_RETURN(auto general,
                     ProjectClient::Connect(server_->mqtt_port(), "general", Duration(0)));
    std::vector<double> slower, total;
    const SteadyClock clock;
    for (int i = 0; i < options_.pairs; ++i) {
      const auto say = [&](ProjectClient& project, const char* when) {
        ChatTurn request;
        request.session = fmt::format("pair-{}-{}", i, when);
        request.text = kStory;
        request.max_tokens = options_.pair_tokens;
        return project.RunTurns({request}, TimePoint())[0];
      };
      const ChatAnswer alone_a = say(*driving, "alone"), alone_b = say(*general, "alone");
      ChatAnswer a, b;
      const TimePoint start = clock.Now();
      std::thread other([&] {
        std::this_thread::sleep_for(milliseconds(10));
        b = say(*general, "both");
      });
      a = say(*driving, "both");
      other.join();
      const double both = ToSeconds(clock.Now() - start);
      for (const ChatAnswer* const answer :
           std::initializer_list<const ChatAnswer*>{&alone_a, &alone_b, &a, &b}) {
        if (!answer->status.ok()) Wrong("two projects: " + answer->status.ToString());
      }
      if (a.text != alone_a.text || b.text != alone_b.text)
        Wrong("two projects: an answer in company differs from the one alone");
      slower.push_back(std::max(a.end_s / alone_a.end_s, b.end_s / alone_b.end_s));
      total.push_back(both / (alone_a.end_s + alone_b.end_s));
    }
    if (slower.empty()) return OkStatus();
    Print(fmt::format("two sessions in two projects, {} times, {} tokens", options_.pairs,
                      options_.pair_tokens));
    const MqttGate each{"the slower of both / alone", Percentile(slower, 50), 1.3};
    const MqttGate all{"both / (A + B)", Percentile(total, 50), 0.75};
    Judge(each);
    Judge(all);
    report_.json["pairs"] = boost::json::object{{"repeats", options_.pairs},
                                                {"slower_p50", each.measured},
                                                {"slower_worst", Percentile(slower, 100)},
                                                {"total_p50", all.measured},
                                                {"total_worst", Percentile(total, 100)}};
    return OkStatus();
  }

  // --- one session, three messages at once ---

  Status Bursts() {
    ASSIGN_OR_RETURN(auto project,
                     ProjectClient::Connect(server_->mqtt_port(), "driving", milliseconds(100)));
    int good = 0;
    for (int i = 0; i < options_.bursts; ++i) {
      std::vector<ChatTurn> requests(3);
      for (size_t k = 0; k < requests.size(); ++k) {
        requests[k].session = fmt::format("burst-{}", i);
        requests[k].text = fmt::format("msg{}", k + 1);
        requests[k].max_tokens = 8;
      }
      const std::vector<ChatAnswer> answers = project->RunTurns(requests, TimePoint());
      bool in_order = answers.size() == 3;
      for (size_t k = 0; k < answers.size(); ++k) {
        if (!answers[k].status.ok()) Wrong("three messages: " + answers[k].status.ToString());
        in_order =
            in_order && answers[k].status.ok() && answers[k].turn == static_cast<int64_t>(k) + 1;
      }
      good += in_order;
    }
    if (good != options_.bursts) Wrong("three messages of one session: replies out of order");
    Print(fmt::format("one session, three messages within 0.3 s: {} of {} in order", good,
                      options_.bursts));
    report_.json["bursts"] = boost::json::object{{"repeats", options_.bursts}, {"in_order", good}};
    return OkStatus();
  }

  // --- a long dialog ---

  Status Dialog() {
    ASSIGN_OR_RETURN(auto user, MqttChatUser::Connect(server_->mqtt_port(), "dialog"));
    std::vector<ChatAnswer> turns;
    for (int i = 0; i < options_.dialog_turns; ++i) {
      ChatTurn request;
      request.session = "long";
      request.text = fmt::format("And river number {}?", i + 1);
      request.max_tokens = 16;
      turns.push_back(user->RunTurn(request, TimePoint()));
      if (!turns.back().status.ok()) Wrong("a long dialog: " + turns.back().status.ToString());
      if (turns.back().turn != i + 1) Wrong("a long dialog: a turn has another number");
    }
    const CachedShare cached = CachedShareOf(turns);
    if (cached.turns == 0) return OkStatus();
    Print(fmt::format("a dialog of {} turns, its last prompt of {} tokens, {} cuts",
                      options_.dialog_turns, turns.back().prompt_tokens, cached.cut));
    Judge({"prompt tokens from the cache", cached.share, 0.95, /*at_most=*/false});
    report_.json["dialog"] = boost::json::object{{"turns", options_.dialog_turns},
                                                 {"cuts", cached.cut},
                                                 {"last_prompt_tokens", turns.back().prompt_tokens},
                                                 {"cached_share", cached.share}};
    return OkStatus();
  }

  // --- idle sessions ---

  // One prompt that fills nearly the whole KV cache, so that its memory does not grow later.
  void FillKv() {
    ChatTurn request;
    request.max_tokens = 1;
    for (int words = session_->context() * 9 / 10; words > 16; words /= 2) {
      request.text.clear();
      for (int i = 0; i < words; ++i) request.text += " river";
      if (RunTurnOverHttp(http_, session_->model_name(), request, TimePoint()).status.ok()) return;
    }
  }

  Status IdleSessions() {
    if (options_.idle_sessions == 0) return OkStatus();
    FillKv();
    ASSIGN_OR_RETURN(auto users, ConnectUsers(8));
    const double before = ResidentBytes();
    std::vector<std::thread> threads;
    std::vector<Status> wrong(users.size());
    for (size_t t = 0; t < users.size(); ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = t; i < static_cast<size_t>(options_.idle_sessions); i += users.size()) {
          ChatTurn request;
          request.session = fmt::format("idle-{}", i);
          request.text = fmt::format("Hello from session {}.", i);
          request.max_tokens = 8;
          const ChatAnswer answer = users[t]->RunTurn(request, TimePoint());
          if (!answer.status.ok()) wrong[t] = answer.status;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Status& status : wrong) {
      if (!status.ok()) Wrong("idle sessions: " + status.ToString());
    }
    const double each = (ResidentBytes() - before) / options_.idle_sessions;
    Print(fmt::format("{} sessions of one turn, idle", options_.idle_sessions));
    Judge({"KiB of resident memory for each, without KV", each / 1024, kMaxSessionBytes / 1024});
    report_.json["idle"] =
        boost::json::object{{"sessions", options_.idle_sessions}, {"bytes_each", each}};
    return OkStatus();
  }

  void Holds() {
    const responses::HoldTimes& holds = server_->hold_times();
    Print(fmt::format(
        "a dialog's data was held {} times, p99 at most {:.3f} ms, the longest {:.3f} ms "
        "(goal: p99 at most 12)",
        holds.count(), ToMillis(holds.Quantile(0.99)), ToMillis(holds.most())));
    report_.json["holds"] = boost::json::object{{"count", holds.count()},
                                                {"p99_ms", ToMillis(holds.Quantile(0.99))},
                                                {"max_ms", ToMillis(holds.most())}};
  }

  const MqttBenchOptions& options_;
  const Progress progress_;
  const TemporaryStore folder_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<ChatLoopback> server_;  // destroyed first
  client::Server http_;
  std::string salt_;
  Report report_;
  boost::json::array gates_;
};

}  // namespace

Result<Report> BenchMqtt(const MqttBenchOptions& options, const Progress& progress) {
  return Run(options, progress).Main();
}

}  // namespace tutti::bench
