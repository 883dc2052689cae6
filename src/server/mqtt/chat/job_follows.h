// JobFollows: sends the states of durable jobs to clients of the native profile that subscribed to
// them on .../ctl. Runs on the strand.
//
// Each state is one event on the reply topic, with the job's version as its number. The last event
// has the result, also for late subscribers; a client that gives a number gets every state after
// it. There is one entry per job and topic, with one wait for news however many subscriptions there
// are; the number of entries is limited in total and per user. Entries are not durable: a client
// that was away subscribes again with the last number that it has seen.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/chat/native.h"
#include "protocol/job.h"
#include "server/mqtt/chat/context.h"
#include "server/mqtt/chat/native_address.h"
#include "server/mqtt/chat/quota_key.h"

namespace tutti::mqtt::chat {

class JobFollows {
 public:
  explicit JobFollows(Context& context);

  void Follow(const NativeAddress& address, const protocol::MqttControl& control);
  // For topics with this prefix: only the last events are published from now on.
  void DetachBelow(std::string_view topics);
  void Clear();

 private:
  struct Key {
    std::string topic, job, tenant;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    NativeAddress address;
    std::string id;  // id that the client gave to its verb
    int64_t seen = 0;
    uint64_t serial = 0;  // distinguishes the entry from an earlier one with the same key
    bool detached = false;
  };
  using Place = std::map<Key, Entry>::iterator;

  // Wait for news, or only read the current state.
  enum class Wait { kForNews, kNot };
  void Watch(const Key& key, const Entry& entry, Wait wait);
  void OnJob(const Key& key, uint64_t serial, int64_t asked, Wait wait,
             const Result<protocol::JobView>& job);
  void Publish(const Entry& entry, const protocol::JobView& job, std::string event);
  void Refuse(const NativeAddress& address, const std::string& id, const Status& why);
  void Close(Place place);

  Context& context_;
  std::map<Key, Entry> follows_;
  QuotaKeyCounts quota_counts_;
  uint64_t serial_ = 0;
};

}  // namespace tutti::mqtt::chat
