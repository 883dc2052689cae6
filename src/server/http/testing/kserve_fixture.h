// A server over the models that KServe's servers are tested with: kserve::testing::FakeModels() and
// the built-in test models; and its requests and answers with tensors behind their JSON.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "protocol/kserve/tensor.h"
#include "protocol/kserve/testing/fake_models.h"
#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {

class KserveServerTest : public ServerTest {
 protected:
  api::Inference& inference() override { return models_; }
  const api::HealthProbe& health() override { return models_; }
  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
  }

  static boost::json::value Json(const RawResponse& response) {
    EXPECT_EQ(response.Header("content-type"), "application/json") << response.head;
    return boost::json::parse(response.body);
  }
  boost::json::value GoodJson(const std::string& request) {
    const RawResponse response = Ask(request);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json(response);
  }
  // "400 text" of an error in KServe's form.
  std::string ErrorOf(const std::string& request) {
    const RawResponse response = Ask(request);
    const boost::json::value body = Json(response);
    EXPECT_EQ(body.as_object().size(), 1u) << response.body;
    return std::to_string(response.status) + " " + body.at("error").as_string().c_str();
  }

  // A body of `json` and what follows it.
  static std::string PostBinary(const std::string& path, const std::string& json,
                                const std::string& blobs, const std::string& fields = "") {
    return "POST " + path +
           " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
           "Inference-Header-Content-Length: " +
           std::to_string(json.size()) +
           "\r\nContent-Length: " + std::to_string(json.size() + blobs.size()) + "\r\n" + fields +
           "\r\n" + json + blobs;
  }

  // An answer with tensors behind its JSON.
  struct BinaryAnswer {
    boost::json::value json;
    std::vector<std::string> blobs;  // of the outputs with binary_data_size, in order
  };
  static BinaryAnswer Split(const RawResponse& response) { return Split(response, response.body); }
  static BinaryAnswer Split(const RawResponse& response, const std::string& body) {
    EXPECT_EQ(response.Header("content-type"), "application/octet-stream") << response.head;
    const size_t json = std::stoul(response.Header("inference-header-content-length"));
    BinaryAnswer answer{boost::json::parse(body.substr(0, json)), {}};
    size_t at = json;
    for (const boost::json::value& output : answer.json.at("outputs").as_array()) {
      const auto* parameters = output.as_object().if_contains("parameters");
      if (parameters == nullptr) continue;
      const auto size = static_cast<size_t>(parameters->at("binary_data_size").as_int64());
      answer.blobs.push_back(body.substr(at, size));
      at += size;
    }
    EXPECT_EQ(at, body.size()) << "bytes behind the last output";
    return answer;
  }

  static std::string Int32s(const std::vector<int32_t>& numbers) {
    std::string data;
    for (const int32_t number : numbers) kserve::AppendElement(number, &data);
    return data;
  }
  static std::string Texts(const std::vector<std::string>& texts) {
    std::string data;
    for (const std::string& text : texts) kserve::AppendBytesElement(text, &data);
    return data;
  }
  static std::vector<int32_t> Numbers(const boost::json::value& list) {
    std::vector<int32_t> numbers;
    for (const boost::json::value& each : list.as_array())
      numbers.push_back(each.to_number<int32_t>());
    return numbers;
  }

  FakeInference models_{kserve::testing::FakeModels()};
};

}  // namespace tutti::http::testing
