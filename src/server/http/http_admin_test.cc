// GET /v1/me, and the routes of operators below /admin: what each scope may use and see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "server/http/router.h"
#include "server/http/testing/server_fixture.h"
#include "services/auth/grant.h"

namespace tutti::http::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class AdminTest : public ServerTest {
 protected:
  void SetUp() override {
    inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) {
      generation->AppendAnswer({"one"});
      return OkStatus();
    };
    limits_left_ = [](const api::Caller& caller) {
      std::vector<api::CallerLimitState> limits;
      if (caller.limits.requests_per_minute.has_value()) {
        limits.push_back({.limit = "requests_per_minute",
                          .of = "key",
                          .state = {*caller.limits.requests_per_minute, 1, Duration(0)}});
      }
      return limits;
    };
    StartServer();
  }
  auth::IssuedKey Key(const std::string& name, const auth::RouteClasses& routes,
                      const std::string& tenant = "default") {
    auth::KeySpec spec{.name = name, .grant = {}, .expires_s = {}};
    spec.grant.scopes.routes = routes;
    spec.grant.tenant = tenant;
    const auto key = known_->accounts().CreateKey(spec, time(nullptr));
    CHECK(key.ok()) << key.status();
    return *key;
  }
  static std::string Bearer(const std::string& secret) {
    return "Authorization: Bearer " + secret + "\r\n";
  }
  static std::string Delete(const std::string& path, const std::string& fields = "") {
    return "DELETE " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
  }
  // The first value of a member that is a text.
  static std::string TextOf(const std::string& body, const std::string& member) {
    const std::string mark = "\"" + member + "\":\"";
    const size_t at = body.find(mark);
    if (at == std::string::npos) return "";
    const size_t start = at + mark.size();
    return body.substr(start, body.find('"', start) - start);
  }
  // A request of `route`, each part of whose path is `part`.
  static std::string RequestOf(const Route& route, const std::string& part,
                               const std::string& fields) {
    std::string path(route.pattern);
    for (const std::string mark : {"{id}", "{part}"}) {
      for (size_t at = path.find(mark); at != std::string::npos; at = path.find(mark))
        path.replace(at, mark.size(), part);
    }
    if (route.method == "POST") return Post(path, "{}", fields);
    if (route.id == RouteId::kLiveEvents) path += "?interval_ms=none";  // else it would not end
    return std::string(route.method) + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
           "\r\n";
  }
  std::string operator_ = Bearer("");

  void MakeOperator() { operator_ = Bearer(Key("boss", {auth::RouteClass::kAdmin}).text); }
};

TEST_F(AdminTest, EachScopeOpensItsRoutesAndNoOthers) {
  std::map<auth::RouteClass, std::string> keys;
  for (const auth::RouteClass scope : auth::kAllRouteClasses) {
    if (scope != auth::RouteClass::kPublic)
      keys[scope] = Bearer(Key("only-" + std::string(RouteClassName(scope)), {scope}).text);
  }
  int refused = 0, passed = 0, below_admin = 0;
  for (const Route& route : Routes()) {
    if (route.pattern.starts_with("/admin/")) {
      ++below_admin;
      EXPECT_EQ(route.rule, auth::rules::kOperate) << route.pattern;
    }
    for (const auto& [scope, fields] : keys) {
      const RawResponse response = Ask(RequestOf(route, "fake", fields));
      const std::string what = std::string(route.method) + " " + std::string(route.pattern) +
                               " with " + std::string(RouteClassName(scope)) + ": " + response.body;
      if (route.rule.Has(scope) || route.rule == auth::rules::kAnybody) {
        EXPECT_NE(response.status, 401) << what;
        EXPECT_THAT(response.body, Not(HasSubstr("this needs the scope"))) << what;
        ++passed;
      } else {
        EXPECT_EQ(response.status, 403) << what;
        EXPECT_THAT(response.body, HasSubstr("this needs the scope")) << what;
        ++refused;
      }
    }
  }
  EXPECT_GE(below_admin, 21);
  EXPECT_GT(refused, 400);
  EXPECT_GT(passed, 150);
}

TEST_F(AdminTest, ObjectsOfAnotherTenantAreNotFoundAndNotShown) {
  // Everything of the other tenant has the word in it.
  const std::string other = Bearer(Key("planted-key", auth::kAllButAdmin, "planted-tenant").text);
  auth::Grant grant;
  grant.tenant = "planted-tenant";
  known_->AddUser("planted-user", grant);
  const auto made = [&](const std::string& path, const std::string& body,
                        const std::string& more = "") {
    const RawResponse response = Ask(Post(path, body, other + more));
    EXPECT_LT(response.status, 300) << response.body;
    return TextOf(response.body, "id");
  };
  const std::vector<std::string> ids = {
      made("/v1/conversations", R"({"metadata":{"k":"planted"}})"),
      made("/v1/responses", R"({"model":"fake","input":"planted"})"),
      made("/v1/chat/completions", kChatBody, "Prefer: respond-async\r\n")};
  MakeOperator();
  int looked = 0;
  for (const auth::RouteClass scope : auth::kAllRouteClasses) {
    if (scope == auth::RouteClass::kPublic || scope == auth::RouteClass::kAdmin) continue;
    const std::string fields =
        Bearer(Key("only-" + std::string(RouteClassName(scope)), {scope}).text);
    for (const Route& route : Routes()) {
      for (const std::string& id : ids) {
        const RawResponse response = Ask(RequestOf(route, id, fields));
        const std::string what = std::string(route.method) + " " + std::string(route.pattern);
        EXPECT_THAT(response.body, Not(HasSubstr("planted"))) << what;
        const bool of_object = route.pattern.find("{part}") != std::string_view::npos;
        if (of_object) {
          EXPECT_GE(response.status, 400) << what << response.body;
        }
        ++looked;
      }
    }
  }
  EXPECT_GT(looked, 1000);
  // The objects are still there, and the operator sees the job.
  EXPECT_EQ(Ask(Get("/v1/conversations/" + ids[0], other)).status, 200);
  EXPECT_EQ(Ask(Get("/v1/responses/" + ids[1], other)).status, 200);
  EXPECT_EQ(Ask(Get("/v1/jobs/" + ids[2], other)).status, 200);
  EXPECT_THAT(Ask(Get("/admin/jobs", operator_)).body, HasSubstr("planted-tenant"));
  EXPECT_THAT(Ask(Get("/admin/jobs?tenant=default", operator_)).body, Not(HasSubstr("planted")));
  const RawResponse job = Ask(Get("/admin/jobs/" + ids[2], operator_));
  EXPECT_THAT(job.body, HasSubstr(R"("tenant":"planted-tenant")"));
}

TEST_F(AdminTest, AKeyIsMadeChangedRotatedAndRevoked) {
  MakeOperator();
  const RawResponse made = Ask(
      Post("/admin/keys",
           R"({"name":"app","tenant":"acme","scopes":{"routes":["generate"]},"expires_in_s":60})",
           operator_));
  ASSERT_EQ(made.status, 200) << made.body;
  EXPECT_EQ(made.Header("cache-control"), "no-store");
  const std::string secret = TextOf(made.body, "secret"), id = TextOf(made.body, "id");
  EXPECT_EQ(Ask(Post("/v1/chat/completions", kChatBody, Bearer(secret))).status, 200);
  const RawResponse list = Ask(Get("/admin/keys", operator_));
  EXPECT_THAT(list.body, HasSubstr(R"("id":")" + id + R"(","name":"app","state":"active")"));
  EXPECT_THAT(list.body, Not(HasSubstr(secret))) << "a secret is shown once";

  const RawResponse changed =
      Ask(Post("/admin/keys/" + id, R"({"limits":{"concurrency":3}})", operator_));
  EXPECT_THAT(changed.body, HasSubstr(R"("limits":{"concurrency":3})"));
  const RawResponse rotated = Ask(Post("/admin/keys/app/rotate", R"({"grace_s":100})", operator_));
  ASSERT_EQ(rotated.status, 200) << rotated.body;
  const std::string second = TextOf(rotated.body, "secret");
  EXPECT_THAT(rotated.body, HasSubstr(R"("limits":{"concurrency":3})"));
  for (const std::string& each : {secret, second})
    EXPECT_EQ(Ask(Post("/v1/chat/completions", kChatBody, Bearer(each))).status, 200);

  const RawResponse revoked = Ask(Delete("/admin/keys/" + id, operator_));
  EXPECT_EQ(revoked.body, R"({"revoked":[")" + id + R"("]})");
  EXPECT_EQ(Ask(Post("/v1/chat/completions", kChatBody, Bearer(secret))).status, 401);
  EXPECT_EQ(Ask(Post("/v1/chat/completions", kChatBody, Bearer(second))).status, 200);
  EXPECT_EQ(operators_.size(), 5u);
  EXPECT_THAT(operators_[0], ::testing::StartsWith("key:"));
}

TEST_F(AdminTest, AUserIsMadeDisabledAndDeleted) {
  MakeOperator();
  const std::string body = R"({"name":"ann","no_password":true,"tenant":"acme"})";
  EXPECT_EQ(Ask(Post("/admin/users", body, operator_)).body, "{}");
  EXPECT_EQ(Ask(Post("/admin/users", body, operator_)).status, 409);
  const RawResponse list = Ask(Get("/admin/users", operator_));
  EXPECT_THAT(list.body, HasSubstr(R"({"name":"ann","enabled":true,"tenant":"acme")"));
  EXPECT_THAT(list.body, Not(HasSubstr("argon2"))) << "hashes stay in the store";
  EXPECT_EQ(Ask(Post("/admin/users/ann/disable", "", operator_)).status, 200);
  EXPECT_THAT(Ask(Get("/admin/users", operator_)).body, HasSubstr(R"("enabled":false)"));
  EXPECT_EQ(Ask(Post("/admin/users/ann/enable", "", operator_)).status, 200);
  EXPECT_EQ(Ask(Delete("/admin/users/ann", operator_)).status, 200);
  EXPECT_EQ(Ask(Delete("/admin/users/ann", operator_)).status, 404);
}

TEST_F(AdminTest, FaultyRequestsOfOperatorsAreRefused) {
  MakeOperator();
  EXPECT_EQ(Ask(Post("/admin/keys", R"({"name":"taken"})", operator_)).status, 200);
  const struct {
    std::string path, body, code;
    int status;
  } cases[] = {
      {"/admin/keys", "", "missing_required_parameter", 400},
      {"/admin/keys", "[]", "invalid_value", 400},
      {"/admin/keys", "{", "invalid_json", 400},
      {"/admin/keys", R"({"name":"a b"})", "invalid_value", 400},
      {"/admin/keys", R"({"name":"x","op":"keys.revoke"})", "unknown_parameter", 400},
      {"/admin/keys", R"({"name":"x","secret":"y"})", "unknown_parameter", 400},
      {"/admin/keys", R"({"name":"x","scopes":{"routes":["all"]}})", "invalid_value", 400},
      {"/admin/keys", R"({"name":"taken"})", "name_taken", 409},
      {"/admin/keys", R"({"name":")" + std::string(70'000, 'x') + "\"}", "request_too_large", 413},
      {"/admin/keys/nobody", R"({"limits":{"concurrency":1}})", "not_found", 404},
      {"/admin/keys/taken", R"({"limits":{}})", "missing_required_parameter", 400},
      {"/admin/keys/taken", R"({"key":"boss","limits":{}})", "unknown_parameter", 400},
      {"/admin/keys/nobody/rotate", "", "not_found", 404},
      {"/admin/jobs/job_none/cancel", "", "not_found", 404},
      {"/admin/batches/batch_none/cancel", "", "not_found", 404},
      {"/admin/jobs/pause", "{}", "invalid_value", 400},
  };
  for (const auto& [path, body, code, status] : cases) {
    const RawResponse response = Ask(Post(path, body, operator_));
    EXPECT_EQ(response.status, status) << path << " " << body << response.body;
    EXPECT_EQ(CodeOf(response), code) << path << " " << body << response.body;
  }
  for (const std::string query :
       {"?limit=x", "?limit=0", "?limit=1001", "?status=dead", "?op=jobs.pause", "?nothing=1",
        "?limit=1&limit=2", "?after=job_none"})
    EXPECT_GE(Ask(Get("/admin/jobs" + query, operator_)).status, 400) << query;
  EXPECT_EQ(Ask(Get("/admin/jobs?status=failed&limit=1000&tenant=none", operator_)).body,
            R"({"jobs":[],"more":false,"paused":[]})");
  EXPECT_EQ(Ask(Get("/admin/batches?limit=5", operator_)).body, R"({"batches":[],"more":false})");
}

TEST_F(AdminTest, TheCallerSeesItsOwnRightsAndLimits) {
  const RawResponse open = Ask(Get("/v1/me"));
  ASSERT_EQ(open.status, 200) << open.body;
  EXPECT_THAT(open.body, HasSubstr(R"({"object":"caller","keys":false,"kind":"open")"));
  EXPECT_THAT(open.body, HasSubstr(R"("admin":true)")) << "of an open server the local client is";
  EXPECT_THAT(open.body, HasSubstr(R"("jobs":true)"));
  EXPECT_THAT(open.body, HasSubstr(R"("library":false)"));
  EXPECT_THAT(open.body, HasSubstr(R"("keys":false},"limits")"));
  auth::KeySpec spec{.name = "app", .grant = {}, .expires_s = 4'000'000'000};
  spec.grant.tenant = "acme";
  spec.grant.scopes = {.routes = {auth::RouteClass::kEmbed}, .models = {"fake-embed"}};
  spec.grant.limits.requests_per_minute = 60;
  const auto key = known_->accounts().CreateKey(spec, time(nullptr));
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(Ask(Get("/v1/me")).status, 401);
  const RawResponse mine = Ask(Get("/v1/me", Bearer(key->text)));
  EXPECT_THAT(
      mine.body,
      HasSubstr(R"("keys":true,"kind":"key","id":")" + key->record.id +
                R"(","name":"app","tenant":"acme","expires_at":4000000000,)"
                R"("scopes":{"routes":["embed"],"models":["fake-embed"]},"admin":false,)"
                R"("models":["fake-embed"],"limits":[{"limit":"requests_per_minute","of":"key",)"
                R"("max":60,"remaining":1,"reset_s":0)"));
  EXPECT_THAT(mine.body, Not(HasSubstr(key->text)));
}

// Any process of the machine could close the server to its owner.
TEST_F(AdminTest, AnOpenServerMakesNoKeysOverHttp) {
  for (const std::string path : {"/admin/keys", "/admin/users", "/admin/keys/boss"}) {
    const RawResponse made = Ask(Post(path, R"({"name":"boss","scopes":{"routes":["admin"]}})"));
    EXPECT_EQ(made.status, 403) << made.body;
    EXPECT_THAT(made.body, HasSubstr("tutti keys create"));
  }
  EXPECT_EQ(Ask(Get("/admin/keys")).status, 403);
  EXPECT_EQ(Ask(Get("/admin/jobs")).status, 200);
  EXPECT_THAT(operators_, ElementsAre("open"));
  EXPECT_TRUE(known_->accounts().snapshot()->empty());
}

class AdminWithoutStoreTest : public AdminTest {
 protected:
  void SetUp() override {
    has_services_ = false;
    AdminTest::SetUp();
  }
};

TEST_F(AdminWithoutStoreTest, OffersNoRoutesOfOperators) {
  EXPECT_EQ(Ask(Get("/admin/keys")).status, 501);
  EXPECT_EQ(Ask(Get("/admin/jobs")).status, 501);
  EXPECT_THAT(Ask(Get("/v1/me")).body, HasSubstr(R"("keys":false},"limits")"));
}

}  // namespace
}  // namespace tutti::http::testing
