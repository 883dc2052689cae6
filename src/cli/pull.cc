// `tutti pull`: fetches models of a hub, and GGUF files of plain URLs, into the cache.
#include "cli/pull.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/ascii.h"
#include "base/quote.h"
#include "base/threads.h"
#include "cli/command_line.h"
#include "cli/number_option.h"
#include "services/models/hub_name.h"

namespace tutti::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxWorkers = 16;

// Prints how a pull goes on, from a thread of its own while it runs.
class ProgressPrinter final : public models::PullObserver {
 public:
  ~ProgressPrinter() override { End(); }

  void Planned(const models::PullState& state) override {
    state_ = &state;
    const std::string commit = state.commit.empty() ? "" : " at " + state.commit.substr(0, 12);
    const std::string amount = state.total == 0 ? "" : ", " + BytesText(state.total);
    std::fprintf(stderr, "tutti: pulling %s%s: %d file%s%s to %s\n", Printable(state.name).c_str(),
                 commit.c_str(), state.files, state.files == 1 ? "" : "s", amount.c_str(),
                 Printable(state.folder).c_str());
    thread_ = std::thread([this] {
      NameThread("tutti-pull-show");
      Show();
    });
  }

  void Waiting(const std::string& file) override {
    std::fprintf(stderr, "%stutti: another process fetches %s; waiting for it\n",
                 terminal_ ? "\r\033[K" : "", Printable(file).c_str());
  }

  // Before the state goes: PullState lives as long as the call of Pull.
  void Finished() override { End(); }

 private:
  void End() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
    if (terminal_) std::fputs("\r\033[K", stderr);
  }

  void Show() {
    const auto pause =
        terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10'000);
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_for(lock, pause, [this] { return ended_; })) {
      const std::string text =
          ProgressText(state_->files_done, state_->files, state_->bytes(), state_->total, Rate());
      std::fprintf(stderr, terminal_ ? "\r\033[Ktutti: %s" : "tutti: %s\n", text.c_str());
      std::fflush(stderr);
    }
  }

  // Bytes a second over the last samples, 0 before the second one.
  double Rate() {
    const Sample now{Clock::now(), state_->bytes()};
    samples_.push_back(now);
    if (samples_.size() > kSamples) samples_.erase(samples_.begin());
    const Sample& then = samples_.front();
    const double seconds = std::chrono::duration<double>(now.time - then.time).count();
    return seconds > 0 && now.bytes > then.bytes
               ? static_cast<double>(now.bytes - then.bytes) / seconds
               : 0;
  }

  struct Sample {
    Clock::time_point time;
    uint64_t bytes;
  };
  static constexpr size_t kSamples = 25;  // 5 s at a terminal

  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  const models::PullState* state_ = nullptr;
  std::vector<Sample> samples_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;  // guarded by mutex_
};

class PullCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("pull", "Fetch models of a hub into the cache");
    app_->footer(
        "Examples:\n"
        "  tutti pull Qwen/Qwen3-0.6B                       a folder of safetensors\n"
        "  tutti pull Qwen/Qwen3-0.6B-GGUF:Q8_0             one GGUF of several\n"
        "  tutti pull ORG/NAME:Q4_K_M@v1.0                  of a branch, tag or commit\n"
        "  tutti pull https://example.org/m.gguf --sha256 9f86d08...\n"
        "  tutti serve Qwen/Qwen3-0.6B-GGUF:Q8_0            then needs no network\n"
        "Files go to the cache of the huggingface_hub package (HF_HUB_CACHE, HF_HOME), and are "
        "found\n"
        "there. A pull that was cut goes on where it was. HF_TOKEN opens private models, "
        "HF_ENDPOINT\n"
        "names another hub, HF_HUB_OFFLINE=1 forbids connections.");
    app_->add_option("MODEL", models_,
                     "ORG/NAME[:QUANT][@REVISION], or an https URL of a .gguf file")
        ->check(ModelName())
        ->required();
    app_->add_option("--sha256", sha256_, "SHA-256 that the file of a URL must have")
        ->type_name("HEX");
    AddNumber(*app_, "--files", workers_, 1, kMaxWorkers, "files fetched at once [4]");
  }

  int Run() override {
    if (!sha256_.empty() && (models_.size() != 1 || !models::IsUrl(models_.front()) ||
                             models::ParseHubName(models_.front()).ok())) {
      return FailConfig(InvalidArgument(
          "invalid_value", "--sha256 belongs to one URL; a hub's files have hashes of their own"));
    }
    for (const std::string& model : models_) {
      const Result<models::PulledModel> pulled = PullShowing(model, AsciiLower(sha256_), workers_);
      if (!pulled.ok()) return Fail(pulled.status());
      std::printf(
          "%s: %s, %s\n%s\n", Printable(model).c_str(), BytesText(pulled->bytes).c_str(),
          pulled->fetched == 0 ? "already here" : ("fetched " + BytesText(pulled->fetched)).c_str(),
          Printable(pulled->path).c_str());
      std::fflush(stdout);
    }
    return kExitOk;
  }

 private:
  std::vector<std::string> models_;
  std::string sha256_;
  int workers_ = 4;
};

}  // namespace

std::string BytesText(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (amount >= 999.95 && unit + 1 < kUnits.size()) {
    amount /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::string TimeText(std::chrono::seconds time) {
  const int64_t s = time.count();
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
}

std::string ProgressText(int files_done, int files, uint64_t bytes, uint64_t total,
                         double bytes_per_s) {
  std::string text = files == 1 ? "" : fmt::format("{} of {} files, ", files_done, files);
  bytes = total == 0 ? bytes : std::min(bytes, total);
  text += BytesText(bytes);
  if (total > 0) {
    // Rounded down: 100 % means the end.
    const int percent =
        static_cast<int>(static_cast<double>(bytes) * 100 / static_cast<double>(total));
    text += fmt::format(" of {} ({} %)", BytesText(total), percent);
  }
  if (bytes_per_s < 1) return text;
  text += ", " + BytesText(static_cast<uint64_t>(bytes_per_s)) + "/s";
  if (total > 0) {
    const double left = static_cast<double>(total - bytes) / bytes_per_s;
    if (left < 1e7)
      text += ", " + TimeText(std::chrono::seconds(static_cast<int64_t>(left))) + " left";
  }
  return text;
}

Result<models::PulledModel> PullShowing(const std::string& name, const std::string& sha256,
                                        int workers) {
  const models::HubSettings settings = app::HubSettingsFromEnvironment();
  ProgressPrinter printer;
  const models::PullOptions options{.workers = workers, .observer = &printer};
  const Result<models::HubName> hub_name = models::ParseHubName(name);
  if (!hub_name.ok() && models::IsUrl(name))
    return models::PullUrl(name, sha256, settings, options);
  for (const std::string& remark : settings.remarks)
    std::fprintf(stderr, "tutti: %s\n", remark.c_str());
  if (app::IsKnownModel(name)) {  // it comes from its package
    ASSIGN_OR_RETURN(const app::ModelRef known, app::ResolveModel(name));
    std::error_code ignored;
    const uintmax_t bytes = std::filesystem::file_size(known.path, ignored);
    return models::PulledModel{.path = known.path, .commit = "", .bytes = ignored ? 0 : bytes};
  }
  if (!hub_name.ok()) return hub_name.status();
  return models::Pull(*hub_name, settings, options);
}

Result<app::ModelRef> FindModel(const app::Settings& settings, const std::string& argument) {
  Result<app::ModelRef> ref = app::ResolveModel(argument);
  if (ref.ok() || ref.status().reason() != "model_not_pulled" ||
      settings.Text("pull") != "on-demand")
    return ref;
  const Result<models::PulledModel> pulled = PullShowing(app::HubPartOf(argument), "", 4);
  if (!pulled.ok()) return pulled.status();
  return app::ResolveModel(argument);
}

std::unique_ptr<Command> MakePullCommand() { return std::make_unique<PullCommand>(); }

}  // namespace tutti::cli
