// The page: who gets it, with which fields, and that its files are what a strict policy allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "protocol/http1/compression.h"
#include "server/http/testing/server_fixture.h"
#include "server/http/web/web_files.h"

namespace tutti::http::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kBrowser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

class WebTest : public ServerTest {
 protected:
  void Start(WebMode mode, const std::string& base = "", const std::string& key = "") {
    HttpOptions options;
    options.web = mode;
    options.web_base = base;
    options.api_key = key;
    StartServer(options);
  }
};

TEST_F(WebTest, BrowsersGetThePageAndOthersThatAServerIsThere) {
  Start(WebMode::kOn);
  for (const char* fields : {"", "Accept: */*\r\n", "Accept: application/json\r\n"})
    EXPECT_EQ(Ask(Get("/", fields)).body, "Ollama is running") << fields;
  const RawResponse page = Ask(Get("/", kBrowser));
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.Header("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.Header("vary"), HasSubstr("Accept"));
  EXPECT_THAT(page.body, HasSubstr("web/app.js"));
  EXPECT_EQ(Ask(Get("/web/index.html")).body, page.body);
}

TEST_F(WebTest, EachFileHasItsTypeItsTagAndThePolicy) {
  Start(WebMode::kOn);
  const std::set<std::string> types = {"text/html; charset=utf-8", "text/javascript; charset=utf-8",
                                       "text/css; charset=utf-8", "image/svg+xml"};
  std::set<std::string> seen;
  ASSERT_GE(WebFiles().size(), 20u);
  for (const WebFile& file : WebFiles()) {
    const std::string path = "/web/" + std::string(file.path);
    const RawResponse plain = Ask(Get(path));
    EXPECT_EQ(plain.status, 200) << path;
    EXPECT_EQ(plain.body.size(), file.size) << path;
    EXPECT_EQ(plain.Header("content-encoding"), "") << path;
    const std::string type(plain.Header("content-type"));
    EXPECT_TRUE(types.contains(type)) << path << " " << type;
    seen.insert(type);
    EXPECT_EQ(plain.Header("x-content-type-options"), "nosniff");
    const std::string policy(plain.Header("content-security-policy"));
    EXPECT_THAT(policy, HasSubstr("default-src 'none'; script-src 'self'; style-src 'self'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_THAT(policy, HasSubstr("img-src 'self';"));
    const RawResponse zipped = Ask(Get(path, "Accept-Encoding: gzip, br\r\n"));
    EXPECT_EQ(zipped.Header("content-encoding"), "gzip");
    EXPECT_NE(zipped.Header("etag"), plain.Header("etag")) << "other bytes, another strong tag";
    const Result<std::string> inflated =
        protocol::Inflate(protocol::Coding::kGzip, zipped.body, file.size);
    ASSERT_TRUE(inflated.ok()) << path;
    EXPECT_EQ(*inflated, plain.body) << path;
    EXPECT_EQ(Ask(Get(path, "Accept-Encoding: gzip;q=0\r\n")).body, plain.body);
  }
  EXPECT_EQ(seen, types);
}

TEST_F(WebTest, AFileThatTheBrowserHasIsNotSentAgain) {
  Start(WebMode::kOn);
  const std::string tag(Ask(Get("/web/app.js")).Header("etag"));
  ASSERT_GE(tag.size(), 34u);
  for (const std::string& known : {tag, "W/" + tag, "\"x\", " + tag, std::string("*")}) {
    const RawResponse same = Ask(Get("/web/app.js", "If-None-Match: " + known + "\r\n"));
    EXPECT_EQ(same.status, 304) << known;
    EXPECT_EQ(same.body, "");
    EXPECT_EQ(same.Header("etag"), tag);
  }
  EXPECT_EQ(Ask(Get("/web/app.js", "If-None-Match: \"x\"\r\n")).status, 200);
}

TEST_F(WebTest, ATagHoldsForItsCodingOnly) {
  Start(WebMode::kOn);
  const std::string gzip = "Accept-Encoding: gzip\r\n";
  const std::string plain_tag(Ask(Get("/web/app.js")).Header("etag"));
  const std::string gzip_tag(Ask(Get("/web/app.js", gzip)).Header("etag"));
  const auto known = [](const std::string& tag) { return "If-None-Match: " + tag + "\r\n"; };
  EXPECT_EQ(Ask(Get("/web/app.js", gzip + known(gzip_tag))).status, 304);
  EXPECT_EQ(Ask(Get("/web/app.js", gzip + known(plain_tag))).status, 200);
  EXPECT_EQ(Ask(Get("/web/app.js", known(gzip_tag))).status, 200);
}

TEST_F(WebTest, OtherPathsAreNoFiles) {
  Start(WebMode::kOn);
  for (const char* path : {"/web/", "/web/none.js", "/web/views", "/web/../web/none",
                           "/web/%2e%2e/x", "/web/app.js%00", "/web/APP.JS", "/web//app.js"}) {
    const RawResponse response = Ask(Get(path));
    EXPECT_EQ(response.status, 404) << path << " " << response.body;
  }
  EXPECT_EQ(Ask(Post("/web/app.js", "{}")).status, 405);
}

TEST_F(WebTest, AServerWithoutThePageSaysHowToTurnItOn) {
  Start(WebMode::kOff);
  EXPECT_EQ(Ask(Get("/", kBrowser)).body, "Ollama is running");
  for (const char* path : {"/web/app.js", "/web/config"}) {
    const RawResponse response = Ask(Get(path));
    EXPECT_EQ(response.status, 404);
    EXPECT_THAT(response.body, HasSubstr("--web on"));
  }
}

TEST_F(WebTest, ThePageKnowsWhetherItNeedsAKey) {
  Start(WebMode::kOn);
  EXPECT_EQ(Ask(Get("/web/config")).body, R"({"mode":"on","keys":false})");
  server_.reset();
  Start(WebMode::kAdminOnly, "", "sk-test-0123456789");
  EXPECT_EQ(Ask(Get("/web/config")).body, R"({"mode":"admin-only","keys":true})");
}

TEST_F(WebTest, EveryRouteAnswersBelowTheBaseToo) {
  Start(WebMode::kOn, "/ai/tutti");
  const std::string page = Ask(Get("/", kBrowser)).body;
  EXPECT_EQ(Ask(Get("/ai/tutti/", kBrowser)).body, page);
  EXPECT_EQ(Ask(Get("/ai/tutti/web/app.js")).body, Ask(Get("/web/app.js")).body);
  EXPECT_EQ(Ask(Get("/ai/tutti/v1/models")).status, 200);
  EXPECT_EQ(Ask(Get("/ai/tutti/livez")).status, 200);
  EXPECT_EQ(Ask(Get("/ai/tutti/?x=1", kBrowser)).body, page);
  EXPECT_EQ(Ask(Get("/ai/tutti/v1/models?x=1")).status, 200);
  const RawResponse moved = Ask(Get("/ai/tutti", kBrowser));
  EXPECT_EQ(moved.status, 308) << "relative links need the slash";
  EXPECT_EQ(moved.Header("location"), "/ai/tutti/");
  for (const char* path :
       {"/ai/tuttix/livez", "/ai/livez", "/ai/tutti/ai/tutti/livez", "/ai/tutti/none"})
    EXPECT_EQ(Ask(Get(path)).status, 404) << path;
}

// R32: the page is small, and what it needs is in it.
TEST_F(WebTest, TheFilesAreSmallAndLoadNothingFromElsewhere) {
  size_t sum = 0;
  for (const WebFile& file : WebFiles()) {
    sum += file.length;
    const Result<std::string> text = Decompressed(file);
    ASSERT_TRUE(text.ok());
    if (file.path.ends_with(".html")) {
      EXPECT_THAT(*text, Not(HasSubstr("://"))) << file.path;
      EXPECT_THAT(*text, Not(HasSubstr(" style="))) << file.path;
      EXPECT_THAT(*text, Not(HasSubstr("<script>"))) << file.path;
      EXPECT_THAT(*text, Not(HasSubstr("<style"))) << file.path;
      EXPECT_THAT(*text, Not(::testing::ContainsRegex(" on[a-z]+="))) << file.path;
    }
    if (file.path.ends_with(".css")) {
      EXPECT_THAT(*text, Not(HasSubstr("@import"))) << file.path;
      EXPECT_THAT(*text, Not(HasSubstr("url("))) << file.path;
    }
    if (file.path.ends_with(".js")) {
      EXPECT_THAT(*text, Not(::testing::ContainsRegex("(import|from) *\\(?['\"]https?:")))
          << file.path;
      EXPECT_THAT(*text, Not(HasSubstr("new Function("))) << file.path;
    }
  }
  EXPECT_LE(sum, 300u << 10);
  RecordProperty("compressed_bytes", static_cast<int>(sum));
}

}  // namespace
}  // namespace tutti::http::testing
