// Context: what all parts of the profiles share. Of the strand, but for the waiting room.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "doors/mqtt/profile/arrivals.h"
#include "doors/mqtt/profile/native_topics.h"
#include "doors/mqtt/profile/options.h"
#include "doors/mqtt/profile/reply_streams.h"
#include "doors/mqtt/profile/strand_tasks.h"
#include "doors/mqtt/profile/waiting_room.h"
#include "services/sessions/chat.h"
#include "wire/request_placement.h"

namespace tutti::mqtt::profile {

struct Context {
  Context(ProfileOptions profile_options, Services given, NativeTopics native_topics)
      : options(std::move(profile_options)),
        services(std::move(given)),
        topics(std::move(native_topics)),
        tasks(services.responses.strand()),
        chat(ChatOf(options, services), services.sessions),
        room(options.waiting),
        streams(options.streams, options.coalescing, services.port, services.clock, tasks) {}

  TimePoint Now() const { return services.clock.Now(); }
  wire::ParseOptions Parsing() const { return {.strict = options.strict, .now = Now()}; }
  // The port's refusal of an answer is all that can be known of it; the log tells how often.
  void Publish(Message message);
  // A message that is refused: the log has who and why, nothing of what was said.
  void LogRefusal(std::string_view topic, std::string_view user, const Status& why);
  // A place in the waiting room for one more message.
  Result<WaitingRoom::Ticket> Enter(Claimant claimant);
  // What became of a message, whether it had a place or not.
  void Leave(WaitingRoom::Ticket* ticket, WaitingRoom::Outcome outcome);
  // What is to happen when the answer to a turn has arrived.
  std::function<void()> WhenArrived(const sessions::SessionKey& key, int64_t turn,
                                    const std::string& response_id);
  // The project that the settings have under that name for that tenant; null: they know none.
  const ProjectSettings* FindProject(const std::string& tenant, const std::string& name) const;
  // The model that an empty name means.
  std::string ModelFor(const std::string& name) const;

  const ProfileOptions options;
  const Services services;
  const NativeTopics topics;
  StrandTasks tasks;
  Arrivals arrivals;
  const sessions::Chat chat;
  WaitingRoom room;  // outlives the streams, which hold tickets
  ReplyStreams streams;

 private:
  static sessions::ChatOptions ChatOf(const ProfileOptions& options, const Services& services);
  void NoteCrowding();
};

// As which a refusal counts: rejected where the same may pass later.
WaitingRoom::Outcome OutcomeOf(const Status& refusal);
// Likewise, of an answer that was given.
WaitingRoom::Outcome OutcomeOf(const responses::Response& response);

// A session, as ReplyStreams knows it.
std::string DialogOf(const sessions::SessionKey& key);

}  // namespace tutti::mqtt::profile
