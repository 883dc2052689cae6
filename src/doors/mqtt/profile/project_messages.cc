#include "doors/mqtt/profile/project_messages.h"

#include <algorithm>
#include <utility>

#include "doors/mqtt/profile/ends_only.h"
#include "doors/mqtt/profile/project_topics.h"
#include "services/responses/ids.h"

namespace tutti::mqtt::profile {
namespace {

constexpr size_t kMostIdBytes = 128;  // of a session's message

// Clients that share a session count their requests each for itself.
std::string MessageIdOf(const wire::ProjectReply& reply) {
  if (reply.request_id.empty() || reply.client.empty()) return reply.request_id;
  std::string both = reply.client + "/" + reply.request_id;
  return both.size() <= kMostIdBytes ? both : reply.request_id;
}

sessions::Message MessageOf(wire::ProjectMessage said, const ProjectSettings& project,
                            const wire::ProjectReply& reply) {
  sessions::Message message;
  message.id = MessageIdOf(reply);
  message.input.push_back({api::Role::kUser, std::move(said.text), ""});
  message.request.sampling = std::move(said.sampling);
  message.system_prompt = std::move(said.system_prompt);
  message.parallel = project.parallel;
  wire::ResponseState& state = message.state;
  state.store = false;  // kept for as long as a turn is, not for weeks
  state.instructions = message.system_prompt;
  state.max_output_tokens = message.request.sampling.max_tokens;
  state.temperature = message.request.sampling.temperature;
  state.top_p = message.request.sampling.top_p;
  state.truncation = "auto";
  return message;
}

}  // namespace

struct ProjectMessages::Asked {
  const ProjectSettings& project;
  ProjectAddress address;
  bool redelivered = false;
  std::string credential = {};  // of who published it
  sessions::SessionKey key = {};
  Receipt receipt = {};
  WaitingRoom::Ticket ticket = {};
  int64_t seq = 0;  // once it is accepted
  bool parallel = false;
  // Of an answer that an earlier process owed; else empty.
  std::function<void()> again = {};
  ReplyOrder::Place place = {};  // until it is on its way
};

void ProjectMessages::Take(const ProjectSettings& project, const Message& message,
                           Receipt receipt) {
  const std::string random = responses::NewId("").substr(0, 8);
  wire::ReceivedMessage received =
      wire::ParseProjectMessage(project.name, message.payload, random, context_.Parsing());
  auto asked = std::make_shared<Asked>(
      Asked{project, {std::move(received.reply), message.correlation_data}, message.redelivered});
  asked->credential = message.credential;
  asked->receipt = std::move(receipt);
  const wire::ProjectReply& reply = asked->address.reply;
  if (!message.response_topic.empty()) {
    const Status status = CheckProjectResponse(project.name, reply.session, message.response_topic);
    if (!status.ok()) {
      context_.LogRefusal(message.topic, message.user, status);
      return Refuse(asked, status);
    }
    asked->address.reply.topic = message.response_topic;
  }
  if (!received.message.ok()) {
    const Status status = received.message.status();
    if (status.param() == "replyTopic") context_.LogRefusal(message.topic, message.user, status);
    return Refuse(asked, status);
  }
  const TimePoint expires = message.expires.value_or(TimePoint::max());
  if (expires <= context_.Now()) {
    return Refuse(asked, Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                                "the message had expired when it came"));
  }
  Submit(asked, *std::move(received.message), expires);
}

void ProjectMessages::Submit(const AskedPointer& asked, wire::ProjectMessage message,
                             TimePoint expires) {
  const wire::ProjectReply& reply = asked->address.reply;
  asked->key = {asked->project.tenant, asked->project.name, reply.session};
  sessions::Message said = MessageOf(std::move(message), asked->project, reply);
  said.state.model = said.request.model = context_.ModelFor(asked->project.model);
  said.request.deadline = expires;
  Result<api::CallerRef> caller =
      context_.services.caller_of(asked->credential, asked->project.tenant);
  if (!caller.ok()) return Refuse(asked, caller.status());
  said.request.caller = *std::move(caller);
  said.admit = context_.AdmissionOf(asked->key);
  asked->parallel = said.parallel;
  said.reply_to = EncodeReplyTo({.door = context_.options.door,
                                 .native = false,
                                 .topic = reply.topic,
                                 .correlation = asked->address.correlation,
                                 .client = reply.client,
                                 .request_id = reply.request_id});
  Result<WaitingRoom::Ticket> ticket = context_.Enter(/*user=*/"");
  if (!ticket.ok()) return Refuse(asked, ticket.status());
  asked->ticket = *std::move(ticket);
  open_.insert(asked);
  context_.services.sessions.Submit(
      asked->key, std::move(said),
      context_.tasks.WhileAlive(
          [this, told = std::weak_ptr(asked)](const Result<sessions::Acceptance>& acceptance) {
            if (const AskedPointer held = told.lock()) Accepted(held, acceptance);
          }));
}

void ProjectMessages::Restore(const ProjectSettings& project, const sessions::OwedAnswer& owed,
                              const ReplyTo& reply_to, ReplyOrder::Place place,
                              std::function<void()> again) {
  const wire::ProjectReply reply{.topic = reply_to.topic,
                                 .session = owed.key.session,
                                 .client = reply_to.client,
                                 .request_id = reply_to.request_id};
  if (!CheckProjectResponse(project.name, reply.session, reply.topic).ok()) return;
  auto asked = std::make_shared<Asked>(Asked{project, {reply, reply_to.correlation}});
  asked->key = owed.key;
  asked->again = std::move(again);
  asked->place = std::move(place);
  open_.insert(asked);
  context_.services.sessions.Again(
      owed.key, owed.message_id,
      context_.tasks.WhileAlive(
          [this, told = std::weak_ptr(asked)](const Result<sessions::Acceptance>& acceptance) {
            if (const AskedPointer held = told.lock()) Accepted(held, acceptance);
          }));
}

void ProjectMessages::Accepted(const AskedPointer& asked,
                               const Result<sessions::Acceptance>& acceptance) {
  open_.erase(asked);
  if (!acceptance.ok()) return Refuse(asked, acceptance.status());
  asked->receipt.Accept();
  asked->seq = acceptance->turn;
  if (IsRepeatedInVain(*asked, *acceptance))
    return context_.Leave(&asked->ticket, WaitingRoom::Outcome::kLeft);
  if (acceptance->response != nullptr) return Answer(asked, acceptance->response);
  open_.insert(asked);
  context_.services.responses.Find(
      asked->key.tenant, acceptance->response_id,
      context_.tasks.WhileAlive([this, told = std::weak_ptr(asked)](
                                    const Result<std::shared_ptr<responses::Response>>& found) {
        const AskedPointer held = told.lock();
        if (held == nullptr) return;
        open_.erase(held);
        if (found.ok()) return Answer(held, *found);
        Refuse(held, NotFound("expired", "the answer to this message is no longer kept"));
      }));
}

bool ProjectMessages::IsRepeatedInVain(const Asked& asked,
                                       const sessions::Acceptance& acceptance) const {
  if (!acceptance.repeated) return false;
  // It is on its way to there, and each chunk of it once.
  if (context_.streams.Holds(asked.address.reply.topic, acceptance.response_id)) return true;
  return (asked.redelivered || asked.again) && context_.arrivals.Has(acceptance.response_id);
}

void ProjectMessages::Answer(const AskedPointer& asked,
                             std::shared_ptr<responses::Response> response) {
  ReplyStreams::Setup setup;
  setup.topic = asked->address.reply.topic;
  setup.dialog = DialogOf(asked->key);
  if (!asked->parallel) setup.turn = asked->seq;
  setup.response = response;
  setup.form = std::make_unique<ProjectAnswer>(
      asked->address, asked->seq, asked->project.reply_format, asked->project.stream, response);
  if (asked->again) {
    setup.form = std::make_unique<EndsOnly>(std::move(setup.form));
    setup.patient = true;
  }
  setup.arrived = context_.WhenArrived(asked->key, asked->seq, response->id());
  setup.ended = [this, asked, response](bool delivered) {
    context_.Leave(&asked->ticket, delivered ? OutcomeOf(*response) : WaitingRoom::Outcome::kLeft);
  };
  const Status status = context_.streams.Open(std::move(setup));
  asked->place.reset();
  if (!status.ok()) Refuse(asked, status);
}

void ProjectMessages::Refuse(const AskedPointer& asked, const Status& error) {
  if (asked->again) return error.code() == StatusCode::kNotFound ? void() : asked->again();
  context_.Publish(ProjectError(asked->address, asked->seq, error));
  context_.Leave(&asked->ticket, OutcomeOf(error));
  asked->receipt.Accept();
}

}  // namespace tutti::mqtt::profile
