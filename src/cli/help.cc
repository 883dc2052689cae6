// `tutti help [COMMAND...]`: the same text as `tutti COMMAND --help`. `tutti help TOPIC`: the
// options of one topic, and which topic each option has.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "app/config/options.h"
#include "base/check.h"
#include "base/log.h"
#include "cli/command_line.h"

namespace tutti::cli {
namespace {

constexpr std::array kTopics = std::to_array<OptionTopic>({
    {"model", "Model"},
    {"scheduling", "Batching and scheduling"},
    {"encoders", "Encoders"},
    {"network", "Network, TLS and HTTP"},
    {"access", "Keys and tokens"},
    {"limits", "Limits and usage"},
    {"mqtt", "MQTT"},
    {"caching", "Caches"},
    {"background", "Jobs, files and batches"},
    {"processes", "Worker processes and brokers"},
    {"operation", "Storage, logs and shutdown"},
});

// Keys by topic: a whole key, or the first part of keys with a period.
struct KeysOfTopic {
  std::string_view keys, topic;
};
constexpr std::array kKeys = std::to_array<KeysOfTopic>({
    {"threads", "model"},
    {"isa", "model"},
    {"context", "model"},
    {"dtype", "model"},
    {"kv-cache-bytes", "model"},
    {"kv-dtype", "model"},
    {"prefix-cache", "model"},
    {"prefix-disk-bytes", "caching"},
    {"prefix-folder", "caching"},
    {"speculate", "model"},
    {"draft", "model"},
    {"decision-temperature", "model"},
    {"lora", "model"},
    {"lora-folder", "model"},
    {"max-loras", "model"},
    {"reasoning", "model"},
    {"tool-format", "model"},
    {"generation-config", "model"},
    {"pull", "model"},
    {"traces", "operation"},
    {"models", "model"},
    {"keep-alive", "model"},
    {"pin", "model"},
    {"load", "model"},
    {"max-num-seqs", "scheduling"},
    {"prefill-chunk", "scheduling"},
    {"strategy", "scheduling"},
    {"queue", "scheduling"},
    {"prep", "scheduling"},
    {"prep-threads", "scheduling"},
    {"sched", "scheduling"},
    {"encode", "encoders"},
    {"host", "network"},
    {"port", "network"},
    {"ollama-port", "network"},
    {"grpc-port", "network"},
    {"grpc", "network"},
    {"tls-cert", "network"},
    {"tls-key", "network"},
    {"tls-client-ca", "network"},
    {"tls-client-auth", "network"},
    {"cors-origin", "network"},
    {"allowed-hosts", "network"},
    {"web", "network"},
    {"web-base", "network"},
    {"any-model-name", "network"},
    {"strict", "network"},
    {"http", "network"},
    {"kserve", "network"},
    {"api-key-file", "access"},
    {"auth", "access"},
    {"limits", "limits"},
    {"usage", "limits"},
    {"mqtt-port", "mqtt"},
    {"mqtt", "mqtt"},
    {"cache", "caching"},
    {"jobs", "background"},
    {"files", "background"},
    {"batches", "background"},
    {"role", "processes"},
    {"workers", "processes"},
    {"broker", "processes"},
    {"store", "operation"},
    {"memory", "operation"},
    {"log-level", "operation"},
    {"metrics", "operation"},
    {"drain_s", "operation"},
    {"debug", "operation"},
});

// Options for most users: size and speed of the model, listen address, access, and data folder.
constexpr std::array<std::string_view, 29> kCommon = {"threads",
                                                      "context",
                                                      "dtype",
                                                      "kv-cache-bytes",
                                                      "kv-dtype",
                                                      "speculate",
                                                      "reasoning",
                                                      "pull",
                                                      "models",
                                                      "memory.budget",
                                                      "keep-alive",
                                                      "max-num-seqs",
                                                      "queue",
                                                      "host",
                                                      "port",
                                                      "grpc-port",
                                                      "tls-cert",
                                                      "tls-key",
                                                      "cors-origin",
                                                      "any-model-name",
                                                      "api-key-file",
                                                      "http.access_log",
                                                      "mqtt-port",
                                                      "cache.exact",
                                                      "role",
                                                      "store",
                                                      "log-level",
                                                      "drain_s",
                                                      "memory.limit_bytes"};

class HelpCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("help", "Explain a command or a topic");
    app_->footer(
        "Examples:\n  tutti help serve\n  tutti help bench engine\n  tutti help network\n\n"
        "Topics: " +
        TopicNames());
    app_->add_option("COMMAND", names_,
                     "the command or topic to explain (default: all commands, in brief)");
  }

  int Run() override {
    const CLI::App* command = app_->get_parent();
    if (names_.size() == 1) {
      if (const OptionTopic* topic = FindTopic(names_[0])) return ExplainTopic(*topic);
    }
    for (const std::string& name : names_) {
      const CLI::App* found = nullptr;
      std::vector<std::string> known;
      for (const CLI::App* sub : command->get_subcommands({})) {
        known.push_back(sub->get_name());
        if (sub->get_name() == name) found = sub;
      }
      if (found == nullptr) {
        if (names_.size() == 1) {
          for (const OptionTopic& topic : OptionTopics()) known.emplace_back(topic.name);
        }
        const std::string meant = app::Suggestion(name.substr(0, 64), known);
        std::fprintf(stderr, "tutti: no command or topic \"%s\"; %s\n",
                     LogEscape(name.substr(0, 64)).c_str(),
                     meant.empty()
                         ? ("topics: " + TopicNames() + "; commands: tutti --help").c_str()
                         : ("did you mean " + meant + "?").c_str());
        return kExitUsage;
      }
      command = found;
    }
    // Without this, CLI11 would print the help of the parsed command, which is this one.
    if (names_.empty()) app_->get_parent()->clear();
    std::fputs(HelpOf(*command).c_str(), stdout);
    return kExitOk;
  }

 private:
  static int ExplainTopic(const OptionTopic& topic) {
    CLI::App page(
        std::string(topic.title) + ": options of `tutti serve`, some also of other commands",
        "tutti serve");
    page.set_help_flag();
    SettingsOptions options;
    options.AddTopic(page, topic);
    std::fputs(page.help().c_str(), stdout);
    return kExitOk;
  }

  std::vector<std::string> names_;
};

}  // namespace

std::span<const OptionTopic> OptionTopics() { return kTopics; }

const OptionTopic* FindTopic(std::string_view name) {
  const auto found = std::find_if(kTopics.begin(), kTopics.end(),
                                  [&](const OptionTopic& topic) { return topic.name == name; });
  return found == kTopics.end() ? nullptr : &*found;
}

const OptionTopic& TopicOf(const app::OptionSpec& option) {
  const std::string_view key = option.key;
  const std::string_view part = key.substr(0, key.find('.'));
  const auto found = std::find_if(kKeys.begin(), kKeys.end(),
                                  [&](const KeysOfTopic& keys) { return keys.keys == part; });
  CHECK(found != kKeys.end()) << "option " << key << " has no topic";
  return *FindTopic(found->topic);
}

std::string TopicNames() {
  std::string names;
  for (const OptionTopic& topic : kTopics)
    names += (names.empty() ? "" : ", ") + std::string(topic.name);
  return names;
}

bool IsCommonOption(const app::OptionSpec& option) {
  return std::find(kCommon.begin(), kCommon.end(), option.key) != kCommon.end();
}

std::unique_ptr<Command> MakeHelpCommand() { return std::make_unique<HelpCommand>(); }

}  // namespace tutti::cli
