// SessionActor: the life of a turn, from prompt to end.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "protocol/responses/input_items.h"
#include "protocol/responses/state.h"
#include "services/sessions/conversations.h"
#include "services/sessions/session_actor.h"

namespace tutti::sessions {
namespace {

using protocol::ResponseState;
using protocol::ResponseStatus;

constexpr Duration kRetry = std::chrono::milliseconds(200);
constexpr int kAnswerTokens = 256;  // kept free for an answer of no stated length

// No prompt may fill the model's own window: the answer needs some of it.
ContextWindow WindowFor(ContextWindow window, const api::SamplingParams& sampling,
                        int max_model_len) {
  const int answer = sampling.max_tokens.value_or(std::min(kAnswerTokens, max_model_len / 4));
  if (max_model_len > answer) window.limit = std::min(window.limit, max_model_len - answer);
  return window;
}

// Whether there is a cancelled turn whose end is not stored yet.
bool AnyIsCut(const Session& session) {
  return std::any_of(session.turns.begin(), session.turns.end(),
                     [](const auto& turn) { return turn.second.cut.has_value(); });
}

bool IsCall(const protocol::OutputItem& item) { return item.call.has_value(); }

bool LeavesItems(const ResponseState& end, std::optional<CutShort> cut) {
  if (cut.has_value() && *cut == CutShort::kForget) return false;
  switch (end.status) {
    case ResponseStatus::kCompleted:
    case ResponseStatus::kIncomplete:
      return true;
    case ResponseStatus::kCancelled:
      return cut.has_value();
    default:
      return false;
  }
}

}  // namespace

void SessionActor::Advance(const SessionPointer& session) {
  TurnQueue& queue = *session->queue;
  while (!session->barrier_runs) {
    const std::optional<int64_t> next = queue.next();
    if (!session->barriers.empty()) {
      const int64_t after = session->barriers.front().after;
      const bool due = after == 0 || queue.waiting() == 0 || (next.has_value() && *next > after);
      if (due && (!queue.running().empty() || AnyIsCut(*session))) break;
      if (due) {
        session->barrier_runs = true;
        const Barrier barrier = std::move(session->barriers.front());
        session->barriers.pop_front();
        barrier.begin();
        continue;  // it may have ended
      }
    }
    if (!next.has_value() || !MayBegin(*session, session->turns.at(*next))) break;
    (void)queue.Begin();
    Turn& turn = session->turns.at(*next);
    turn.running = true;
    turn.place = session->next_place++;
    turn.patience = clock_.Now() + options_.patience;
    TryRun(session, *next);
  }
  residency_.Settle(session);
}

// A turn may begin before it is durable, unless a system prompt for it is still being stored, or
// its row will certainly be refused.
bool SessionActor::MayBegin(const Session& session, const Turn& turn) {
  if (turn.durable) return true;
  return session.new_prompts == 0 && (session.dialog != 0 || session.key.project != kConversations);
}

// The running turns began with a history that the store had dropped; none of their output was
// shown.
void SessionActor::RunAnew(const SessionPointer& session) {
  const std::vector<int64_t> running = session->queue->running();
  for (const int64_t number : running) {
    Turn& turn = session->turns.at(number);
    if (turn.generating) responses_.Unrun(*turn.response);
    turn.generating = false;
    turn.place = session->next_place++;
    TryRun(session, number);
  }
}

Status SessionActor::HasRoom(const Session& session) const {
  if (session.barriers.size() < options_.queue.waiting) return OkStatus();
  return ResourceExhausted("session_queue_full", "too many calls wait for this dialog's turns");
}

void SessionActor::AddBarrier(const SessionPointer& session, int64_t after,
                              std::function<void()> begin) {
  session->barriers.push_back({after, std::move(begin)});
  Advance(session);
}

void SessionActor::BarrierEnded(const SessionPointer& session) {
  session->barrier_runs = false;
  Advance(session);
}

void SessionActor::TryRun(const SessionPointer& session, int64_t number) {
  const auto place = session->turns.find(number);
  if (place == session->turns.end() || place->second.ending) return;
  Turn& turn = place->second;
  const Status status = RunTurn(session, turn);
  const TimePoint now = clock_.Now();
  if (status.ok()) {
    turn.generating = true;
    if (turn.durable) responses_.Show(*turn.response);
  } else if (!turn.durable) {  // retried once it is durable
    if (!responses::MayPass(status) && status.reason() != "draining") turn.refused = status;
  } else if (responses::MayPass(status) &&
             now < std::min(turn.patience, turn.message.request.deadline)) {
    responses_.strand()->PostAt(now + kRetry, [this, session, number] { TryRun(session, number); });
  } else if (status.reason() != "draining") {  // else the next process answers it
    EndUnrun(session, turn, status);
  }
}

Status SessionActor::RunTurn(const SessionPointer& session, Turn& turn) {
  RETURN_IF_ERROR(turn.unreadable);
  RETURN_IF_ERROR(counter_.Ready(turn.message.request.model));
  ASSIGN_OR_RETURN(TurnPrompt built, PromptOf(*session, turn));
  turn.first_place = built.first_place;
  api::GenerateRequest request = turn.message.request;
  if (const auto* chat = std::get_if<api::ChatPrompt>(&request.prompt)) {
    built.prompt.template_arguments = chat->template_arguments;
    built.prompt.tools = chat->tools;
    built.prompt.tool_choice = chat->tool_choice;
    built.prompt.parallel_tool_calls = chat->parallel_tool_calls;
  }
  request.prompt = std::move(built.prompt);
  request.n = 1;
  request.tenant = session->key.tenant;
  request.cache_salt += "/" + session->key.project + "/" + std::to_string(session->profile.version);
  return responses_.Run(turn.response, std::move(request),
                        {.turns = built.dropped_turns, .items = built.dropped_items},
                        HooksOf(session, turn.number));
}

Status SessionActor::CountInput(Turn& turn, const TokenCounter::Template& around) {
  if (!turn.input_tokens.empty()) return OkStatus();
  std::vector<int> tokens;
  for (const api::ChatMessage& message : turn.message.input) {
    ASSIGN_OR_RETURN(const int count,
                     counter_.Count(turn.message.request.model, CountedText(ItemOf(message))));
    tokens.push_back(count + around.message);
  }
  turn.input_tokens = std::move(tokens);
  return OkStatus();
}

// The template's text around functions is unknown here, so each function counts as a message.
Result<int> SessionActor::CountTools(Turn& turn, const TokenCounter::Template& around) {
  const auto* chat = std::get_if<api::ChatPrompt>(&turn.message.request.prompt);
  if (chat == nullptr || chat->tools.empty()) return 0;
  if (turn.tool_tokens.has_value()) return *turn.tool_tokens;
  int tokens = 0;
  for (const api::Tool& tool : chat->tools) {
    ASSIGN_OR_RETURN(const int count,
                     counter_.Count(turn.message.request.model,
                                    tool.name + " " + tool.description + " " + tool.parameters));
    tokens += count + around.message;
  }
  turn.tool_tokens = tokens;
  return tokens;
}

Result<int> SessionActor::CountSystem(Session& session, const std::string& model,
                                      const std::string& system) {
  if (system != session.counted_system || model != session.counted_model) {
    ASSIGN_OR_RETURN(session.system_tokens, counter_.Count(model, system));
    session.counted_system = system;
    session.counted_model = model;
  }
  return session.system_tokens;
}

Result<TurnPrompt> SessionActor::PromptOf(Session& session, Turn& turn) {
  const Message& message = turn.message;
  const std::string& model = message.request.model;
  ASSIGN_OR_RETURN(const TokenCounter::Template around, counter_.TemplateOf(model));
  RETURN_IF_ERROR(CountInput(turn, around));
  std::string system;
  std::vector<Item> items;
  int64_t first_place = 1;
  {
    const responses::CriticalSection section(&hold_times_);
    system = message.system_prompt.value_or(
        session.system_prompt.empty() ? session.profile.system_prompt : session.system_prompt);
    items = session.items;
    first_place = session.first_place;
  }
  // The fixed cost of a prompt includes its first message.
  int fixed = std::accumulate(turn.input_tokens.begin(), turn.input_tokens.end(),
                              around.prompt - around.message);
  ASSIGN_OR_RETURN(const int tool_tokens, CountTools(turn, around));
  fixed += tool_tokens;
  if (!system.empty()) {
    ASSIGN_OR_RETURN(const int tokens, CountSystem(session, model, system));
    fixed += tokens + around.system;
  }
  const ContextWindow window = WindowFor(message.window.value_or(options_.window),
                                         message.request.sampling, around.max_model_len);
  return BuildPrompt(window, system, items, first_place, message.input, fixed);
}

void SessionActor::EndUnrun(const SessionPointer& session, Turn& turn, const Status& why) {
  turn.ending = true;
  responses_.EndUnrun(turn.response, why, HooksOf(session, turn.number),
                      turn.cut == CutShort::kSteer);
}

responses::TurnHooks SessionActor::HooksOf(const SessionPointer& session, int64_t number) {
  const auto outcome = std::make_shared<Outcome>();
  return {
      .commit = [this, session, number, outcome](const ResponseState& end) -> store::Store::Work {
        const Turn& turn = session->turns.at(number);
        *outcome = OutcomeOf(turn, end);
        const responses::CriticalSection section(&hold_times_);
        // The history of a sequential turn must not have changed since it began; parallel turns may
        // have added to it, so no version is expected.
        std::optional<int64_t> version;
        if (!turn.message.parallel && !outcome->items.empty()) version = session->version;
        return [dialog = session->dialog, version, outcome = *outcome, now_s = unix_s_(),
                raised = session->new_metadata](store::Database& rows) {
          return EndTurn(rows, dialog, version, outcome, now_s, raised);
        };
      },
      .ended =
          [this, session, number, outcome](const ResponseState& end, const Status& stored) {
            if (options_.watcher != nullptr) options_.watcher->OnEnded(session->key, number, end);
            Ended(session, number, *outcome, stored);
          }};
}

// Counts one token per byte if counting fails, as when the model was unloaded meanwhile.
int SessionActor::CountOrBytes(const std::string& model, const std::string& text) {
  if (!counter_.Ready(model).ok()) return static_cast<int>(text.size());
  const Result<TokenCounter::Template> around = counter_.TemplateOf(model);
  const Result<int> tokens = counter_.Count(model, text);
  if (!tokens.ok()) return static_cast<int>(text.size());
  return *tokens + (around.ok() ? around->message : 0);
}

Outcome SessionActor::OutcomeOf(const Turn& turn, const ResponseState& end) {
  Outcome outcome{.turn = turn.number,
                  .items = {},
                  .error = end.status == ResponseStatus::kCancelled ? "cancelled" : end.error_code,
                  .first_place = turn.first_place,
                  .place = turn.place};
  if (!LeavesItems(end, turn.cut)) return outcome;
  const std::string& model = turn.message.request.model;
  const std::vector<api::ChatMessage>& input = turn.message.input;
  const auto add = [&](Item item, std::string id, int tokens, bool incomplete) {
    item.turn = turn.number;
    item.tokens = tokens;
    item.incomplete = incomplete;
    item.id = std::move(id);
    item.place = turn.place;
    outcome.items.push_back(std::move(item));
  };
  for (size_t i = 0; i < input.size(); ++i) {
    Item item = ItemOf(input[i]);
    const int tokens = i < turn.input_tokens.size() ? turn.input_tokens[i]
                                                    : CountOrBytes(model, CountedText(item));
    add(std::move(item), NewId(protocol::ItemIdPrefix(input[i])), tokens, false);
  }
  if (end.incomplete_reason == responses::kSteered && end.text.empty() && end.calls.empty())
    return outcome;
  std::vector<protocol::OutputItem> output = protocol::OutputOf(end);
  if (output.empty()) output.push_back({.id = end.item_id});  // cut before any output
  for (size_t i = 0; i < output.size(); ++i) {
    Item item{.role = api::Role::kAssistant, .content = {}};
    (output[i].reasoning ? item.reasoning : item.content) = output[i].text;
    item.call = output[i].call;
    // Reasoning that leads to no call is in no later prompt: responses::JoinItems().
    const bool unseen = output[i].reasoning &&
                        std::none_of(output.begin() + static_cast<int>(i), output.end(), IsCall);
    const int tokens = unseen ? 0 : CountOrBytes(model, CountedText(item));
    const bool cut = i + 1 == output.size() && end.status != ResponseStatus::kCompleted;
    add(std::move(item), output[i].id, tokens, cut);
  }
  return outcome;
}

void SessionActor::Ended(const SessionPointer& session, int64_t number, const Outcome& outcome,
                         const Status& stored) {
  {
    const responses::CriticalSection section(&hold_times_);
    if (stored.ok() && !outcome.items.empty()) {
      ++session->version;
      const auto later = std::find_if(session->items.begin(), session->items.end(),
                                      [&](const Item& item) { return item.place > outcome.place; });
      session->items.insert(later, outcome.items.begin(), outcome.items.end());
      session->first_place = std::max(session->first_place, outcome.first_place);
      std::erase_if(session->items,
                    [&](const Item& item) { return item.place < session->first_place; });
    }
    if (session->turns.at(number).running) session->queue->End(number);
    session->turns.erase(number);
    session->used_s = unix_s_();
  }
  Advance(session);
}

}  // namespace tutti::sessions
