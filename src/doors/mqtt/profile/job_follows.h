// JobFollows: the durable jobs whose states clients of the native profile are told, `subscribe` on
// .../ctl. Of the strand.
//
// Each state that is seen is one event on the reply topic, with the job's version as its number;
// the last one has the result, also for who comes late; who names a number is told each state
// behind it. Of one job to one topic there is one, with
// one wait for news however often it is asked for; bounded in all and for each user. Nothing of it
// is durable: who was away subscribes again, with the last number it has seen.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

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
  struct Key {
    std::string topic, job, tenant;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    NativeAddress address;
    std::string id;  // the client's, of the verb
    int64_t seen = 0;
    uint64_t serial = 0;  // tells it from an earlier one of that key
    bool detached = false;
  };
  using Place = std::map<Key, Entry>::iterator;

  // Until there is news, or only for how it is now.
  enum class Wait { kForNews, kNot };
  void Watch(const Key& key, const Entry& entry, Wait wait);
  void OnJob(const Key& key, uint64_t serial, int64_t asked, Wait wait,
             const Result<wire::JobView>& job);
  void Tell(const Entry& entry, const wire::JobView& job, std::string event);
  void Refuse(const NativeAddress& address, const std::string& id, const Status& why);
  void Close(Place place);

  Context& context_;
  std::map<Key, Entry> follows_;
  ClaimantCounts claimants_;
  uint64_t serial_ = 0;
};

}  // namespace tutti::mqtt::profile
