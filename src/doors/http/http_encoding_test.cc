// The routes of encoders, over a fake that answers with vectors a test can check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "doors/http/testing/door_fixture.h"

namespace tutti::http {
namespace {

using namespace testing;  // NOLINT
using ::testing::HasSubstr;
namespace json = boost::json;

class EncodingTest : public DoorTest {
 protected:
  json::value Json(const RawResponse& response) {
    EXPECT_EQ(response.Header("content-type"), "application/json");
    return json::parse(response.body);
  }
  static std::vector<float> Floats(const json::value& array) {
    std::vector<float> out;
    for (const json::value& number : array.as_array()) out.push_back(number.to_number<float>());
    return out;
  }
};

TEST_F(EncodingTest, EmbeddingsComeInTheOrderOfTheirInputs) {
  StartDoor();
  const RawResponse response = Ask(
      Post("/v1/embeddings", R"({"model":"fake-embed","input":["one","two","three"],"odd":1})"));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.Header("x-tutti-ignored"), "odd");
  const json::value body = Json(response);
  EXPECT_EQ(body.at("object").as_string(), "list");
  EXPECT_EQ(body.at("model").as_string(), "fake-embed");
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 3 + 3 + 5 + 3 * 2);
  EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(), 17);
  const char* const texts[] = {"one", "two", "three"};
  ASSERT_EQ(body.at("data").as_array().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const json::value& item = body.at("data").as_array()[i];
    EXPECT_EQ(item.at("index").as_int64(), static_cast<int64_t>(i));
    EXPECT_EQ(item.at("object").as_string(), "embedding");
    EXPECT_EQ(Floats(item.at("embedding")), FakeRow(texts[i], 5)) << "to the last bit";
  }
}

}  // namespace
}  // namespace tutti::http
