// A chat with Tutti over MQTT, each line of standard input one message.
//
//   apt install libmosquitto-dev libboost-json-dev
//   g++ -std=c++20 -O2 chat.cc -o mqtt_chat -lmosquitto -lboost_json
//   ./mqtt_chat HOST PORT USER SESSION [PASSWORD_FILE]
#include <mosquitto.h>
#include <mqtt_protocol.h>

#include <boost/json.hpp>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <thread>

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kMinInterval{100};  // between two sends
constexpr int kMostTokens = 256;                        // of an answer

struct Chat {
  std::string topic;  // llm/v1/USER/SESSION
  std::string mine;   // the message that is being answered
  std::string shown;  // of its answer, so far
  bool ready = false, ended = false;
  Clock::time_point next_send{};  // not sooner
};

std::string Text(const json::object& event, const char* name) {
  const json::value* value = event.if_contains(name);
  return value != nullptr && value->is_string() ? value->get_string().c_str() : "";
}

// The last event has the whole answer: deltas (QoS 0) may be lost.
void ShowEnd(Chat& chat, const json::value& event) {
  boost::system::error_code none;
  const json::value* text = event.find_pointer("/response/output/0/content/0/text", none);
  const std::string whole = text != nullptr && text->is_string() ? text->get_string().c_str() : "";
  const bool goes_on = whole.compare(0, chat.shown.size(), chat.shown) == 0;
  std::cout << (goes_on ? whole.substr(chat.shown.size()) : "\n" + whole) << std::endl;
  chat.ended = true;
}

void OnMessage(mosquitto*, void* user, const mosquitto_message* message,
               const mosquitto_property* properties) {
  Chat& chat = *static_cast<Chat*>(user);
  void* data = nullptr;
  uint16_t size = 0;
  mosquitto_property_read_binary(properties, MQTT_PROP_CORRELATION_DATA, &data, &size, false);
  const std::string about(static_cast<char*>(data), size);
  free(data);
  if (about != chat.mine) return;
  boost::system::error_code failed;
  const json::value value = json::parse(
      json::string_view(static_cast<char*>(message->payload), message->payloadlen), failed);
  if (failed || !value.is_object()) return;
  const json::object& event = value.get_object();
  const std::string type = Text(event, "type");
  if (type == "response.output_text.delta") {
    std::cout << Text(event, "delta") << std::flush;
    chat.shown += Text(event, "delta");
  } else if (type == "error" && Text(event, "code") == "rate_limit_exceeded") {
    // The same again, after the time that the server asks for: main() sees next_send.
    chat.next_send =
        Clock::now() + std::chrono::milliseconds(event.at("retry_after_ms").to_number<int>());
    chat.ended = true;
  } else if (type == "error") {
    std::cerr << "(" << Text(event, "message") << ")" << std::endl;
    chat.ended = true;
  } else if (type == "response.completed" || type == "response.incomplete" ||
             type == "response.failed" || type == "response.cancelled") {
    ShowEnd(chat, value);
  }
}

// Waits for its turn, says it, and shows the answer as it comes. False: the connection is lost.
bool Ask(mosquitto* client, Chat& chat, const std::string& text) {
  std::random_device random;
  chat.mine = "m-" + std::to_string(random()) + std::to_string(random());  // twice: answered once
  const std::string payload = json::serialize(json::object{
      {"id", chat.mine}, {"type", "message"}, {"input", text}, {"max_output_tokens", kMostTokens}});
  do {
    std::this_thread::sleep_until(chat.next_send);
    chat.next_send = Clock::now() + kMinInterval;
    chat.ended = false;
    chat.shown.clear();
    mosquitto_property* properties = nullptr;
    mosquitto_property_add_binary(&properties, MQTT_PROP_CORRELATION_DATA, chat.mine.data(),
                                  static_cast<uint16_t>(chat.mine.size()));
    mosquitto_publish_v5(client, nullptr, (chat.topic + "/in").c_str(),
                         static_cast<int>(payload.size()), payload.data(), 1, false, properties);
    mosquitto_property_free_all(&properties);
    while (!chat.ended)
      if (mosquitto_loop(client, 1000, 1) != MOSQ_ERR_SUCCESS) return false;
  } while (chat.next_send > Clock::now() + kMinInterval);
  return true;
}

int main(int argc, char** argv) {
  if (argc < 5) return std::cerr << "chat HOST PORT USER SESSION [PASSWORD_FILE]\n", 2;
  Chat chat;
  chat.topic = std::string("llm/v1/") + argv[3] + "/" + argv[4];
  std::string password;
  if (argc > 5) std::getline(std::ifstream(argv[5]) >> std::ws, password);
  mosquitto_lib_init();
  mosquitto* client = mosquitto_new(nullptr, true, &chat);
  mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
  mosquitto_username_pw_set(client, argv[3], argc > 5 ? password.c_str() : nullptr);
  mosquitto_connect_v5_callback_set(
      client, [](mosquitto* c, void* user, int code, int, const mosquitto_property*) {
        if (code != 0) return;  // the loop says that the connection has ended
        mosquitto_subscribe(c, nullptr, (static_cast<Chat*>(user)->topic + "/out").c_str(), 1);
      });
  mosquitto_subscribe_callback_set(client, [](mosquitto*, void* user, int, int, const int*) {
    static_cast<Chat*>(user)->ready = true;
  });
  mosquitto_message_v5_callback_set(client, OnMessage);
  int status = mosquitto_connect(client, argv[1], std::stoi(argv[2]), 60);
  while (status == MOSQ_ERR_SUCCESS && !chat.ready) status = mosquitto_loop(client, 1000, 1);
  std::string line;
  bool connected = status == MOSQ_ERR_SUCCESS;
  while (connected && std::getline(std::cin, line)) connected = Ask(client, chat, line);
  if (!connected)
    std::cerr << "not connected, or not let in: " << mosquitto_strerror(status) << "\n";
  mosquitto_disconnect(client);
  mosquitto_destroy(client);
  mosquitto_lib_cleanup();
  return connected ? 0 : 1;
}
