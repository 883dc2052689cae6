// `tutti bench mqtt --url`: chats on a broker, or on an MQTT server, that Tutti answers, in a
// closed loop. The server may be another machine's; nothing is loaded here. A chat that is not
// answered fails the bench. Blocking; one run at a time.
#pragma once

#include <string>
#include <vector>

#include "bench/report.h"

namespace tutti::bench {

struct MqttLoadOptions {
  std::string url;                              // mqtt://HOST[:PORT] or mqtts://...
  std::string prefix = "llm/v1";                // first part of topics
  std::string user = "bench";                   // client i is the user "bench-i"
  std::vector<int> concurrency = {1, 10, 100};  // clients, each with a connection and a session
  int requests = 100;                           // number in each level
  int prompt_tokens = 32, tokens = 32;          // words of a message, tokens of an answer
  uint64_t seed = 1;
};

// Errors: invalid_value, of the URL; those of the connections.
Result<Report> BenchMqttLoad(const MqttLoadOptions& options, const Progress& progress);

}  // namespace tutti::bench
