// Session: in-memory state of one dialog. Turn: one accepted message that has not ended. Plain
// data, used on the strand only; session_actor.h has the code.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "services/responses/response.h"
#include "services/sessions/history.h"
#include "services/sessions/message.h"
#include "services/sessions/profiles.h"
#include "services/sessions/turn_queue.h"

namespace tutti::sessions {

struct Turn {
  int64_t number = 0;
  Message message;
  std::shared_ptr<responses::Response> response;
  size_t position = 0;
  bool durable = false;                   // its acceptance is in the store
  bool running = false;                   // in the queue's sense
  bool generating = false;                // its inference was taken; shown when it is durable
  Status refused;                         // why it could not begin before it was durable
  Status unreadable;                      // the error of a corrupt record
  bool ending = false;                    // without one: it is on its way to its end
  int64_t place = 0;                      // of its items; given when it begins
  int64_t first_place = 1;                // of its prompt
  std::optional<CutShort> cut;            // it was cancelled, to end so
  std::vector<int> input_tokens;          // of each message of its input
  std::optional<int> tool_tokens;         // of the functions that it lists
  TimePoint patience = TimePoint::max();  // tries to run until then
  Admitted admitted;                      // to be called when it is durable
  // Others that end for it, and how, when it is durable.
  std::vector<int64_t> cuts;
  CutShort cuts_how = CutShort::kForget;
  // Callbacks of the sender, one for each time it sent the message before the message was durable.
  std::vector<std::function<void(Result<Acceptance>)>> senders;
};

// An operation on a dialog that must run between turns.
struct Barrier {
  int64_t after = 0;            // the turn that must have ended; 0: as soon as none runs
  std::function<void()> begin;  // it ends with SessionActor::BarrierEnded()
};

// Data of an ended turn, kept in case its message is repeated.
struct KnownTurn {
  std::string response_id;
  int64_t fingerprint = 0;  // of the message (fingerprint.h)
};

struct Session {
  explicit Session(SessionKey k) : key(std::move(k)) {}

  const SessionKey key;
  bool loaded = false;
  std::vector<std::function<void(Status)>> when_loaded;

  // State of the dialog in the store.
  int64_t dialog = 0;  // its id; 0: it has no row
  int64_t version = 0;
  int64_t first_place = 1;  // of the last prompt
  int64_t next_place = 1;
  std::string system_prompt;
  Profile profile;
  std::vector<Item> items;  // from first_place on, in order of place
  int64_t used_s = 0;

  // The last system prompt whose tokens were counted, and the model whose tokenizer counted them.
  std::string counted_system, counted_model;
  int system_tokens = 0;

  std::unique_ptr<TurnQueue> queue;
  std::map<int64_t, Turn> turns;       // that wait or run
  std::map<int64_t, KnownTurn> known;  // those that are remembered
  std::deque<Barrier> barriers;
  bool barrier_runs = false;
  int pending = 0;       // what comes back here: the session stays
  int new_prompts = 0;   // system prompts on their way to the disk
  int new_metadata = 0;  // metadata on its way to the disk; each stored change raises the version

  bool in_idle = false;  // Residency's: in its list of idle ones, here
  std::list<SessionKey>::iterator idle_place = {};

  bool idle() const {
    return loaded && turns.empty() && barriers.empty() && !barrier_runs && pending == 0;
  }
};

}  // namespace tutti::sessions
