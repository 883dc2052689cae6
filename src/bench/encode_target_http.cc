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
#include "client/served_models.h"

namespace tutti::bench {
namespace {

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
    if (answer.status != 200) return client::AnswerError(answer.status, answer.body);
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
    const boost::json::value* read = json.find_pointer("/usage/prompt_tokens", failed);
    if (read != nullptr && read->is_int64()) reply.tokens = read->get_int64();
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
  HttpTarget(client::ModelServer at, std::string model)
      : at_(std::move(at)),
        model_(std::move(model)),
        summary_(model_ + " at http://" + at_.server.host + ":" + at_.server.port) {}

  Result<std::unique_ptr<EncodeClient>> Connect() override {
    ASSIGN_OR_RETURN(client::HttpConnection connection,
                     client::HttpConnection::Open(at_.server, at_.api_key, kEncodePatience));
    return std::unique_ptr<EncodeClient>(
        std::make_unique<HttpEncodeClient>(std::move(connection), model_));
  }

  Result<api::ModelStatistics> Statistics() override {
    ASSIGN_OR_RETURN(const std::string text,
                     client::Get(at_.server, "/metrics", at_.api_key, kEncodePatience));
    const std::string label = "model=\"" + model_ + "\"";
    api::ModelStatistics statistics;
    statistics.executions =
        static_cast<uint64_t>(MetricOf(text, "tutti_encode_batch_items_count", label));
    statistics.items = static_cast<uint64_t>(MetricOf(text, "tutti_encode_items_total", label));
    statistics.busy = FromSeconds(MetricOf(text, "tutti_engine_busy_seconds_total", label));
    return statistics;
  }
  const std::string& summary() const override { return summary_; }
  Status Explain(Status failure) override {
    return client::Explained(at_, model_, "embed", std::move(failure));
  }

 private:
  const client::ModelServer at_;
  const std::string model_, summary_;
};

}  // namespace

Result<std::unique_ptr<EncodeTarget>> HttpEncodeTarget(const client::Server& server,
                                                       const std::string& model,
                                                       const std::string& api_key) {
  client::ModelServer at{server, api_key, kEncodePatience};
  ASSIGN_OR_RETURN(std::string name, client::ChooseModel(at, model, "embed"));
  return std::unique_ptr<EncodeTarget>(
      std::make_unique<HttpTarget>(std::move(at), std::move(name)));
}

}  // namespace tutti::bench
