// Servers for stock clients, gRPC and HTTP over one repository: the test models, and fakes of an
// encoder, a cross-encoder, a classifier and a decoder that repeats its prompt word by word. Says
// its ports on a line of their own and serves until standard input ends; the model side answers at
// once.
//
//   grpc_host [key=value ...]   name, handlers, connections, streams, delay_ms (of encodings), key,
//   log
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "protocol/kserve/testing/fake_models.h"
#include "server/grpc/grpc_server.h"
#include "server/http/connection/http_server.h"
#include "services/auth/testing/one_key.h"

namespace {

using tutti::kserve::testing::FakeEncoding;
using tutti::kserve::testing::FakeGeneration;
using tutti::kserve::testing::FakeInference;

// Words of the prompt, each with the blank before it, a millisecond apart.
void Repeat(const std::shared_ptr<FakeGeneration>& generation) {
  std::string text = "hello";
  if (const auto* prompt = std::get_if<tutti::api::TextPrompt>(&generation->request.prompt)) {
    text = prompt->text;
  } else if (const auto* chat = std::get_if<tutti::api::ChatPrompt>(&generation->request.prompt)) {
    text = chat->messages.back().content;
  }
  int left = generation->request.sampling.max_tokens.value_or(1000);
  generation->Started();
  for (size_t at = 0; at < text.size() && left > 0 && !generation->cancelled.load(); --left) {
    const size_t end = std::min(text.find(' ', at + 1), text.size());
    for (int choice = 0; choice < generation->request.n; ++choice) {
      generation->Token(text.substr(at, end - at), choice);
    }
    generation->Wake();
    at = end;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto reason =
      left > 0 ? tutti::api::FinishReason::kStop : tutti::api::FinishReason::kLength;
  for (int choice = 0; choice < generation->request.n; ++choice) {
    generation->ChoiceEnd(reason, choice);
  }
  generation->End();
  generation->Wake();
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> settings;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    settings[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  const auto number = [&](const char* key, int otherwise) {
    return settings.contains(key) ? std::atoi(settings[key].c_str()) : otherwise;
  };
  tutti::SteadyClock clock;
  FakeInference inference(tutti::kserve::testing::FakeModels());
  inference.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) {
    std::thread([generation] { Repeat(generation); }).detach();
    return tutti::OkStatus();
  };
  inference.keeps = false;
  const auto delay = std::chrono::milliseconds(number("delay_ms", 0));
  inference.on_encode = [delay](const std::shared_ptr<FakeEncoding>& encoding) {
    if (delay.count() == 0) {
      encoding->Answer();
    } else {
      std::thread([encoding, delay] {
        std::this_thread::sleep_for(delay);
        encoding->Answer();
      }).detach();
    }
    return tutti::OkStatus();
  };
  tutti::kserve::RepositoryOptions names{.server_version = "test", .test_models = true};
  if (settings.contains("name")) names.server_name = settings["name"];
  tutti::kserve::Repository repository(names, {&inference, &inference, &clock});
  tutti::telemetry::MetricsRegistry registry;
  tutti::telemetry::ServerMetrics metrics(registry);
  tutti::Logger log(tutti::LogLevel::kInfo);
  tutti::rpc::GrpcOptions options;
  options.port = 0;
  tutti::auth::testing::OneKey known(settings.contains("key") ? settings["key"] : "");
  options.has_keys = settings.contains("key");
  options.handlers = number("handlers", options.handlers);
  options.limits.connections = number("connections", options.limits.connections);
  options.limits.streams = number("streams", options.limits.streams);
  tutti::rpc::GrpcServer server(options,
                                {&inference, &known.authority(), &inference, &repository, &metrics,
                                 settings.contains("log") ? &log : nullptr, &clock});
  const tutti::Status status = server.Start();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  tutti::http::HttpOptions http_options;
  http_options.port = 0;
  http_options.has_keys = options.has_keys;
  tutti::http::HttpServer http(http_options, {.inference = &inference,
                                              .authority = &known.authority(),
                                              .health = &inference,
                                              .metrics = &registry,
                                              .serving = &metrics,
                                              .clock = &clock,
                                              .repository = &repository});
  if (const tutti::Status http_status = http.Start(); !http_status.ok()) {
    std::fprintf(stderr, "%s\n", http_status.ToString().c_str());
    return 1;
  }
  std::printf("grpc_host: ports %d %d\n", server.port(), http.port());
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  http.Drain(std::chrono::seconds(10));
  server.Drain(std::chrono::seconds(10));
  http.Stop();
  server.Stop();
  return 0;
}
