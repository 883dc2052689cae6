#include "server/http/connection/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ServerTest, AChatRequestIsAnsweredInOneObject) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"Hello", " there"});
    return OkStatus();
  };
  StartServer();
  const RawResponse response = Ask(Post("/v1/chat/completions", kChatBody));
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_THAT(response.body, HasSubstr(R"("content":"Hello there")"));
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"stop")"));
  EXPECT_THAT(response.body,
              HasSubstr(R"("prompt_tokens":3,"completion_tokens":2,"total_tokens":5)"));
  EXPECT_NE(response.Header("x-request-id"), "");
}

TEST_F(ServerTest, AStreamShowsEachTokenWhenItComes) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/v1/chat/completions", kChatStreamBody));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  generation->Started(3);
  generation->Wake();
  EXPECT_FALSE(client.Fill(100)) << "nothing is said before the first token: " << client.buffer();
  generation->Token("He");
  generation->Wake();
  EXPECT_TRUE(client.WaitFor(R"("delta":{"role":"assistant","content":"He"})")) << client.buffer();
  generation->Token("llo");
  generation->Wake();
  EXPECT_TRUE(client.WaitFor(R"("delta":{"content":"llo"})"));
  generation->ChoiceEnd();
  generation->End();
  generation->Wake();
  const RawResponse response = client.Read();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.Header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n")) << response.body;
}

}  // namespace
}  // namespace tutti::http::testing
