#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "protocol/json/json.h"
#include "server/http/testing/server_fixture.h"

namespace tutti::http {
namespace {

using testing::RawResponse;
using testing::ServerTest;

class HttpBatchesTest : public ServerTest {
 protected:
  static std::string Member(const RawResponse& response, const std::string& name) {
    const auto document = protocol::ParseJson(response.body);
    EXPECT_TRUE(document.ok()) << response.body;
    if (!document.ok() || !document->root().is_object()) return "";
    const protocol::Json* value = document->root().get_object().if_contains(name);
    return value != nullptr && value->is_string() ? std::string(protocol::TextOf(*value)) : "";
  }
  std::string Upload(const std::string& content) {
    const std::string form =
        "--b\r\nContent-Disposition: form-data; name=purpose\r\n\r\nbatch\r\n--b\r\n"
        "Content-Disposition: form-data; name=file; filename=in\r\n\r\n" +
        content + "\r\n--b--";
    return Member(Ask("POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                      "multipart/form-data; boundary=b\r\nContent-Length: " +
                      std::to_string(form.size()) + "\r\n\r\n" + form),
                  "id");
  }
  static std::string Body(const std::string& file, const std::string& more = "") {
    return R"({"input_file_id":")" + file +
           R"(","endpoint":"/v1/chat/completions","completion_window":"24h")" + more + "}";
  }
  std::string Line(const std::string& id) const {
    return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/chat/completions","body":)" +
           kChatBody + "}\n";
  }
  bool Becomes(const std::string& id, const std::string& status) {
    return Eventually([&] { return Member(Ask(Get("/v1/batches/" + id)), "status") == status; });
  }
};

TEST_F(HttpBatchesTest, ABatchIsMadeRunAndDownloaded) {
  StartServer();
  const RawResponse made =
      Ask(Post("/v1/batches", Body(Upload(Line("a")), R"(,"metadata":{"k":"v"},"unknown":1)")));
  ASSERT_EQ(made.status, 200) << made.body;
  EXPECT_EQ(made.Header("x-tutti-ignored"), "unknown");
  EXPECT_EQ(Member(made, "status"), "validating");
  const std::string id = Member(made, "id");
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  EXPECT_EQ(generation->request.priority, api::Priority::kBatch);
  generation->Answer({"Hello"});
  ASSERT_TRUE(Becomes(id, "completed"));
  const RawResponse done = Ask(Get("/v1/batches/" + id));
  EXPECT_NE(done.body.find(R"("request_counts":{"total":1,"completed":1,"failed":0})"),
            std::string::npos)
      << done.body;
  EXPECT_NE(done.body.find(R"("metadata":{"k":"v"})"), std::string::npos) << done.body;
  const RawResponse output = Ask(Get("/v1/files/" + Member(done, "output_file_id") + "/content"));
  EXPECT_NE(output.body.find(R"("custom_id":"a","response":{"status_code":200)"), std::string::npos)
      << output.body;
  EXPECT_NE(output.body.find(R"("content":"Hello")"), std::string::npos) << output.body;
  EXPECT_NE(Ask(Get("/v1/batches?limit=1")).body.find(id), std::string::npos);
  EXPECT_EQ(CodeOf(Ask(Post("/v1/batches/" + id + "/cancel", ""))), "already_finished");
}

TEST_F(HttpBatchesTest, ALineOfResponsesIsAResponseThatIsThere) {
  StartServer();
  const std::string file =
      Upload(R"({"custom_id":"a","method":"POST","url":"/v1/responses","body":)"
             R"({"model":"fake","input":"hi"}})"
             "\n");
  const std::string id = Member(
      Ask(Post("/v1/batches", R"({"input_file_id":")" + file +
                                  R"(","endpoint":"/v1/responses","completion_window":"24h"})")),
      "id");
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  EXPECT_EQ(generation->request.route, "responses");
  generation->Answer({"Hel", "lo"});
  ASSERT_TRUE(Becomes(id, "completed"));
  const RawResponse output =
      Ask(Get("/v1/files/" + Member(Ask(Get("/v1/batches/" + id)), "output_file_id") + "/content"));
  const auto line = protocol::ParseJson(output.body);
  ASSERT_TRUE(line.ok()) << output.body;
  const protocol::Json& body = line->root().get_object().at("response").get_object().at("body");
  const std::string response(protocol::TextOf(body.get_object().at("id")));
  EXPECT_EQ(Ask(Get("/v1/responses/" + response)).body, protocol::PrintJson(body));
  EXPECT_NE(Ask(Get("/v1/responses/" + response + "/input_items")).body.find(R"("text":"hi")"),
            std::string::npos);
  const RawResponse events = Ask(Get("/v1/responses/" + response + "?stream=true"));
  EXPECT_NE(events.body.find(R"("delta":"Hel")"), std::string::npos) << events.body;
  EXPECT_NE(events.body.find("response.completed"), std::string::npos) << events.body;
  EXPECT_EQ(Ask("DELETE /v1/responses/" + response + " HTTP/1.1\r\nHost: localhost\r\n\r\n").status,
            200);
  EXPECT_EQ(Ask(Get("/v1/responses/" + response)).status, 404);
}

TEST_F(HttpBatchesTest, ACancelEndsIt) {
  StartServer();
  const std::string id =
      Member(Ask(Post("/v1/batches", Body(Upload(Line("a") + Line("b"))))), "id");
  ASSERT_NE(inference_.Generation(1), nullptr);
  EXPECT_EQ(Member(Ask(Post("/v1/batches/" + id + "/cancel", "")), "status"), "cancelling");
  for (int i = 0; i < 2; ++i) {
    inference_.Generation(i)->End({StatusCode::kCancelled, "cancelled", "cancelled"});
    inference_.Generation(i)->Wake();
  }
  EXPECT_TRUE(Becomes(id, "cancelled"));
}

TEST_F(HttpBatchesTest, WhatIsNoBatchIsRefused) {
  StartServer();
  const std::string file = Upload(Line("a"));
  EXPECT_EQ(CodeOf(Ask(Post("/v1/batches", "{"))), "invalid_json");
  EXPECT_EQ(CodeOf(Ask(Post("/v1/batches", "{}"))), "missing_required_parameter");
  EXPECT_EQ(CodeOf(Ask(Post("/v1/batches", Body("file-0")))), "not_found");
  EXPECT_EQ(Ask(Post("/v1/batches", Body(file, R"(,"metadata":7)"))).status, 400);
  EXPECT_EQ(
      CodeOf(Ask(Post("/v1/batches",
                      R"({"input_file_id":"f","endpoint":"/v1/moderations","completion_window":)"
                      R"("24h"})"))),
      "invalid_value");
  EXPECT_EQ(Ask(Get("/v1/batches/batch_0")).status, 404);
  EXPECT_EQ(Ask(Post("/v1/batches/batch_0/cancel", "")).status, 404);
  EXPECT_EQ(Ask(Get("/v1/batches?limit=0")).status, 400);
  EXPECT_EQ(Ask(Get("/v1/batches?after=batch_0")).status, 404);
  EXPECT_EQ(inference_.generations(), 0u);
}

TEST_F(HttpBatchesTest, WithoutAStoreThereAreNone) {
  has_services_ = false;
  StartServer();
  EXPECT_EQ(CodeOf(Ask(Get("/v1/batches"))), "not_implemented");
}

}  // namespace
}  // namespace tutti::http
