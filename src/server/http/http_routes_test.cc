// Routes, methods, keys, hosts, origins: the table of routes under default deny.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/connection/message_parser.h"
#include "server/http/router.h"
#include "server/http/testing/server_fixture.h"
#include "services/auth/grant.h"

namespace tutti::http::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kKey = "sk-test-0123456789";

class RoutesTest : public ServerTest {
 protected:
  static std::string PathOf(const Route& route) {
    std::string path(route.pattern);
    for (const std::string mark : {"{id}", "{part}"}) {
      for (size_t at = path.find(mark); at != std::string::npos; at = path.find(mark))
        path.replace(at, mark.size(), "fake");
    }
    return path;
  }
  static std::string Request(std::string_view method, const std::string& path,
                             const std::string& fields) {
    const bool body = method == "POST";
    return std::string(method) + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
           (body ? "Content-Length: 2\r\n\r\n{}" : "\r\n");
  }
  HttpOptions WithKey() {
    HttpOptions options;
    options.api_key = kKey;
    return options;
  }
  const std::string bearer_ = std::string("Authorization: Bearer ") + kKey + "\r\n";
};

TEST_F(RoutesTest, RefusesEveryRouteWithoutKeyExceptHealthProbes) {
  HttpOptions options = WithKey();
  options.web = WebMode::kOn;
  StartServer(options);
  const std::set<std::string> health = {
      "/livez",          "/healthz",         "/ping", "/readyz",     "/startupz", "/health",
      "/v2/health/live", "/v2/health/ready", "/",     "/web/config", "/web/fake"};
  const std::set<std::string> probes = {"/livez", "/readyz", "/health"};
  int refused = 0;
  for (const Route& route : Routes()) {
    const std::string path = PathOf(route);
    for (const char* method : {"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"}) {
      const bool open = (std::string(method) == "GET" && health.contains(path)) ||
                        ((std::string(method) == "HEAD" || std::string(method) == "OPTIONS") &&
                         probes.contains(path)) ||
                        (std::string(method) == "HEAD" && path == "/");
      // The files of the page, which hold no data of the server; "fake" is none of them.
      const int expected = path == "/web/fake" ? 404 : 200;
      for (const std::string& fields :
           {std::string(), std::string("Authorization: Bearer wrong\r\n")}) {
        RawClient client(port());
        client.Send(Request(method, path, fields));
        const RawResponse response = client.Read(std::string(method) == "HEAD");
        if (open) {
          EXPECT_TRUE(response.status == expected || response.status == 204)
              << method << " " << path << " " << response.status;
        } else {
          EXPECT_EQ(response.status, 401) << method << " " << path;
          ++refused;
        }
      }
      RawClient client(port());
      client.Send(Request(method, path, bearer_));
      EXPECT_NE(client.Read(std::string(method) == "HEAD").status, 401)
          << method << " " << path << " with the key";
    }
  }
  EXPECT_GT(refused, 400);
  EXPECT_EQ(Ask(Get("/nothing")).status, 401) << "also where there is no route";
  EXPECT_EQ(Ask(Get("/nothing", bearer_)).status, 404);
}

// The tenant determines the fair share and the part of the prefix cache, on every route with work.
TEST_F(RoutesTest, RequestsCarryTheTenantOfWhoAsks) {
  std::vector<std::string> tenants;
  inference_.on_generate = [&](const std::shared_ptr<FakeGeneration>& generation) {
    tenants.push_back(generation->request.caller->tenant);
    generation->AppendAnswer({"one"});
    return OkStatus();
  };
  inference_.on_encode = [&](const std::shared_ptr<FakeEncoding>& encoding) {
    tenants.push_back(encoding->request.caller->tenant);
    encoding->SetAnswer();
    return OkStatus();
  };
  StartServer(WithKey());
  auth::KeySpec spec{.name = "ci", .grant = {}, .expires_s = {}};
  spec.grant.tenant = "acme";
  const auto key = known_->accounts().CreateKey(spec, time(nullptr));
  ASSERT_TRUE(key.ok()) << key.status();
  for (const auto& [secret, tenant] :
       {std::pair{std::string(kKey), "default"}, std::pair{key->text, "acme"}}) {
    tenants.clear();
    const std::string fields = "Authorization: Bearer " + secret + "\r\n";
    for (const auto& [path, body] :
         {std::pair{"/v1/chat/completions", kChatBody},
          std::pair{"/v1/completions", std::string(R"({"model":"fake","prompt":"hi"})")},
          std::pair{"/v1/embeddings", std::string(R"({"model":"fake-embed","input":"hi"})")},
          std::pair{"/v2/models/fake/generate", std::string(R"({"text_input":"hi"})")},
          std::pair{"/v1/responses", std::string(R"({"model":"fake","input":"hi"})")}}) {
      const RawResponse response = Ask(Post(path, body, fields));
      EXPECT_EQ(response.status, 200) << path << response.body;
    }
    EXPECT_THAT(tenants, ::testing::AllOf(::testing::SizeIs(5), ::testing::Each(tenant)));
  }
}

TEST_F(RoutesTest, WhatIsAnotherTenantsIsNotFound) {
  inference_.on_generate = [&](const std::shared_ptr<FakeGeneration>& generation) {
    generation->AppendAnswer({"one"});
    return OkStatus();
  };
  StartServer(WithKey());
  auth::KeySpec spec{.name = "ci", .grant = {}, .expires_s = {}};
  spec.grant.tenant = "acme";
  const auto key = known_->accounts().CreateKey(spec, time(nullptr));
  ASSERT_TRUE(key.ok()) << key.status();
  const std::string theirs = "Authorization: Bearer " + key->text + "\r\n";
  const auto id_of = [](const RawResponse& made) {
    const size_t start = made.body.find("\"id\":\"") + 6;
    return made.body.substr(start, made.body.find('"', start) - start);
  };
  const std::string response =
      "/v1/responses/" +
      id_of(Ask(Post("/v1/responses", R"({"model":"fake","input":"hi"})", bearer_)));
  const std::string conversation =
      "/v1/conversations/" + id_of(Ask(Post("/v1/conversations", "{}", bearer_)));
  for (const std::string& path :
       {response, response + "/input_items", conversation, conversation + "/items"}) {
    EXPECT_EQ(Ask(Get(path, theirs)).status, 404) << path;
    EXPECT_EQ(Ask(Get(path, bearer_)).status, 200) << path;
  }
  EXPECT_EQ(Ask(Request("DELETE", response, theirs)).status, 404);
  EXPECT_EQ(Ask(Request("DELETE", conversation, theirs)).status, 404);
  EXPECT_EQ(Ask(Get(conversation, bearer_)).status, 200);
}

TEST_F(RoutesTest, AKeyWithoutTheScopeOfARouteIsRefusedThere) {
  StartServer(WithKey());
  auth::KeySpec spec{.name = "ci", .grant = {}, .expires_s = {}};
  spec.grant.scopes.routes = {auth::RouteClass::kEmbed};
  const auto key = known_->accounts().CreateKey(spec, time(nullptr));
  ASSERT_TRUE(key.ok()) << key.status();
  const std::string fields = "Authorization: Bearer " + key->text + "\r\n";
  for (const Route& route : Routes()) {
    const RawResponse response = Ask(Request(route.method, PathOf(route), fields));
    const bool may = route.rule.Has(auth::RouteClass::kEmbed) || route.open;
    EXPECT_EQ(response.status == 403, !may) << route.method << " " << route.pattern;
  }
  ASSERT_TRUE(known_->accounts().RevokeKeys("ci", time(nullptr)).ok());
  EXPECT_EQ(CodeOf(Ask(Get("/v1/models", fields))), "key_revoked");
}

TEST_F(RoutesTest, OperatorRoutesNeedAdminUnlessServerIsOpen) {
  std::vector<std::string> paths;
  for (const Route& route : Routes()) {
    // LiveTest has those that read, AdminTest the control requests.
    if (route.rule == auth::rules::kOperate && route.method != "GET" &&
        route.handler.needs != Needs::kOperate)
      paths.push_back(PathOf(route));
  }
  EXPECT_THAT(paths,
              ::testing::UnorderedElementsAre(
                  "/v1/models/load", "/v1/models/unload", "/models/load", "/models/unload",
                  "/v2/repository/models/fake/load", "/v2/repository/models/fake/unload",
                  "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/api/pull", "/api/copy",
                  "/api/delete", "/admin/reload", "/admin/requests/fake/cancel"));
  const auto ask = [&](const std::string& path, const std::string& fields) {
    return Ask(Request(path == "/api/delete" ? "DELETE" : "POST", path, fields));
  };
  // What they answer without a folder of adapters and a configuration file.
  const auto passed = [](const std::string& path) {
    if (path == "/admin/reload") return HasSubstr("cannot reload");
    if (path.starts_with("/admin/requests/")) return HasSubstr("no trace of this request");
    return HasSubstr(path.ends_with("_lora_adapter") ? "start with --lora-folder" : "model");
  };
  StartServer();
  for (const std::string& path : paths) EXPECT_THAT(ask(path, "").body, passed(path)) << path;
  server_.reset();
  StartServer(WithKey());
  auth::KeySpec spec{.name = "ops", .grant = {}, .expires_s = {}};
  spec.grant.scopes.routes.Add(auth::RouteClass::kAdmin);
  const auto key = known_->accounts().CreateKey(spec, time(nullptr));
  ASSERT_TRUE(key.ok()) << key.status();
  for (const std::string& path : paths) {
    const RawResponse refused = ask(path, bearer_);
    EXPECT_EQ(refused.status, 403) << path;
    EXPECT_THAT(refused.body, HasSubstr("needs the scope admin")) << path;
    EXPECT_THAT(ask(path, "Authorization: Bearer " + key->text + "\r\n").body, passed(path))
        << path;
  }
}

// A server that is embedded without a store must not access the missing services.
TEST_F(RoutesTest, ResponsesAndConversationsWithoutAStoreAreNotOffered) {
  has_services_ = false;
  StartServer();
  int asked = 0;
  for (const Route& route : Routes()) {
    if (!route.pattern.starts_with("/v1/responses") &&
        !route.pattern.starts_with("/v1/conversations"))
      continue;
    if (route.pattern.ends_with("/input_tokens")) continue;  // keeps nothing
    for (const std::string& body :
         {std::string("{}"), std::string(R"({"model":"fake","input":"hi"})")}) {
      const bool posts = route.method == "POST";
      const RawResponse response =
          Ask(posts ? Post(PathOf(route), body) : Request(route.method, PathOf(route), ""));
      EXPECT_EQ(response.status, 501) << route.method << " " << route.pattern;
      EXPECT_EQ(CodeOf(response), "not_implemented") << route.method << " " << route.pattern;
      ++asked;
    }
  }
  EXPECT_GE(asked, 30);
  EXPECT_EQ(Ask(Get("/livez")).status, 200);
}

TEST_F(RoutesTest, EveryWrongKeyGetsTheSameAnswer) {
  StartServer(WithKey());
  std::set<std::string> bodies;
  for (const std::string& fields :
       {std::string(), std::string("Authorization: Basic dXNlcjpwYXNz\r\n"),
        std::string("Authorization: Bearer\r\n"), std::string("Authorization: Bearer \r\n"),
        std::string("Authorization: \r\n"), std::string("Authorization: ") + kKey + "\r\n",
        bearer_ + bearer_, std::string("Authorization: Bearer ") + kKey + "x\r\n",
        std::string("Authorization: Bearer sk-test-012345678\r\n"),
        "Authorization: Bearer " + std::string(20'000, 'k') + "\r\n",
        std::string("Authorization: Bearer sk-test-\xc3\xa9\r\n"),
        std::string("Authorization: Bearer  ") + kKey + "\r\n",
        std::string("X-Api-Key: ") + kKey + "x\r\n", std::string("X-Api-Key: \r\n"),
        std::string("X-Api-Key: Bearer ") + kKey + "\r\n",
        // The server must not choose between two callers.
        bearer_ + "X-Api-Key: another\r\n",
        std::string("X-Api-Key: ") + kKey + "\r\nX-Api-Key: " + kKey + "\r\n"}) {
    const RawResponse response = Ask(Get("/v1/models", fields));
    EXPECT_EQ(response.status, 401) << fields.substr(0, 60);
    EXPECT_EQ(response.Header("www-authenticate"), "Bearer");
    bodies.insert(response.body);
  }
  EXPECT_EQ(bodies.size(), 1u);
  EXPECT_EQ(
      Ask("GET /v1/models?api_key=" + std::string(kKey) + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
          .status,
      401)
      << "a key in the URL is none";
  EXPECT_EQ(Ask(Get("/v1/models", bearer_)).status, 200);
  EXPECT_EQ(Ask(Get("/v1/models", std::string("authorization: bearer ") + kKey + "\r\n")).status,
            200)
      << "schemes have no case";
  EXPECT_EQ(Ask(Get("/v1/models", std::string("x-api-key: ") + kKey + "\r\n")).status, 200)
      << "as Anthropic's clients send it";
  EXPECT_EQ(Ask(Get("/v1/models", bearer_ + "x-api-key: " + kKey + "\r\n")).status, 200);
  EXPECT_EQ(lines_->Joined().find(kKey), std::string::npos);
}

TEST_F(RoutesTest, MethodsThatARouteDoesNotHaveAre405WithAllow) {
  StartServer();
  RawResponse response = Ask(Get("/v1/chat/completions"));
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.Header("allow"), "POST, OPTIONS");
  response = Ask(Request("DELETE", "/v1/models", ""));
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.Header("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(CodeOf(response), "method_not_allowed");
  EXPECT_EQ(Ask("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 405);
  EXPECT_EQ(Ask(Request("TRACE", "/livez", "")).status, 405);
  EXPECT_EQ(Ask(Request("BREW", "/livez", "")).status, 501);
  response = Ask(Request("OPTIONS", "/v1/models", ""));
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.Header("allow"), "GET, HEAD, OPTIONS");
}

TEST_F(RoutesTest, HeadHasTheHeadOfGet) {
  StartServer();
  const RawResponse get = Ask(Get("/version"));
  RawClient client(port());
  client.Send("HEAD /version HTTP/1.1\r\nHost: localhost\r\n\r\n" + Get("/version"));
  const RawResponse head = client.Read(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.Header("content-length"), get.Header("content-length"));
  EXPECT_EQ(client.Read().body, get.body) << "nothing of a body stood between";
}

TEST_F(RoutesTest, OnlyCanonicalPathsAreFound) {
  StartServer();
  for (const char* path : {"//livez",     "/./livez",
                           "/livez/",     "/x/../livez",
                           "/livez/.",    "/%6civez",
                           "/live%7A",    "/livez%00",
                           "/livez\\",    "/livez;a=b",
                           "/LIVEZ",      "/v1//models",
                           "/v1/models/", "/v1/%2e%2e/livez",
                           "/livez%",     "/livez%zz",
                           "/livez#x",    "*",
                           "livez",       "/v1/models/../models"}) {
    EXPECT_EQ(Ask("GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 404)
        << path;
  }
  EXPECT_EQ(Ask(Get("/livez?probe=1&x=%20")).status, 200);
  EXPECT_EQ(Ask("GET http://localhost/livez HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
  EXPECT_EQ(Ask("GET http://other/livez HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 400);
}

TEST_F(RoutesTest, ModelsAreListedAndFoundByNameAndAlias) {
  StartServer();
  EXPECT_THAT(Ask(Get("/v1/models")).body,
              HasSubstr(R"("id":"fake","object":"model","created":1700000000,"owned_by":"tutti")"));
  EXPECT_THAT(Ask(Get("/v1/models/fake")).body, HasSubstr(R"("max_model_len":128)"));
  EXPECT_THAT(Ask(Get("/v1/models/org/fake-1")).body, HasSubstr(R"("id":"org/fake-1")"));
  EXPECT_THAT(Ask(Get("/v1/models/org%2Ffake-1")).body, HasSubstr(R"("root":"fake")"));
  const RawResponse unknown = Ask(Get("/v1/models/nobody"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(CodeOf(unknown), "model_not_found");
}

TEST_F(RoutesTest, HealthTellsWhatTheProbeSays) {
  StartServer();
  for (const char* path : {"/livez", "/healthz", "/ping", "/readyz", "/startupz", "/health"})
    EXPECT_EQ(Ask(Get(path)).status, 200) << path;
  inference_.is_ready = false;
  EXPECT_EQ(Ask(Get("/livez")).status, 200);
  EXPECT_EQ(Ask(Get("/healthz")).status, 200);
  const RawResponse loading = Ask(Get("/readyz"));
  EXPECT_EQ(loading.status, 503);
  EXPECT_EQ(CodeOf(loading), "model_loading");
  EXPECT_NE(loading.Header("retry-after"), "");
  EXPECT_EQ(Ask(Get("/health")).status, 503);
  inference_.is_started = false;
  const RawResponse failed = Ask(Get("/startupz"));
  EXPECT_EQ(failed.status, 503);
  EXPECT_NE(failed.body.find("could not be loaded: why"), std::string::npos) << failed.body;
  inference_.is_live = false;
  EXPECT_EQ(Ask(Get("/livez")).status, 503);
  EXPECT_EQ(CodeOf(Ask(Get("/health"))), "engine_stalled");
}

TEST_F(RoutesTest, RoutesOfLaterReleasesSaySo) {
  StartServer();
  for (const char* path : {"/v1/responses/compact"}) {
    const RawResponse response = Ask(Post(path, "{}"));
    EXPECT_EQ(response.status, 501) << path;
    EXPECT_EQ(CodeOf(response), "not_implemented");
    EXPECT_EQ(response.Header("x-should-retry"), "false") << "the stock client would try again";
  }
}

TEST_F(RoutesTest, MediaTypesOtherThanJsonAre415) {
  StartServer();
  const auto ask = [&](const std::string& fields) {
    return Ask("POST /detokenize HTTP/1.1\r\nHost: localhost\r\n" + fields +
               "Content-Length: 13\r\n\r\n{\"tokens\":[]}")
        .status;
  };
  EXPECT_EQ(ask(""), 200) << "absent means JSON";
  EXPECT_EQ(ask("Content-Type: application/json\r\n"), 200);
  EXPECT_EQ(ask("Content-Type: Application/JSON; charset=UTF-8\r\n"), 200);
  EXPECT_EQ(
      ask("Content-Type: application/json; charset=\"utf-8\"\r\nContent-Encoding: identity\r\n"),
      200);
  for (const char* const type :
       {"application/json; charset=utf8", "application/json;", "application/json; charset=utf-8;",
        "application/json; charset=us-ascii", "application/json; odata.metadata=minimal",
        "application/json; a=\"x;charset=latin1\"", "application/vnd.api+json", "text/json"})
    EXPECT_EQ(ask("Content-Type: " + std::string(type) + "\r\n"), 200) << type;
  EXPECT_EQ(ask("Content-Type: text/plain\r\n"), 415);
  EXPECT_EQ(ask("Content-Type: application/json; charset=utf-16\r\n"), 415);
  EXPECT_EQ(ask("Content-Type: application/jsonx\r\n"), 415);
  EXPECT_EQ(ask("Content-Type: multipart/form-data; boundary=x\r\n"), 415);
  EXPECT_EQ(ask("Content-Type: application/json; charset=latin1\r\n"), 415);
  EXPECT_EQ(ask("Content-Type: application/json\r\nContent-Type: text/plain\r\n"), 415);
  EXPECT_EQ(ask("Content-Encoding: gzip\r\n"), 415);
}

TEST_F(RoutesTest, OllamaTakesAnyMediaTypeButFromABrowser) {
  StartServer();
  const auto ask = [&](const std::string& fields) {
    return Ask("POST /api/show HTTP/1.1\r\nHost: localhost\r\n" + fields +
               "Content-Length: 13\r\n\r\n{\"model\":\"x\"}")
        .status;
  };
  EXPECT_EQ(ask("Content-Type: application/x-www-form-urlencoded\r\n"), 404) << "as curl sends it";
  EXPECT_EQ(ask("Content-Type: text/plain;charset=UTF-8\r\n"), 404) << "as fetch sends a text";
  EXPECT_EQ(ask("Content-Type: text/plain\r\nSec-Fetch-Site: cross-site\r\n"), 415);
  EXPECT_EQ(ask("Content-Type: text/plain\r\nOrigin: http://localhost\r\n"), 415);
  EXPECT_EQ(ask("Content-Type: application/json\r\nOrigin: http://localhost\r\n"), 404);
  EXPECT_EQ(ask("Content-Type: text/plain\r\nContent-Type: text/plain\r\n"), 415);
}

TEST_F(RoutesTest, ForeignNamesAreRefusedOnALoopbackAddress) {
  HttpOptions options;
  options.allowed_hosts = {"tutti.internal"};
  StartServer(options);
  const auto ask = [&](const std::string& host) {
    return Ask("GET /livez HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  for (const char* host :
       {"localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:9", "[::1]", "[::1]:80",
        "tutti.internal:443", "localhost.:80", "app.localhost", "tutti.internal."})
    EXPECT_EQ(ask(host), 200) << host;
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example.", "10.0.0.1", "[::2]"})
    EXPECT_NE(ask(host), 200) << host;
  EXPECT_EQ(ask("evil.example"), 403);
  for (const char* host :
       {"a b", "localhost:99999999", "local/host", "user@localhost", "[::1", ":80"})
    EXPECT_EQ(ask(host), 400) << host;
}

// Needs no listening socket: tests bind loopback addresses only.
TEST(Router, NetworkServerAllowsListedNamesAndAddressesOrAllNames) {
  const auto code = [](const Router& router, const std::string& host) {
    HttpRequest request;
    request.method = "GET";
    request.target = "/livez";
    request.fields = {{"host", host}, {"authorization", "Bearer k"}};
    return std::string(router.Decide(request).refusal.reason());
  };
  HttpOptions options;
  auth::testing::OneKey known("k");
  const Router open(options, /*loopback=*/false, known.authority());
  for (const char* host : {"any.example", "10.0.0.1:8080", "localhost"})
    EXPECT_EQ(code(open, host), "");
  options.allowed_hosts = {"llm.example"};
  const Router listed(options, /*loopback=*/false, known.authority());
  for (const char* host : {"llm.example", "LLM.Example:8443", "10.0.0.1:8080", "[fd00::1]:443"})
    EXPECT_EQ(code(listed, host), "") << host;
  for (const char* host : {"evil.example", "llm.example.evil.example", "10.0.0.1.evil.example",
                           "xllm.example", "localhost"})
    EXPECT_EQ(code(listed, host), "insufficient_scope") << host;
}

TEST_F(RoutesTest, ForeignOriginsAreRefusedAndConfiguredOnesEchoed) {
  HttpOptions options = WithKey();
  options.cors_origins = {"https://app.example", "http://dev.example:3000"};
  StartServer(options);
  EXPECT_EQ(Ask(Get("/livez", "Origin: https://evil.example\r\n")).status, 403);
  EXPECT_EQ(Ask(Get("/livez", "Origin: null\r\n")).status, 403);
  EXPECT_EQ(Ask(Get("/livez", "Origin: http://localhost\r\n")).status, 200) << "its own pages";
  EXPECT_EQ(
      Ask(Get("/livez", "Origin: https://app.example\r\nOrigin: https://evil.example\r\n")).status,
      400);
  EXPECT_EQ(Ask(Get("/livez", "Origin: http://dev.example:3000\r\n"))
                .Header("access-control-allow-origin"),
            "http://dev.example:3000");
  EXPECT_EQ(Ask(Get("/livez", "Origin: http://dev.example\r\n")).status, 403) << "another port";
  const RawResponse good = Ask(Get("/livez", "Origin: https://app.example\r\n"));
  EXPECT_EQ(good.status, 200);
  EXPECT_EQ(good.Header("access-control-allow-origin"), "https://app.example");
  const RawResponse preflight =
      Ask("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: "
          "https://app.example\r\nAccess-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(preflight.status, 204) << "a browser sends no key with its question";
  EXPECT_EQ(preflight.Header("access-control-allow-methods"), "POST, OPTIONS");
  EXPECT_THAT(preflight.Header("access-control-allow-headers"), HasSubstr("authorization"));
  // The OpenAI client for JavaScript adds these to every request; browsers once refused to send
  // any.
  const RawResponse stock =
      Ask("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: "
          "https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
          "Access-Control-Request-Headers: authorization,X-Stainless-Lang, x-stainless-os,cookie,"
          "x-stainless-\"bad\",x-evil\r\n\r\n");
  EXPECT_EQ(
      stock.Header("access-control-allow-headers"),
      preflight.Header("access-control-allow-headers") + ", x-stainless-lang, x-stainless-os");
  EXPECT_EQ(Ask("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: "
                "https://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n")
                .status,
            403);
}

TEST_F(RoutesTest, RequestIdsAreEchoedOrMade) {
  StartServer();
  EXPECT_EQ(Ask(Get("/livez", "X-Request-Id: my-id_1.2\r\n")).Header("x-request-id"), "my-id_1.2");
  for (const char* bad : {"a b", "\xc3\xa9", "x;y", "\"q\""}) {
    const std::string id =
        Ask(Get("/livez", "X-Request-Id: " + std::string(bad) + "\r\n")).Header("x-request-id");
    EXPECT_TRUE(id.starts_with("req-")) << id;
  }
  const std::string longest(128, 'a');
  EXPECT_EQ(Ask(Get("/livez", "X-Request-Id: " + longest + "\r\n")).Header("x-request-id"),
            longest);
  EXPECT_TRUE(Ask(Get("/livez", "X-Request-Id: " + longest + "a\r\n"))
                  .Header("x-request-id")
                  .starts_with("req-"));
  EXPECT_TRUE(Ask("BAD\r\n\r\n").Header("x-request-id").starts_with("req-")) << "errors too";
  EXPECT_THAT(
      lines_->Joined(),
      HasSubstr("http.request id=my-id_1.2 peer=127.0.0.1 method=GET path=/livez route=/livez "
                "status=200"));
}

TEST(Router, ThePathForTheLogHasNoQueryNoAuthorityAndNoKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"/v1/models", "/v1/models"},
      {"/v1/models?api_key=sk-secret", "/v1/models"},
      {"/a#sk-other", "/a"},
      {"http://user:word@host:80/v1/models?x=1", "/v1/models"},
      {"HTTPS://host", "/"},
      {"http://host?x=/y", "/"},
      {"user:word@host:443", "-"},
      {"", "-"},
      {"*", "*"},
      {"/a%20b", "/a%20b"},
      {"/x/sk-secret/y", "-"},
      {"/x/%73k-secre%74", "-"},
      {"/x/sk-secre", "/x/sk-secre"},
      {"/100%", "/100%"},
  };
  for (const auto& [target, path] : cases)
    EXPECT_EQ(PathForLog(target, "sk-secret"), path) << target;
  EXPECT_EQ(PathForLog("/x", ""), "/x") << "no key, nothing to hide";
}

// Regression: the path was missing if no route was found or the head was malformed.
TEST_F(RoutesTest, EveryAnswerIsOneLogLineWithMethodPathAndStatusAndNoSecret) {
  StartServer(WithKey());
  const std::string key = "Authorization: Bearer " + WithKey().api_key + "\r\n";
  const std::string deep = "/" + std::string(5000, 'd');
  const std::pair<std::string, const char*> cases[] = {
      {Get("/nothing?prompt=private-text", key), "method=GET path=/nothing route=- status=404"},
      {Post("/v1/models", "{}", key), "method=POST path=/v1/models route=/v1/models status=405"},
      {Get("/v1/models"), "method=GET path=/v1/models route=- status=401"},
      {Get("/x/" + WithKey().api_key, key), "method=GET path=- route=- status=404"},
      {Get("/a\"b%0a", key), "method=GET path=\"/a\\\"b%0a\" route=- status=404"},
      {Get(deep, key), "dddd...\" route=- status=404"},
      {Post("/v1/chat/completions", "{\"private-text", key),
       "method=POST path=/v1/chat/completions route=/v1/chat/completions status=400"},
      {"GET /framing?private-text HTTP/1.1\r\nHost : localhost\r\n\r\n",
       "method=GET path=/framing route=- status=400"},
      {"POST /two HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
       "method=POST path=/two route=- status=400"},
      {"GET /old HTTP/9.9\r\n\r\n", "method=GET path=/old route=- status=505"},
      {"GET /\x01\xff HTTP/1.1\r\n\r\n", "method=GET path=\"/\\x01\\xff\" route=- status=400"},
      {"GET /" + std::string(9000, 'l') + " HTTP/1.1\r\n\r\n", "llll...\" route=- status=414"},
      {"private-text of a body announced too short\r\n\r\n", "method=- path=- route=- status=400"},
      {"BREW /pot HTTP/1.1\r\nHost: localhost\r\n" + key + "\r\n",
       "method=- path=/pot route=- status=501"},
  };
  size_t lines = 0;
  for (const auto& [request, wanted] : cases) {
    EXPECT_GE(Ask(request).status, 400);
    log_.Flush();
    const std::string all = lines_->Joined();
    ++lines;
    EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), static_cast<long>(lines)) << all;
    const size_t last = all.rfind('\n', all.size() - 2) + 1;  // npos + 1 = 0
    EXPECT_THAT(all.substr(last), HasSubstr(wanted));
    EXPECT_LT(all.size() - last, 600u);
  }
  EXPECT_EQ(lines_->Joined().find("private-text"), std::string::npos) << lines_->Joined();
  EXPECT_EQ(lines_->Joined().find(WithKey().api_key), std::string::npos) << lines_->Joined();
}

TEST_F(RoutesTest, MetricsShowEveryAnswerByOperationAndCode) {
  StartServer();
  Ask(Get("/livez"));
  Ask(Get("/nothing"));
  Ask(Post("/v1/chat/completions", "{"));
  const RawResponse metrics = Ask(Get("/metrics"));
  EXPECT_EQ(metrics.Header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(
      metrics.body,
      HasSubstr(R"(tutti_requests_total{code="200",door="http",op="other",server="http"} 1)"));
  EXPECT_THAT(
      metrics.body,
      HasSubstr(R"(tutti_requests_total{code="404",door="http",op="other",server="http"} 1)"));
  EXPECT_THAT(
      metrics.body,
      HasSubstr(R"(tutti_requests_total{code="400",door="http",op="chat",server="http"} 1)"));
  EXPECT_THAT(metrics.body, HasSubstr(R"(tutti_requests_rejected_total{code="invalid_json"} 1)"));
  EXPECT_THAT(metrics.body, HasSubstr(R"(tutti_requests_in_flight{op="chat"} 0)"));
}

TEST_F(RoutesTest, TokenizerRoutesAnswerSmallAndLargeTexts) {
  StartServer();
  EXPECT_EQ(Ask(Post("/tokenize", R"({"prompt":"ab"})")).body,
            R"({"count":2,"max_model_len":128,"tokens":[97,98],"token_strs":null})");
  EXPECT_EQ(Ask(Post("/v1/tokenize", R"({"content":"ab"})")).body, R"({"tokens":[97,98]})");
  EXPECT_EQ(Ask(Post("/detokenize", R"({"tokens":[97,98]})")).body,
            R"({"prompt":"ab","content":"ab"})");
  EXPECT_EQ(Ask(Post("/v1/responses/input_tokens", R"({"model":"fake","input":"x"})")).body,
            R"({"object":"response.input_tokens","input_tokens":3})");
  EXPECT_THAT(Ask(Get("/tokenizer_info")).body, HasSubstr(R"("eos_token":"</s>")"));
  EXPECT_EQ(Ask(Post("/apply-template", R"({"messages":[{"role":"user","content":"x"}]})")).body,
            R"({"prompt":"<x>","count":3,"max_model_len":128})");
  const RawResponse large =
      Ask(Post("/tokenize", R"({"prompt":")" + std::string(100'000, 'x') + R"(","odd":1})"));
  EXPECT_EQ(large.status, 200);
  EXPECT_THAT(large.body, HasSubstr("\"count\":100000,"));
  EXPECT_EQ(large.Header("x-tutti-ignored"), "odd");
  const RawResponse bad = Ask(Post("/detokenize", R"({"tokens":[300]})"));
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(CodeOf(bad), "token_out_of_range");
}

// Which addresses count as loopback; the rule itself is tested with access/listen_rules.
TEST(CheckBind, OnlyLoopbackMayBeOpen) {
  HttpOptions options;
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"}) {
    options.host = host;
    EXPECT_TRUE(CheckBind(options).ok()) << host;
  }
  for (const char* host : {"0.0.0.0", "192.168.1.1", "::"}) {
    options = HttpOptions();
    options.host = host;
    EXPECT_EQ(CheckBind(options).param(), "host") << host;
    options.has_keys = true;
    EXPECT_FALSE(CheckBind(options).ok()) << host;
    options.tls_cert_file = options.tls_key_file = "x";
    EXPECT_TRUE(CheckBind(options).ok()) << host;
  }
  options.host = "example.org";
  EXPECT_FALSE(CheckBind(options).ok());
}

// A port in use is not invalid_value: a later start with the same options may succeed.
TEST_F(RoutesTest, APortInUseFailsTheStartAsUnavailable) {
  StartServer();
  HttpOptions options;
  options.port = port();
  HttpServer second(options, {&inference_, &known_->authority(), &inference_, &metrics_, nullptr,
                              &log_, &clock_});
  const Status status = second.Start();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_NE(status.reason(), "invalid_value");
  EXPECT_EQ(status.param(), "port");
}

}  // namespace
}  // namespace tutti::http::testing
