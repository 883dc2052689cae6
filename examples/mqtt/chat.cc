// A chat with Tutti over MQTT, each line of standard input one message.
//
//   apt install libmosquitto-dev libboost-json-dev
//   g++ -std=c++20 -O2 chat.cc -o mqtt_chat -lmosquitto -lboost_json
//   ./mqtt_chat HOST PORT USER SESSION [PASSWORD_FILE]
#include <mosquitto.h>
#include <mqtt_protocol.h>

#include <boost/json.hpp>
#include <chrono>
#include <fstream>
#include <iostream>
#include <random>
#include <set>
#include <thread>

namespace json = boost::json;
using Clock = std::chrono::steady_clock;
const std::set<std::string> kEnds = {"response.completed", "response.incomplete", "response.failed",
                                     "response.cancelled"};

struct Chat {
  std::string topic, mine, shown;  // llm/v1/USER/SESSION; the message, and its answer so far
  bool ready = false, ended = false, again = false;
  Clock::time_point next_send{};
};

void OnMessage(mosquitto*, void* user, const mosquitto_message* message,
               const mosquitto_property* properties) {
  Chat& chat = *static_cast<Chat*>(user);
  void* id = nullptr;
  uint16_t size = 0;
  mosquitto_property_read_binary(properties, MQTT_PROP_CORRELATION_DATA, &id, &size, false);
  const std::string about(static_cast<char*>(id), size);
  free(id);
  if (about != chat.mine) return;  // of another client in this session
  const json::value event =
      json::parse({static_cast<char*>(message->payload), static_cast<size_t>(message->payloadlen)});
  const auto text = [&](const char* pointer) {
    boost::system::error_code none;
    const json::value* found = event.find_pointer(pointer, none);
    return found != nullptr && found->is_string() ? json::value_to<std::string>(*found) : "";
  };
  const std::string type = text("/type");
  if (type == "response.output_text.delta") {
    std::cout << text("/delta") << std::flush;
    chat.shown += text("/delta");
  } else if (type == "error") {
    chat.ended = true;
    chat.again = text("/code") == "rate_limit_exceeded";  // after the time that the server asks for
    if (!chat.again) return void(std::cerr << "(" << text("/message") << ")\n");
    chat.next_send =
        Clock::now() + std::chrono::milliseconds(event.at("retry_after_ms").as_int64());
  } else if (kEnds.contains(type)) {
    chat.ended = true;  // with the whole answer: deltas (QoS 0) may be lost
    const std::string whole = text("/response/output/0/content/0/text");
    const bool goes_on = whole.starts_with(chat.shown);
    std::cout << (goes_on ? whole.substr(chat.shown.size()) : "\n" + whole) << std::endl;
  }
}

int main(int argc, char** argv) {
  if (argc < 5) return std::cerr << "chat HOST PORT USER SESSION [PASSWORD_FILE]\n", 2;
  Chat chat;
  chat.topic = std::string("llm/v1/") + argv[3] + "/" + argv[4];
  std::string password, line;
  if (std::ifstream file; argc > 5) {
    file.open(argv[5]);
    if (!std::getline(file, password)) return std::cerr << argv[5] << ": no password in it\n", 2;
  }
  mosquitto_lib_init();
  mosquitto* client = mosquitto_new(nullptr, true, &chat);
  mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
  mosquitto_username_pw_set(client, argv[3], argc > 5 ? password.c_str() : nullptr);
  mosquitto_subscribe_callback_set(client, [](mosquitto*, void* user, int, int, const int*) {
    static_cast<Chat*>(user)->ready = true;
  });
  mosquitto_message_v5_callback_set(client, OnMessage);
  int status = mosquitto_connect(client, argv[1], std::stoi(argv[2]), 60);
  if (status == 0) mosquitto_subscribe(client, nullptr, (chat.topic + "/out").c_str(), 1);
  const auto hear_until = [&](const bool& done) {
    while (status == 0 && !done) status = mosquitto_loop(client, 1000, 1);
  };
  hear_until(chat.ready);
  std::random_device random;
  while (status == 0 && std::getline(std::cin, line)) {
    chat.mine = "m-" + std::to_string(random()) + std::to_string(random());  // twice: answered once
    const std::string said = json::serialize(json::object{{"id", chat.mine},
                                                          {"type", "message"},
                                                          {"input", line},
                                                          {"temperature", 0},
                                                          {"max_output_tokens", 256}});
    mosquitto_property* id = nullptr;  // comes back with each event of the answer
    mosquitto_property_add_binary(&id, MQTT_PROP_CORRELATION_DATA, chat.mine.data(),
                                  static_cast<uint16_t>(chat.mine.size()));
    do {
      std::this_thread::sleep_until(chat.next_send);
      chat.next_send = Clock::now() + std::chrono::milliseconds(100);  // between two sends
      chat.ended = chat.again = false;
      chat.shown.clear();
      mosquitto_publish_v5(client, nullptr, (chat.topic + "/in").c_str(),
                           static_cast<int>(said.size()), said.data(), 1, false, id);
      hear_until(chat.ended);
    } while (status == 0 && chat.again);
    mosquitto_property_free_all(&id);
  }
  if (status != 0)
    std::cerr << "not connected, or not let in: " << mosquitto_strerror(status) << "\n";
  mosquitto_disconnect(client);
  return status == 0 ? 0 : 1;
}
