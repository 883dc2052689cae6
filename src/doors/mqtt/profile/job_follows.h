// JobFollows: the durable jobs whose states clients of the native profile are told, `subscribe` on
// .../ctl. Of the strand.
//
// Each state that is seen is one event on the reply topic, with the job's version as its number;
// the last one has the result, also for who comes late. Of one job to one topic there is one, and a
// newer one takes its place; bounded in all and for each user. Nothing of it is durable: who was
// away subscribes again, with the last number it has seen.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "doors/mqtt/profile/claimant.h"
#include "doors/mqtt/profile/context.h"
#include "doors/mqtt/profile/native_address.h"
#include "wire/job.h"
#include "wire/mqtt_native.h"

namespace tutti::mqtt::profile {

class JobFollows {
 public:
  explicit JobFollows(Context& context);

  void Follow(const NativeAddress& address, const wire::MqttControl& control);
  // Those of topics that begin so: only their last events are published from now on.
  void DetachBelow(std::string_view topics);
  void Clear();

 private:
  using Key = std::pair<std::string, std::string>;  // topic, job
  struct Entry {
    NativeAddress address;
    std::string id;  // the client's, of the verb
    int64_t seen = 0;
    uint64_t serial = 0;
    bool detached = false;
  };
  using Place = std::map<Key, Entry>::iterator;

  void Watch(const Key& key, const Entry& entry);
  void OnJob(const Key& key, uint64_t serial, const Result<wire::JobView>& job);
  void Tell(const Entry& entry, const wire::JobView& job, std::string event);
  void Refuse(const NativeAddress& address, const std::string& id, const Status& why);
  void Close(Place place);

  Context& context_;
  std::map<Key, Entry> follows_;
  ClaimantCounts claimants_;
  uint64_t serial_ = 0;
};

}  // namespace tutti::mqtt::profile
