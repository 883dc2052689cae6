#include <openssl/evp.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "bench/encode_target.h"
#include "client/http_connection.h"

namespace tutti::bench {
namespace {

constexpr std::chrono::milliseconds kPatience{60'000};

Status BadAnswer(const std::string& what) { return Internal("the server's answer: " + what); }

// A float32 array in base64, appended to `out`.
Status DecodeFloats(std::string_view text, std::vector<float>& out) {
  std::vector<unsigned char> bytes(text.size() / 4 * 3 + 3);
  const int decoded =
      EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(text.data()),
                      static_cast<int>(std::min<size_t>(text.size(), 1 << 30)));
  const auto padding = static_cast<int>(std::count(text.begin(), text.end(), '='));
  if (decoded < padding || (decoded - padding) % static_cast<int>(sizeof(float)) != 0)
    return BadAnswer("a vector that is no array of floats in base64");
  const auto size = static_cast<size_t>(decoded - padding);
  const size_t before = out.size();
  out.resize(before + size / sizeof(float));
  std::memcpy(out.data() + before, bytes.data(), size);
  return OkStatus();
}

class HttpEncodeClient final : public EncodeClient {
 public:
  HttpEncodeClient(client::HttpConnection connection, std::string model)
      : connection_(std::move(connection)), model_(std::move(model)) {}

  Result<EncodeReply> Encode(const std::vector<std::string>& texts) override {
    boost::json::object body{{"model", model_}, {"encoding_format", "base64"}};
    body["input"] = boost::json::array(texts.begin(), texts.end());
    ASSIGN_OR_RETURN(const client::HttpConnection::Answer answer,
                     connection_.Post("/v1/embeddings", boost::json::serialize(body)));
    if (answer.status != 200)
      return Unavailable("http_status", "HTTP " + std::to_string(answer.status) + " " +
                                            answer.body.substr(0, 300));
    boost::system::error_code failed;
    const boost::json::value json = boost::json::parse(answer.body, failed);
    const boost::json::value* data = failed ? nullptr : json.find_pointer("/data", failed);
    if (failed || data == nullptr || !data->is_array() || data->get_array().size() != texts.size())
      return BadAnswer("not one vector for each text");
    EncodeReply reply;
    for (const boost::json::value& item : data->get_array()) {
      const boost::json::value* vector = item.find_pointer("/embedding", failed);
      if (failed || vector == nullptr || !vector->is_string()) return BadAnswer("no vector");
      const boost::json::string& text = vector->get_string();
      RETURN_IF_ERROR(DecodeFloats({text.data(), text.size()}, reply.values));
    }
    reply.width = static_cast<int>(reply.values.size() / texts.size());
    return reply;
  }

 private:
  client::HttpConnection connection_;
  const std::string model_;
};

// The value of a metric's series that has `label`, 0 where it is not there.
double MetricOf(std::string_view exposition, std::string_view name, std::string_view label) {
  size_t at = 0;
  while ((at = exposition.find(name, at)) != std::string_view::npos) {
    const size_t end = std::min(exposition.find('\n', at), exposition.size());
    const std::string_view line = exposition.substr(at, end - at);
    const bool begins = at == 0 || exposition[at - 1] == '\n';
    at = end;
    if (!begins || line.size() <= name.size() || line[name.size()] != '{') continue;
    if (line.find(label) == std::string_view::npos) continue;
    const std::string_view number = line.substr(line.rfind(' ') + 1);
    double value = 0;
    std::from_chars(number.data(), number.data() + number.size(), value);
    return value;
  }
  return 0;
}

class HttpTarget final : public EncodeTarget {
 public:
  HttpTarget(client::Server server, std::string model, std::string api_key)
      : server_(std::move(server)),
        model_(std::move(model)),
        api_key_(std::move(api_key)),
        summary_(model_ + " at http://" + server_.host + ":" + server_.port) {}

  Result<std::unique_ptr<EncodeClient>> Connect() override {
    ASSIGN_OR_RETURN(client::HttpConnection connection,
                     client::HttpConnection::Open(server_, api_key_, kPatience));
    return std::unique_ptr<EncodeClient>(
        std::make_unique<HttpEncodeClient>(std::move(connection), model_));
  }

  Result<api::ModelStatistics> Statistics() override {
    ASSIGN_OR_RETURN(const std::string text, client::Get(server_, "/metrics", api_key_, kPatience));
    const std::string label = "model=\"" + model_ + "\"";
    api::ModelStatistics statistics;
    statistics.executions =
        static_cast<uint64_t>(MetricOf(text, "tutti_encode_batch_items_count", label));
    statistics.items = static_cast<uint64_t>(MetricOf(text, "tutti_encode_items_total", label));
    statistics.busy = FromSeconds(MetricOf(text, "tutti_engine_busy_seconds_total", label));
    return statistics;
  }
  const std::string& summary() const override { return summary_; }

 private:
  const client::Server server_;
  const std::string model_, api_key_, summary_;
};

Result<std::string> FirstThatEmbeds(const client::Server& server, const std::string& api_key) {
  ASSIGN_OR_RETURN(const std::string text, client::Get(server, "/v1/models", api_key, kPatience));
  boost::system::error_code failed;
  const boost::json::value json = boost::json::parse(text, failed);
  const boost::json::value* data = failed ? nullptr : json.find_pointer("/data", failed);
  if (failed || data == nullptr || !data->is_array()) return BadAnswer("no list of models");
  for (const boost::json::value& model : data->get_array()) {
    const boost::json::value* tasks = model.find_pointer("/tasks", failed);
    const boost::json::value* id = model.find_pointer("/id", failed);
    if (tasks == nullptr || id == nullptr || !tasks->is_array() || !id->is_string()) continue;
    for (const boost::json::value& task : tasks->get_array())
      if (task == "embed") return std::string(id->get_string());
  }
  return NotFound("model_not_found", "the server has no model that embeds");
}

}  // namespace

Result<std::unique_ptr<EncodeTarget>> HttpEncodeTarget(const client::Server& server,
                                                       const std::string& model,
                                                       const std::string& api_key) {
  std::string name = model;
  if (name.empty()) {
    ASSIGN_OR_RETURN(name, FirstThatEmbeds(server, api_key));
  }
  return std::unique_ptr<EncodeTarget>(
      std::make_unique<HttpTarget>(server, std::move(name), api_key));
}

}  // namespace tutti::bench
