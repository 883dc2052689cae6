#include "cli/option_topics.h"

#include <algorithm>
#include <array>

#include "base/check.h"

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
    {"speculate", "model"},
    {"draft", "model"},
    {"reasoning", "model"},
    {"tool-format", "model"},
    {"generation-config", "model"},
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
    {"grpc-port", "network"},
    {"grpc", "network"},
    {"tls-cert", "network"},
    {"tls-key", "network"},
    {"tls-client-ca", "network"},
    {"tls-client-auth", "network"},
    {"cors-origin", "network"},
    {"allowed-hosts", "network"},
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
constexpr std::array<std::string_view, 25> kCommon = {
    "threads",        "context",      "dtype",           "kv-cache-bytes", "kv-dtype",
    "speculate",      "reasoning",    "max-num-seqs",    "queue",          "host",
    "port",           "grpc-port",    "tls-cert",        "tls-key",        "cors-origin",
    "any-model-name", "api-key-file", "http.access_log", "mqtt-port",      "cache.exact",
    "role",           "store",        "log-level",       "drain_s",        "memory.limit_bytes"};

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

}  // namespace tutti::cli
