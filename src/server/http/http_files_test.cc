#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "protocol/json/json.h"
#include "server/http/testing/server_fixture.h"
#include "services/responses/testing/responses_fixture.h"

namespace tutti::http {
namespace {

using responses::testing::TemporaryFolder;
using testing::RawClient;
using testing::RawResponse;
using testing::ServerTest;

class HttpFilesTest : public ServerTest {
 protected:
  void SetUp() override { files_options_.folder = folder_.path() + "/files"; }

  static std::string Part(const std::string& disposition, const std::string& value) {
    return "--b\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + value + "\r\n";
  }
  static std::string Form(const std::string& content, const std::string& more = "") {
    return Part("name=purpose", "batch") + more + Part("name=file; filename=in.jsonl", content) +
           "--b--\r\n";
  }
  static std::string Head(size_t length, const std::string& fields = "") {
    return "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; "
           "boundary=b\r\nContent-Length: " +
           std::to_string(length) + "\r\n" + fields + "\r\n";
  }
  RawResponse Upload(const std::string& form, const std::string& fields = "") {
    return Ask(Head(form.size(), fields) + form);
  }
  static std::string IdOf(const RawResponse& response) {
    const auto document = protocol::ParseJson(response.body);
    if (!document.ok() || !document->root().is_object()) return "";
    const protocol::Json* id = document->root().get_object().if_contains("id");
    return id == nullptr ? "" : std::string(protocol::TextOf(*id));
  }
  std::vector<std::string> OnDisk() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(files_options_.folder))
      names.push_back(entry.path().filename().string());
    return names;
  }
  bool NothingIsLeft() {
    return Eventually([this] { return OnDisk().empty(); });
  }

  TemporaryFolder folder_;
};

TEST_F(HttpFilesTest, AFileIsUploadedListedReadAndDeleted) {
  StartServer();
  std::string content;
  for (int i = 0; i < 100'000; ++i) content += "line " + std::to_string(i) + "\n";
  const RawResponse made = Upload(Form(content));
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string id = IdOf(made);
  EXPECT_TRUE(id.starts_with("file-")) << made.body;
  EXPECT_NE(made.body.find("\"bytes\":" + std::to_string(content.size())), std::string::npos);
  EXPECT_NE(made.body.find("\"filename\":\"in.jsonl\",\"purpose\":\"batch\""), std::string::npos);
  EXPECT_EQ(OnDisk(), std::vector<std::string>{id});

  EXPECT_EQ(Ask(Get("/v1/files/" + id)).body, made.body);
  const RawResponse list = Ask(Get("/v1/files?purpose=batch&limit=1"));
  EXPECT_NE(list.body.find(made.body), std::string::npos) << list.body;
  EXPECT_NE(list.body.find("\"has_more\":false"), std::string::npos) << list.body;
  EXPECT_EQ(Ask(Get("/v1/files?purpose=batch_output")).body.find(id), std::string::npos);
  const RawResponse read = Ask(Get("/v1/files/" + id + "/content"));
  EXPECT_EQ(read.status, 200);
  EXPECT_EQ(read.Header("content-type"), "application/octet-stream");
  EXPECT_TRUE(read.body == content) << read.body.size();
  const RawResponse head =
      Ask("HEAD /v1/files/" + id + "/content HTTP/1.1\r\nHost: localhost\r\n\r\n",
          /*head_only=*/true);
  EXPECT_EQ(head.status, 200);

  const RawResponse gone = Ask("DELETE /v1/files/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(gone.body, "{\"id\":\"" + id + "\",\"object\":\"file\",\"deleted\":true}");
  EXPECT_TRUE(NothingIsLeft());
  for (const char* path : {"", "/content"})
    EXPECT_EQ(Ask(Get("/v1/files/" + id + path)).status, 404);
}

TEST_F(HttpFilesTest, ChunkedAndExpectedUploadsAreTaken) {
  StartServer();
  const std::string form = Form("chunked\n");
  std::string chunks;
  for (size_t at = 0; at < form.size(); at += 7) {
    const std::string piece = form.substr(at, 7);
    chunks += "0000" + std::to_string(piece.size()) + "\r\n" + piece + "\r\n";
  }
  const RawResponse made =
      Ask("POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; "
          "boundary=\"b\"\r\nTransfer-Encoding: chunked\r\n\r\n" +
          chunks + "0\r\n\r\n");
  ASSERT_EQ(made.status, 200) << made.body;
  EXPECT_EQ(Ask(Get("/v1/files/" + IdOf(made) + "/content")).body, "chunked\n");

  RawClient client(port());
  ASSERT_TRUE(client.Send(Head(form.size(), "Expect: 100-continue\r\n")));
  ASSERT_TRUE(client.WaitFor("HTTP/1.1 100 Continue\r\n\r\n"));
  ASSERT_TRUE(client.Send(form));
  EXPECT_EQ(client.Read().status, 200);
  // The connection can be reused.
  ASSERT_TRUE(client.Send(Get("/v1/files")));
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(HttpFilesTest, AFileMayBeLargerThanWhatTheServerHoldsInMemory) {
  HttpOptions options;
  options.limits.held_bytes = 1 << 20;
  options.limits.framing.body_bytes = 64 << 10;
  StartServer(options);
  const std::string content(8 << 20, 'x');
  const RawResponse made = Upload(Form(content));
  ASSERT_EQ(made.status, 200) << made.body;
  EXPECT_TRUE(Ask(Get("/v1/files/" + IdOf(made) + "/content")).body == content);
  EXPECT_EQ(Ask(Post("/v1/chat/completions", content.substr(0, 100'000))).status, 413)
      << "other routes as before";
}

TEST_F(HttpFilesTest, WhatIsTooLargeIsRefusedEarlyAndLeavesNothing) {
  files_options_.limits.file_bytes = 100'000;
  HttpOptions options;
  options.limits.upload_bytes = 200'000;
  options.limits.framing.body_bytes = 1000;
  StartServer(options);
  RawClient announced(port());
  ASSERT_TRUE(announced.Send(Head(200'001)));
  EXPECT_EQ(announced.Read().status, 413);
  RawClient chunked(port());
  ASSERT_TRUE(chunked.Send(
      "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; "
      "boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n30d41\r\n"));
  EXPECT_EQ(chunked.Read().status, 413);
  EXPECT_EQ(CodeOf(Upload(Form(std::string(100'001, 'x')))), "request_too_large");
  EXPECT_EQ(Upload(Form(std::string(100'000, 'x'))).status, 200);
  EXPECT_TRUE(Eventually([this] { return OnDisk().size() == 1; }));
}

TEST_F(HttpFilesTest, HostileFormsAreRefusedAndLeaveNothing) {
  StartServer();
  const std::string file = Part("name=file; filename=a", "data");
  const std::string purpose = Part("name=purpose", "batch");
  struct Case {
    std::string form, code;
  };
  const std::vector<Case> cases = {
      {"", "invalid_value"},
      {file + purpose, "invalid_value"},  // without its last boundary
      {purpose + "--b--", "missing_required_parameter"},
      {file + "--b--", "missing_required_parameter"},
      {Part("name=purpose", "vision") + file + "--b--", "unsupported_parameter"},
      {Part("name=purpose", "nothing") + file + "--b--", "invalid_value"},
      {purpose + file + file + "--b--", "invalid_value"},
      {purpose + purpose + file + "--b--", "invalid_value"},
      {Part("name=purpose", std::string(2000, 'x')) + file + "--b--", "invalid_value"},
      {purpose + "--b\r\nX: " + std::string(10'000, 'x') + "\r\n\r\n--b--", "invalid_value"},
      {std::string(100'000, '-'), "invalid_value"},
      {purpose + Part("name=\"expires_after[seconds]\"", "1") + file + "--b--", "invalid_value"},
      {"{\"purpose\":\"batch\"}", "invalid_value"},
  };
  for (const Case& each : cases) {
    const RawResponse refused = Upload(each.form);
    EXPECT_EQ(refused.status, 400) << each.form.substr(0, 200);
    EXPECT_EQ(CodeOf(refused), each.code) << each.form.substr(0, 200);
  }
  for (const char* type : {"multipart/form-data", "multipart/form-data; boundary=\"\""}) {
    EXPECT_EQ(Ask("POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
                  std::string(type) + "\r\nContent-Length: 0\r\n\r\n")
                  .status,
              400);
  }
  EXPECT_EQ(Ask(Post("/v1/files", "{}")).status, 415);
  EXPECT_TRUE(NothingIsLeft());
  EXPECT_EQ(Ask(Get("/v1/files?purpose=vision")).status, 400);
  EXPECT_EQ(Ask(Get("/v1/files?after=file-1")).status, 404);
  EXPECT_EQ(Ask(Get("/v1/files/..%2F..%2Ftutti.db/content")).status, 404);
}

TEST_F(HttpFilesTest, AConnectionThatIsCutLeavesNothing) {
  StartServer();
  const std::string form = Form(std::string(300'000, 'x'));
  for (const size_t sent : {size_t{10}, size_t{200}, form.size() / 2, form.size() - 1}) {
    RawClient client(port());
    ASSERT_TRUE(client.Send(Head(form.size()) + form.substr(0, sent)));
    if (sent > 1000) {
      EXPECT_TRUE(Eventually([this] { return OnDisk().size() == 1; }));
    }
    client.Close();
    EXPECT_TRUE(NothingIsLeft()) << sent;
  }
  EXPECT_TRUE(Eventually([this] { return server_->active_requests() == 0; }));
  EXPECT_EQ(Ask(Get("/v1/files")).body.find("file-"), std::string::npos);
}

TEST_F(HttpFilesTest, AKeyIsAskedForBeforeTheBody) {
  HttpOptions options;
  options.api_key = "secret-key-of-this-test";
  StartServer(options);
  RawClient client(port());
  ASSERT_TRUE(client.Send(Head(100'000'000, "Expect: 100-continue\r\n")));
  EXPECT_EQ(client.Read().status, 401);
}

TEST_F(HttpFilesTest, WithoutAStoreThereAreNone) {
  has_services_ = false;
  StartServer();
  EXPECT_EQ(CodeOf(Ask(Get("/v1/files"))), "not_implemented");
  EXPECT_EQ(CodeOf(Upload(Form("x"))), "not_implemented");
}

}  // namespace
}  // namespace tutti::http
