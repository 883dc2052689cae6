// The listener's limits. Defaults are those of the input contract; tests use small values. Plain
// data.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace tutti::mqtt::listener {

struct Limits {
  // --- connections ---
  int connections = 4096;       // more wait to be accepted
  int logins = 256;             // not logged in; beyond it the oldest silent ones are closed
  int logins_per_address = 32;  // as logins, per address
  Duration login_time = std::chrono::seconds(10);    // from accept to CONNACK
  Duration login_check = std::chrono::seconds(1);    // interval of MayStay() checks
  size_t login_packet_bytes = 64 << 10;              // size of CONNECT
  Duration reader_stall = std::chrono::seconds(30);  // bytes wait and none are sent: closed
  size_t unsent_bytes = 16 << 10;  // of a connection; beyond it, its queue waits and reading pauses

  // --- packets ---
  size_t packet_bytes = 1 << 20;  // 0x95
  int packets_per_s = 1000;       // sustained; 0x96
  int packet_burst = 2000;
  uint16_t inflight = 20;              // unacknowledged QoS 1, each way; 0x93
  uint16_t topic_aliases = 16;         // 0x94
  uint16_t keep_alive_s = 300;         // maximum; closed after 1.5 times as long: 0x8D
  size_t client_id_bytes = 128;        // 0x85
  size_t topic_bytes = 512;            // of a topic: 0x90; of a filter: 0x8F
  size_t topic_levels = 16;            // the same codes
  size_t correlation_bytes = 4 << 10;  // 0x95
  Duration receipt_time = std::chrono::seconds(30);  // for a sink to answer a message: 0x80

  // --- sessions ---
  size_t subscriptions = 64;           // of a session; 0x97
  uint32_t session_expiry_s = 86'400;  // the most
  size_t sessions = 4096;              // kept without a connection; beyond it the oldest ends
  size_t sessions_per_user = 32;       // as sessions, of one user
  // Queue of one subscriber. Beyond these, messages of QoS 0 are dropped...
  size_t queue_messages = 1000;
  size_t queue_bytes = 64 << 10;
  // ...and beyond this many bytes of QoS 1, or `queue_messages` of them, the subscriber is
  // disconnected: 0x97.
  size_t kept_bytes = 4 << 20;
  size_t retained = 4096;            // topics with a retained message
  size_t retained_bytes = 16 << 10;  // of one retained message from a client
};

}  // namespace tutti::mqtt::listener
