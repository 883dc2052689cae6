#include "bench/mqtt_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "bench/report.h"
#include "client/mqtt/chat.h"
#include "client/mqtt/dialect.h"
#include "mqtt/packet.h"

namespace tutti::bench {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::minutes;

constexpr Duration kPatience = minutes(5);  // for the next word of an answer

json::value Parsed(std::string_view text) {
  boost::system::error_code failed;
  json::value value = json::parse(json::string_view(text.data(), text.size()), failed);
  return failed ? json::value() : value;
}

const json::value* At(const json::value& value, std::string_view pointer) {
  boost::system::error_code failed;
  const json::value* const found = value.find_pointer(pointer, failed);
  return failed ? nullptr : found;
}

std::string TextAt(const json::value& value, std::string_view pointer) {
  const json::value* const found = At(value, pointer);
  if (found == nullptr || !found->is_string()) return "";
  return {found->get_string().data(), found->get_string().size()};
}

int64_t IntAt(const json::value& value, std::string_view pointer) {
  const json::value* const found = At(value, pointer);
  return found == nullptr || !found->is_int64() ? 0 : found->get_int64();
}

mqtt::Address Loopback(int port) { return {"127.0.0.1", port, false}; }

client::MqttOptions OptionsFor(const mqtt::Address& address, const std::string& user,
                               Duration min_interval) {
  client::MqttOptions options;
  options.address = address;
  options.session.login.client_id = client::RandomName("bench-");
  options.session.login.user = user;
  options.session.login.keep_alive_s = 0;
  options.session.min_interval = min_interval;
  return options;
}

std::string Millis(std::span<const double> seconds) {
  return seconds.empty() ? "-" : MillisText(seconds);
}

}  // namespace

bool ReadNativeEvent(std::string_view payload, double since_sent_s, ChatAnswer* answer) {
  const json::value event = Parsed(payload);
  const std::string type = TextAt(event, "/type");
  ++answer->events;
  answer->end_s = since_sent_s;
  if (type == "accepted") {
    answer->accepted_s = since_sent_s;
    answer->turn = IntAt(event, "/turn");
  } else if (type == "response.output_text.delta") {
    if (answer->first_s == 0) answer->first_s = since_sent_s;
    answer->text += TextAt(event, "/delta");
  } else if (type == "error") {
    answer->status = Unavailable("server_error", TextAt(event, "/message"));
    return true;
  } else if (type == "response.failed" || type == "response.cancelled") {
    answer->status = Unavailable("server_error", TextAt(event, "/response/error/message"));
    return true;
  } else if (type == "response.completed" || type == "response.incomplete") {
    answer->output_tokens = static_cast<int>(IntAt(event, "/response/usage/output_tokens"));
    answer->prompt_tokens = static_cast<int>(IntAt(event, "/response/usage/input_tokens"));
    answer->cached_tokens =
        static_cast<int>(IntAt(event, "/response/usage/input_tokens_details/cached_tokens"));
    const json::value* const response = At(event, "/response");
    const std::string whole = response == nullptr || !response->is_object()
                                  ? ""
                                  : client::OutputTextIn(response->get_object()).value_or("");
    answer->lost_deltas = whole != answer->text;  // QoS 0: the last event has it all
    answer->text = whole;
    return true;
  }
  return false;
}

Result<std::unique_ptr<MqttChatUser>> MqttChatUser::Connect(int port, const std::string& user) {
  return Connect(Loopback(port), "llm/v1", user);
}

Result<std::unique_ptr<MqttChatUser>> MqttChatUser::Connect(const mqtt::Address& address,
                                                            const std::string& prefix,
                                                            const std::string& user) {
  ASSIGN_OR_RETURN(std::unique_ptr<client::MqttConnection> connection,
                   client::MqttConnection::Open(OptionsFor(address, user, Duration(0))));
  const std::string base = prefix + "/" + user;
  RETURN_IF_ERROR(connection->Subscribe(base + "/+/out"));
  return std::unique_ptr<MqttChatUser>(new MqttChatUser(std::move(connection), base));
}

ChatAnswer MqttChatUser::RunTurn(const ChatTurn& request, TimePoint epoch) {
  const SteadyClock clock;
  const std::string id = "m-" + std::to_string(++said_);
  json::object body{{"id", id},
                    {"type", "message"},
                    {"input", request.text},
                    {"temperature", 0},
                    {"max_output_tokens", request.max_tokens}};
  if (request.ignore_eos) body["ignore_eos"] = true;
  if (!request.cache_salt.empty()) body["cache_salt"] = request.cache_salt;
  ChatAnswer answer;
  const TimePoint sent = clock.Now();
  answer.status =
      connection_->Send({base_ + "/" + request.session + "/in", json::serialize(body), id});
  while (answer.status.ok()) {
    const auto arrived = connection_->Receive(clock.Now() + kPatience);
    if (!arrived.ok()) {
      answer.status = arrived.status();
      break;
    }
    if (arrived->empty()) answer.status = Unavailable("unavailable", "no answer in time");
    if (!arrived->refused.empty()) answer.status = arrived->refused.front().second;
    const double since = ToSeconds(clock.Now() - sent);
    bool ended = false;
    for (const mqtt::Publish& message : arrived->messages) {
      if (message.properties.correlation_data != id) continue;
      ended = ended || ReadNativeEvent(message.payload, since, &answer);
    }
    if (ended) break;
  }
  answer.ended_at_s = ToSeconds(clock.Now() - epoch);
  return answer;
}

Result<std::unique_ptr<ProjectClient>> ProjectClient::Connect(int port, const std::string& project,
                                                              Duration min_interval) {
  const std::string name = client::RandomName("c-");
  ASSIGN_OR_RETURN(std::unique_ptr<client::MqttConnection> connection,
                   client::MqttConnection::Open(OptionsFor(Loopback(port), name, min_interval)));
  RETURN_IF_ERROR(connection->Subscribe(project + "/assistant_response/#"));
  return std::unique_ptr<ProjectClient>(new ProjectClient(std::move(connection), project, name));
}

std::vector<ChatAnswer> ProjectClient::RunTurns(const std::vector<ChatTurn>& requests,
                                                TimePoint epoch) {
  const SteadyClock clock;
  const TimePoint sent = clock.Now();
  const int first = said_ + 1;
  std::vector<ChatAnswer> answers;
  const auto fail = [&](const Status& status) {
    ChatAnswer failed;
    failed.status = status;
    answers.push_back(failed);
    return answers;
  };
  for (const ChatTurn& request : requests) {
    json::object body{{"sessionId", request.session},
                      {"message", request.text},
                      {"clientId", client_},
                      {"requestId", std::to_string(++said_)},
                      {"temperature", 0},
                      {"maxTokens", request.max_tokens}};
    const Status status =
        connection_->Send({project_ + "/user_input", json::serialize(body), client_});
    if (!status.ok()) return fail(status);
  }
  while (answers.size() < requests.size()) {
    const auto arrived = connection_->Receive(clock.Now() + kPatience);
    if (!arrived.ok()) return fail(arrived.status());
    if (!arrived->refused.empty()) return fail(arrived->refused.front().second);
    if (arrived->empty()) return fail(Unavailable("unavailable", "no reply in time"));
    for (const mqtt::Publish& message : arrived->messages) {
      // All clients share the project's topics, so only answers to this client count.
      if (message.topic.find("/" + client_ + "/") == std::string::npos) continue;
      const json::value reply = Parsed(message.payload);
      ChatAnswer answer;
      answer.events = 1;
      answer.turn = IntAt(reply, "/seq");
      answer.text = TextAt(reply, "/text");
      answer.output_tokens = static_cast<int>(IntAt(reply, "/usage/completion_tokens"));
      answer.end_s = ToSeconds(clock.Now() - sent);
      answer.ended_at_s = ToSeconds(clock.Now() - epoch);
      const std::string request = TextAt(reply, "/requestId");
      if (At(reply, "/final") == nullptr) {
        answer.status = Unavailable("server_error", message.payload.substr(0, 300));
      } else if (request != std::to_string(first + static_cast<int>(answers.size()))) {
        answer.status = Internal("a reply out of its order: " + request);
      }
      answers.push_back(std::move(answer));
    }
  }
  return answers;
}

ChatAnswer RunTurnOverHttp(const client::Server& server, const std::string& model,
                           const ChatTurn& request, TimePoint epoch) {
  const SteadyClock clock;
  json::object body{
      {"model", model},
      {"messages", json::array{json::object{{"role", "user"}, {"content", request.text}}}},
      {"temperature", 0},
      {"max_tokens", request.max_tokens},
      {"stream", true},
      {"stream_options", {{"include_usage", true}}}};
  if (request.ignore_eos) body["ignore_eos"] = true;
  if (!request.cache_salt.empty()) body["cache_salt"] = request.cache_salt;
  ChatAnswer answer;
  const TimePoint sent = clock.Now();
  std::string wrong;
  answer.status = client::PostStream(
      server, "/v1/chat/completions", json::serialize(body), "",
      std::chrono::duration_cast<milliseconds>(kPatience),
      [&](std::string_view data, TimePoint when) {
        if (data == "[DONE]") return;
        ++answer.events;
        const json::value event = Parsed(data);
        if (At(event, "/error") != nullptr) wrong = TextAt(event, "/error/message");
        const std::string piece = TextAt(event, "/choices/0/delta/content");
        if (!piece.empty() && answer.first_s == 0) answer.first_s = ToSeconds(when - sent);
        answer.text += piece;
        if (const int64_t tokens = IntAt(event, "/usage/completion_tokens"); tokens > 0) {
          answer.output_tokens = static_cast<int>(tokens);
          answer.prompt_tokens = static_cast<int>(IntAt(event, "/usage/prompt_tokens"));
        }
      });
  answer.end_s = ToSeconds(clock.Now() - sent);
  answer.ended_at_s = ToSeconds(clock.Now() - epoch);
  if (answer.status.ok() && !wrong.empty()) answer.status = Unavailable("server_error", wrong);
  return answer;
}

std::string MqttGate::Line() const {
  return fmt::format("{}: {:.3f}, {} {:.3f}: {}", name, measured, at_most ? "at most" : "at least",
                     limit, met() ? "met" : "MISSED");
}

boost::json::object MqttGate::Json() const {
  return {{"name", name},
          {"measured", measured},
          {"limit", limit},
          {"at_most", at_most},
          {"met", met()}};
}

TransportSummary Summarize(std::span<const ChatAnswer> answers, double seconds) {
  TransportSummary summary;
  summary.seconds = seconds;
  int64_t tokens = 0, events = 0;
  for (const ChatAnswer& answer : answers) {
    ++summary.answers;
    if (!answer.status.ok()) {
      ++summary.failed;
      continue;
    }
    summary.lossy += answer.lost_deltas;
    tokens += answer.output_tokens;
    events += answer.events;
    if (answer.accepted_s > 0) summary.accepted_s.push_back(answer.accepted_s);
    if (answer.first_s > 0) summary.first_s.push_back(answer.first_s);
    summary.end_s.push_back(answer.end_s);
  }
  if (seconds > 0) {
    summary.tokens_per_s = static_cast<double>(tokens) / seconds;
    summary.events_per_s = static_cast<double>(events) / seconds;
  }
  return summary;
}

std::string SummaryLine(const std::string& name, const TransportSummary& summary) {
  return fmt::format("{:>12} {:>5}/{:<5} {:>8.1f} {:>9.1f} {:>20} {:>22} {:>24}", name,
                     summary.answers - summary.failed, summary.answers, summary.tokens_per_s,
                     summary.events_per_s, Millis(summary.accepted_s), Millis(summary.first_s),
                     Millis(summary.end_s));
}

boost::json::object SummaryJson(const TransportSummary& summary) {
  return {{"answers", summary.answers},
          {"failed", summary.failed},
          {"lossy", summary.lossy},
          {"seconds", summary.seconds},
          {"tokens_per_s", summary.tokens_per_s},
          {"events_per_s", summary.events_per_s},
          {"accepted_ms", MillisJson(summary.accepted_s)},
          {"ttft_ms", MillisJson(summary.first_s)},
          {"reply_ms", MillisJson(summary.end_s)}};
}

CachedShare CachedShareOf(std::span<const ChatAnswer> turns) {
  CachedShare result;
  int64_t cached = 0, prompt = 0;
  for (size_t i = 1; i < turns.size(); ++i) {
    if (turns[i].prompt_tokens < turns[i - 1].prompt_tokens) {
      ++result.cut;
      continue;
    }
    ++result.turns;
    cached += turns[i].cached_tokens;
    prompt += turns[i].prompt_tokens;
  }
  if (prompt > 0) result.share = static_cast<double>(cached) / static_cast<double>(prompt);
  return result;
}

std::string SecretOf(int client) { return fmt::format("word-{:04}", client); }

int ForeignSecretIn(const std::string& text, int client, int clients) {
  for (int other = 0; other < clients; ++other) {
    if (other != client && text.find(SecretOf(other)) != std::string::npos) return other;
  }
  return -1;
}

}  // namespace tutti::bench
