// An embedded MQTT listener for stock clients. "secret of USER" is USER's password; what comes to
// llm/v1/USER/SESSION/in is answered on .../out, or on the response topic, with its correlation
// data. Says its ports on a line of their own and serves until standard input ends.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "server/mqtt/listener/listener.h"
#include "server/mqtt/listener/testing/fake_authenticator.h"

int main() {
  using tutti::Status;
  using tutti::mqtt::Message;
  using tutti::mqtt::Receipt;
  using tutti::mqtt::listener::Listener;
  tutti::SteadyClock clock;
  tutti::mqtt::listener::testing::FakeAuthenticator authenticator;
  tutti::mqtt::listener::ListenerOptions options;
  options.port = 0;
  options.websocket_port = 0;
  Listener listener(options, {&authenticator, nullptr, &clock});
  const auto echo = [&listener](Message message, Receipt receipt) {
    Message answer;
    answer.topic = message.response_topic;
    if (answer.topic.empty()) {
      answer.topic = message.topic;
      answer.topic.replace(answer.topic.size() - 2, 2, "out");
    }
    answer.payload = std::move(message.payload);
    answer.qos = 1;
    answer.correlation_data = std::move(message.correlation_data);
    answer.content_type = "text/plain";
    const Status sent = listener.Publish(std::move(answer));
    sent.ok() ? receipt.Accept() : receipt.Refuse(sent);
  };
  Status status = listener.Subscribe("llm/v1/+/+/in", echo);
  if (status.ok()) status = listener.Start();
  Message online;
  online.topic = "llm/v1/server/test/status";
  online.payload = R"({"online":true})";
  online.qos = 1;
  online.retain = true;
  if (status.ok()) status = listener.Publish(online);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::printf("mqtt_host: ports %d %d\n", listener.port(), listener.websocket_port());
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  listener.Stop();
  return 0;
}
