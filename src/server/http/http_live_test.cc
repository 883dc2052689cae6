// Row R31: the live state for operators: once, as events, and the trace of a request. Nobody else
// sees any of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "protocol/json/json.h"
#include "server/http/testing/server_fixture.h"
#include "server/http/testing/socket_client.h"
#include "services/auth/grant.h"

namespace tutti::http::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// One engine whose snapshots the test makes. It answers at once unless `slow`.
class FakeLive final : public api::LiveSource {
 public:
  void Ask() override { asked_.fetch_add(1); }
  bool TakenSince(TimePoint) const override { return !slow.load(); }
  api::LiveState Read() const override {
    const std::lock_guard lock(mutex_);
    return state_;
  }

  template <typename Edit>
  void Change(const Edit& change) {
    const std::lock_guard lock(mutex_);
    change(&state_);
  }
  int asked() const { return asked_.load(); }
  std::atomic<bool> slow{false};

 private:
  std::atomic<int> asked_{0};
  mutable std::mutex mutex_;
  api::LiveState state_;
};

constexpr const char* kSecretTenant = "acme-secret-tenant";

class LiveTest : public ServerTest {
 protected:
  LiveTest() {
    live_ = &live_source_;
    live_source_.Change([](api::LiveState* state) {
      api::LiveEngine& engine = state->engines.emplace_back();
      engine.model = "fake";
      engine.taken = TimePoint(seconds(1));
      engine.max_num_seqs = 4;
      engine.running = engine.waiting = 1;
      engine.reasons[static_cast<size_t>(api::WaitReason::kKvBlocks)] = 1;
      api::LiveSequence& runs = engine.sequences.emplace_back();
      runs.request.Set("req-a");
      runs.tenant.Set(kSecretTenant);
      runs.phase = api::LiveSequence::Phase::kDecode;
      runs.output_tokens = 5;
      api::LiveSequence& waits = engine.sequences.emplace_back();
      waits.request.Set("req-b");
      waits.tenant.Set(kSecretTenant);
      waits.waits_for = api::WaitReason::kKvBlocks;
      waits.waited = milliseconds(1500);
      engine.kv_blocks = 4;
      engine.kv_map = "u.sc";
      state->model_waits.push_back({"req-c", "other", milliseconds(20)});
      state->model_waits_total = 1;
    });
    AddStep();
  }

  void AddStep() {
    live_source_.Change([this](api::LiveState* state) {
      api::LiveEngine& engine = state->engines.front();
      engine.steps_total = ++steps_;
      engine.steps.push_back({.step = steps_,
                              .begin = TimePoint(seconds(10 + static_cast<int>(steps_))),
                              .launch = milliseconds(20),
                              .decode_rows = 1});
    });
  }

  // The data of the next event of that name. Marks of chunks may stand in it.
  static std::string NextEvent(RawClient& client, const std::string& name) {
    const std::string mark = "event: " + name + "\ndata: ";
    if (!client.WaitFor(mark)) return "";
    std::string& buffer = client.buffer();
    buffer.erase(0, buffer.find(mark) + mark.size());
    while (buffer.find("\n\n") == std::string::npos) {
      if (!client.Fill()) return "";
    }
    std::string data = buffer.substr(0, buffer.find("\n\n"));
    buffer.erase(0, data.size() + 2);
    return data;
  }

  static HttpOptions WithKey() {
    HttpOptions options;
    options.api_key = "sk-test-0123456789";
    return options;
  }
  std::string KeyWith(auth::RouteClasses routes) {
    auth::KeySpec spec{.name = "k" + std::to_string(++keys_), .grant = {}, .expires_s = {}};
    spec.grant.scopes.routes = routes;
    const auto key = known_->accounts().CreateKey(spec, time(nullptr));
    EXPECT_TRUE(key.ok()) << key.status();
    return key->text;
  }
  static std::string Bearer(const std::string& key) {
    return "Authorization: Bearer " + key + "\r\n";
  }

  FakeLive live_source_;
  uint64_t steps_ = 0;
  int keys_ = 0;
};

TEST_F(LiveTest, StateHasAllParts) {
  StartServer();
  const Result<protocol::JsonDocument> document =
      protocol::ParseJson(Ask(Get("/admin/state")).body);
  ASSERT_TRUE(document.ok()) << document.status();
  const protocol::JsonObject& root = document->root().as_object();
  EXPECT_EQ(protocol::TextMember(root, "object"), "live.state");
  EXPECT_EQ(root.at("version").as_int64(), 1);
  EXPECT_EQ(root.at("engines").as_array().size(), 1u);
  EXPECT_EQ(root.at("models").as_array().size(), inference_.Models().size());
  EXPECT_EQ(root.at("watchers").as_int64(), 0);
  // A figure of /metrics, read from the same registry.
  const auto& active = root.at("metrics").at("tutti_requests_in_flight").as_array();
  ASSERT_EQ(active.size(), 1u);
  EXPECT_EQ(active[0].at("value").to_number<double>(), 1);
}

TEST_F(LiveTest, StateNamesReasons) {
  StartServer();
  const RawResponse response = Ask(Get("/admin/state"));
  EXPECT_EQ(response.Header("cache-control"), "no-store");
  EXPECT_THAT(
      response.body,
      AllOf(HasSubstr(R"("waits":{"kv_blocks":1})"), HasSubstr(R"("waits_for":"kv_blocks")"),
            HasSubstr(R"("waited_ms":1500)"), HasSubstr(R"("map":"u.sc")"),
            HasSubstr(R"("launch_ms":20)"),
            HasSubstr(R"("model_waits":[{"request":"req-c","model":"other","waited_ms":20.0}])"),
            HasSubstr(R"("engines_elsewhere":false)"), HasSubstr(R"("id":"fake")")));
}

TEST_F(LiveTest, AnEngineThatDoesNotAnswerDelaysNobody) {
  StartServer();
  live_source_.slow = true;
  const auto begin = steady_clock::now();
  EXPECT_EQ(Ask(Get("/admin/state")).status, 200);
  EXPECT_GE(steady_clock::now() - begin, milliseconds(500));
  EXPECT_LT(steady_clock::now() - begin, seconds(2));
}

TEST_F(LiveTest, EnginesElsewhereAreSaidToBe) {
  live_ = nullptr;
  StartServer();
  EXPECT_THAT(Ask(Get("/admin/state")).body,
              AllOf(HasSubstr(R"("engines_elsewhere":true)"), HasSubstr(R"("engines":[])")));
}

TEST_F(LiveTest, StreamsStatesAndNewSteps) {
  StartServer();
  AddStep();
  RawClient client(port());
  const auto begin = steady_clock::now();
  client.Send(Get("/admin/events?interval_ms=300"));
  const std::string first = NextEvent(client, "state");
  EXPECT_LT(steady_clock::now() - begin, milliseconds(250)) << "the first at once";
  EXPECT_THAT(first, AllOf(HasSubstr(R"("step":1,)"), HasSubstr(R"("step":2,)")));
  AddStep();
  const std::string second = NextEvent(client, "state");
  EXPECT_GE(steady_clock::now() - begin, milliseconds(300));
  EXPECT_THAT(second, AllOf(HasSubstr(R"("step":3,)"), Not(HasSubstr(R"("step":2,)"))));
  EXPECT_THAT(second, HasSubstr(R"("watchers":1)"));
}

TEST_F(LiveTest, AReaderThatStoppedGetsTheNewestState) {
  // About 40 KiB of text each.
  live_source_.Change([](api::LiveState* state) {
    state->engines.front().sequences.resize(150, state->engines.front().sequences.front());
  });
  HttpOptions options;
  options.send_buffer_bytes = 4096;
  StartServer(options);
  RawClient client(port(), /*receive_buffer=*/2048);
  client.Send(Get("/admin/events?interval_ms=100"));
  ASSERT_TRUE(Eventually([&] { return live_source_.asked() >= 1; }));
  std::this_thread::sleep_for(seconds(1));
  const int asked = live_source_.asked();
  std::this_thread::sleep_for(seconds(1));
  EXPECT_EQ(live_source_.asked(), asked) << "nothing is made for a reader that has not read";
  EXPECT_LE(asked, 3);
  for (int i = 0; i < 20; ++i) AddStep();
  const std::string mark = R"("steps_total":21)";
  EXPECT_TRUE(client.WaitFor(mark));
  EXPECT_EQ(live_source_.asked(), asked + 1) << "one state, not those in between";
}

TEST_F(LiveTest, RefusedRequestsHaveTheirStatus) {
  inference_.on_generate = [](const auto&) { return Unavailable("queue_full", "no place"); };
  StartServer();
  EXPECT_EQ(Ask(Post("/v1/chat/completions", kChatBody, "X-Request-Id: req-full\r\n")).status, 503);
  EXPECT_THAT(Ask(Get("/admin/requests/req-full")).body,
              AllOf(HasSubstr(R"("state":"ended","end":"failed","status":503,"in_engine":false)")));
}

// Neither a drain nor the release of idle memory waits for it.
TEST_F(LiveTest, AWatcherIsNoActiveRequest) {
  StartServer();
  RawClient client(port());
  client.Send(Get("/admin/events?interval_ms=10000"));
  ASSERT_NE(NextEvent(client, "state"), "");
  EXPECT_EQ(server_->active_requests(), 0);
}

TEST_F(LiveTest, WatchersAreLimited) {
  StartServer();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->Send(Get("/admin/events?interval_ms=10000"));
    ASSERT_NE(NextEvent(*clients.back(), "state"), "");
  }
  const RawResponse refused = Ask(Get("/admin/events"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("16 watchers"));
  EXPECT_EQ(Ask(Get("/admin/state")).status, 200);
  clients.pop_back();
  EXPECT_TRUE(Eventually([&] {
    RawClient again(port());
    again.Send(Get("/admin/events"));
    return again.WaitFor("\r\n\r\n") && again.buffer().find(" 200 ") != std::string::npos;
  }));
}

TEST_F(LiveTest, EndsAtADrain) {
  StartServer();
  RawClient client(port());
  client.Send(Get("/admin/events?interval_ms=10000"));
  ASSERT_NE(NextEvent(client, "state"), "");
  std::thread drain([&] { EXPECT_TRUE(server_->Drain(seconds(5))); });
  EXPECT_EQ(NextEvent(client, "end"), R"({"reason":"draining"})");
  EXPECT_TRUE(client.WaitClosed());
  drain.join();
}

TEST_F(LiveTest, EndsWhenItsKeyIsRevoked) {
  StartServer(WithKey());
  const std::string key = KeyWith({auth::RouteClass::kAdmin});
  RawClient client(port());
  client.Send(Get("/admin/events?interval_ms=10000", Bearer(key)));
  ASSERT_NE(NextEvent(client, "state"), "");
  const auto begin = steady_clock::now();
  ASSERT_TRUE(known_->accounts().RevokeKeys("k1", time(nullptr)).ok());
  EXPECT_EQ(NextEvent(client, "end"), R"({"reason":"key_revoked"})");
  EXPECT_LT(steady_clock::now() - begin, seconds(1));
}

TEST_F(LiveTest, NoOtherScopeGetsADatum) {
  StartServer(WithKey());
  traces_.Begin({.id = "req-known", .tenant = kSecretTenant});
  errors_.Add({.request_id = "req-failed", .code = "internal_error", .status = 500});
  const std::string paths[] = {"/admin/state", "/admin/events", "/admin/events?interval_ms=100",
                               "/admin/requests/req-known", "/admin/requests/req-unknown"};
  int refused = 0;
  for (const std::string& path : paths) {
    std::vector<std::pair<std::string, int>> callers = {
        {"", 401}, {Bearer("wrong"), 401}, {Bearer("sk-test-0123456789"), 403}};
    for (const auth::RouteClass scope : auth::kAllRouteClasses) {
      if (scope == auth::RouteClass::kAdmin || scope == auth::RouteClass::kPublic) continue;
      callers.emplace_back(Bearer(KeyWith({scope})), 403);
    }
    callers.emplace_back(Bearer(KeyWith(auth::kAllButAdmin)), 403);
    for (const auto& [fields, status] : callers) {
      for (const char* method : {"GET", "HEAD", "POST", "DELETE"}) {
        std::string request = Get(path, fields);
        request.replace(0, 3, method);
        const RawResponse response = Ask(request, std::string(method) == "HEAD");
        // Another method is refused before or after the caller is.
        if (std::string(method) == "GET" || status == 401) {
          EXPECT_EQ(response.status, status) << path;
        }
        EXPECT_GE(response.status, 400);
        for (const char* datum : {kSecretTenant, "req-a", "req-failed", "engines", "steps"})
          EXPECT_THAT(response.body, Not(HasSubstr(datum))) << path;
        ++refused;
      }
    }
  }
  EXPECT_EQ(refused, 5 * 9 * 4);
  const std::string admin = Bearer(KeyWith({auth::RouteClass::kAdmin}));
  EXPECT_THAT(Ask(Get("/admin/state", admin)).body, HasSubstr(kSecretTenant));
  EXPECT_THAT(Ask(Get("/admin/requests/req-known", admin)).body, HasSubstr(kSecretTenant));
}

TEST_F(LiveTest, RefusesBadIntervals) {
  StartServer();
  for (const char* interval : {"99", "10001", "-1", "x", "", "1e3"}) {
    const RawResponse response = Ask(Get("/admin/events?interval_ms=" + std::string(interval)));
    EXPECT_EQ(response.status, 400) << interval;
    EXPECT_THAT(response.body, HasSubstr("from 100 to 10000"));
  }
}

TEST_F(LiveTest, TracesARequest) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/v1/chat/completions", kChatBody, "X-Request-Id: req-mine\r\n"));
  const auto generation = inference_.Generation(0);
  const std::shared_ptr<api::RequestTrace> trace = generation->request.trace;
  ASSERT_NE(trace, nullptr);
  trace->SetModel("fake");
  const TimePoint now = clock_.Now();
  using Kind = api::TraceEvent::Kind;
  trace->engine().Append({.at = now, .kind = Kind::kAccepted});
  trace->engine().Append({.at = now, .kind = Kind::kSubmitted});
  trace->engine().Append({.at = now, .kind = Kind::kWaits, .reason = api::WaitReason::kFairShare});
  const std::string waiting = Ask(Get("/admin/requests/req-mine")).body;
  EXPECT_THAT(waiting, AllOf(HasSubstr(R"("state":"running")"), HasSubstr(R"("in_engine":true)"),
                             HasSubstr(R"("reason":"fair_share","ms":)"),
                             HasSubstr(R"("now":true)"), HasSubstr(R"("event":"parsed")")));
  trace->Waited(api::WaitReason::kFairShare, milliseconds(40));
  trace->engine().Append({.at = now + milliseconds(40), .step = 1, .kind = Kind::kRuns});
  trace->engine().Append({.at = now + milliseconds(40),
                          .took = milliseconds(20),
                          .step = 1,
                          .tokens = 17,
                          .kind = Kind::kPrefill});
  trace->InStep(1);
  trace->SetEnd("ok");
  trace->engine().Append({.at = now + milliseconds(60), .tokens = 1, .kind = Kind::kEnded});
  generation->Answer({"one"});
  EXPECT_EQ(client.Read().status, 200);
  const std::string ended = Ask(Get("/admin/requests/req-mine")).body;
  EXPECT_THAT(ended, AllOf(HasSubstr(R"("state":"ended")"), HasSubstr(R"("end":"ok","status":200)"),
                           HasSubstr(R"("route":"chat.completions")"),
                           HasSubstr(R"("event":"written","status":200)"),
                           HasSubstr(R"("reason":"fair_share","ms":40.0,"now":false)"),
                           HasSubstr(R"("queue_ms":40)"), HasSubstr(R"("took_ms":20)"),
                           HasSubstr(R"("steps":{"count":1)")));
  // Regression: the time between the stages, such as the load of a model, was in none of them.
  const Result<protocol::JsonDocument> document = protocol::ParseJson(ended);
  ASSERT_TRUE(document.ok()) << document.status();
  const protocol::JsonObject& root = document->root().as_object();
  double sum = 0, total = 0;
  for (const auto& stage : root.at("traces").as_array()[0].at("stages").as_object())
    (stage.key() == "total_ms" ? total : sum) += stage.value().to_number<double>();
  EXPECT_GT(total, 0);
  EXPECT_NEAR(sum, total, 0.01);
  const RawResponse unknown = Ask(Get("/admin/requests/req-other"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr("512"));
}

TEST_F(LiveTest, ARequestIsCancelledByItsId) {
  class Request final : public api::Cancellable {
   public:
    void Cancel() noexcept override { ++cancels; }
    std::atomic<int> cancels{0};
  };
  StartServer(WithKey());
  const std::string admin = Bearer(KeyWith({auth::RouteClass::kAdmin}));
  const auto post = [&](const std::string& id, const std::string& fields) {
    return Ask("POST /admin/requests/" + id + "/cancel HTTP/1.1\r\nHost: localhost\r\n" + fields +
               "Content-Length: 0\r\n\r\n");
  };
  const auto one = std::make_shared<Request>(), other = std::make_shared<Request>();
  // A call with two prompts.
  const auto first = traces_.Begin({.id = "req-two"}), second = traces_.Begin({.id = "req-two"});
  first->SetCancellable(one);
  second->SetCancellable(other);
  const auto bystander = std::make_shared<Request>();
  const auto third = traces_.Begin({.id = "req-three"});
  third->SetCancellable(bystander);
  for (const std::string& fields : {std::string(), Bearer(KeyWith(auth::kAllButAdmin))})
    EXPECT_THAT(post("req-two", fields).status, ::testing::AnyOf(401, 403));
  EXPECT_EQ(one->cancels, 0);
  EXPECT_EQ(post("req-two", admin).body,
            R"({"object":"request.cancel","id":"req-two","cancelled":2})");
  EXPECT_EQ(one->cancels, 1);
  EXPECT_EQ(other->cancels, 1);
  EXPECT_EQ(bystander->cancels, 0);
  EXPECT_EQ(post("req-none", admin).status, 404);
  // One has ended, the other one was never in an engine.
  first->engine().Append({.kind = api::TraceEvent::Kind::kEnded});
  second->SetCancellable({});
  const RawResponse late = post("req-two", admin);
  EXPECT_EQ(late.status, 409) << late.body;
  EXPECT_THAT(late.body, HasSubstr("already_finished"));
  EXPECT_EQ(one->cancels, 1);
}

// Regression: it had no end, as if it still ran.
TEST_F(LiveTest, ARequestWhoseClientLeftBeforeTheEngineHadItIsCancelled) {
  StartServer();
  {
    RawClient client(port());
    client.Send(Post("/v1/chat/completions", kChatBody, "X-Request-Id: req-left\r\n"));
    ASSERT_NE(inference_.Generation(0), nullptr);
  }
  std::string trace;
  EXPECT_TRUE(Eventually([&] {
    trace = Ask(Get("/admin/requests/req-left")).body;
    return trace.find(R"("state":"ended","end":"cancelled","status":499)") != std::string::npos;
  })) << trace;
}

TEST_F(LiveTest, ErrorsHoldNoBytesOfClients) {
  StartServer();
  Ask(Post("/v1/chat/completions",
           R"({"model":"my-secret-model","messages":[{"role":"user","content":"hi"}]})",
           "X-Request-Id: req-wrong\r\n"));
  Ask(Post("/v1/chat/completions", R"({"my-secret)"));
  inference_.on_generate = [](const auto&) {
    return Unavailable("queue_full", "the queue for \"my-secret-model\" is full");
  };
  Ask(Post("/v1/chat/completions", kChatBody));
  const std::string state = Ask(Get("/admin/state")).body;
  EXPECT_THAT(
      state,
      AllOf(HasSubstr(R"("request":"req-wrong","route":"/v1/chat/completions","status":404)"),
            HasSubstr(R"("code":"model_not_found","message":null)"),
            HasSubstr(R"("code":"invalid_json")"), HasSubstr(R"("code":"queue_full")"),
            HasSubstr(R"(the queue for \"...\" is full)")));
  EXPECT_THAT(state, Not(HasSubstr("my-secret")));
}

TEST_F(LiveTest, HeadOfTheStreamEnds) {
  StartServer();
  std::string request = Get("/admin/events");
  request.replace(0, 3, "HEAD");
  const RawResponse response = Ask(request, /*head_only=*/true);
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(Eventually([&] { return server_->active_requests() == 0; }));
}

TEST_F(LiveTest, StateListsClientsSessionsWorkersAndLimits) {
  live_source_.Change([](api::LiveState* state) {
    state->clients.push_back({.protocol = api::LiveClient::Protocol::kMqtt311,
                              .client_id = "c1",
                              .tenant = "t",
                              .user = "ann",
                              .since = {},
                              .subscriptions = 2});
    state->clients_left_out = 5;
    for (int i = 0; i < 70; ++i) {
      state->sessions.push_back({.tenant = "t",
                                 .project = i == 0 ? "" : "p",
                                 .session = "s" + std::to_string(i),
                                 .user = i < 66 ? "ann" : "",
                                 .response = i == 0 ? "resp_1" : "",
                                 .running = i == 0 ? 1 : 0,
                                 .waiting = 2});
    }
    state->sessions_left_out = 3;
    state->workers.push_back({.name = "w1",
                              .draining = true,
                              .models = {"m"},
                              .in_flight = 4,
                              .silent = milliseconds(1500)});
    state->limits.push_back(
        {"key", "key:abc", {{"requests_per_minute", {60, 59, milliseconds(1000)}}}});
  });
  StartServer();
  const std::string body = Ask(Get("/admin/state")).body;
  EXPECT_THAT(
      body,
      AllOf(
          HasSubstr(R"("clients":[{"protocol":"mqtt3.1.1","client_id":"c1","tenant":"t",)"),
          HasSubstr(R"("sessions":66,"subscriptions":2}],"clients_left_out":5)"),
          HasSubstr(R"({"session":"s0","project":null,"tenant":"t","user":"ann","state":"running",)"
                    R"("running":1,"waiting":2,"response":"resp_1"})"),
          HasSubstr(R"("session":"s63")"), HasSubstr(R"("sessions_left_out":9)"),
          HasSubstr(R"("workers":[{"name":"w1","state":"draining","models":["m"])"),
          HasSubstr(R"("in_flight":4)"), HasSubstr(R"("silent_ms":1500)"),
          HasSubstr(R"({"of":"key","name":"key:abc","limits":[{"limit":"requests_per_minute",)"
                    R"("max":60,"remaining":59,"reset_s":1)")));
  EXPECT_THAT(body, Not(HasSubstr(R"("session":"s64")")));
}

TEST_F(LiveTest, ChatSocketsAreClientsWhileTheyAreOpen) {
  StartServer();
  {
    SocketClient ada(port(), "", "/v1/ws?user=ada");
    ASSERT_TRUE(ada.accepted()) << ada.head();
    EXPECT_THAT(Ask(Get("/admin/state")).body,
                AllOf(HasSubstr(R"("protocol":"websocket","client_id":null,)"),
                      HasSubstr(R"("user":"ada")")));
  }
  EXPECT_TRUE(Eventually(
      [&] { return Ask(Get("/admin/state")).body.find(R"("clients":[])") != std::string::npos; }));
}

}  // namespace
}  // namespace tutti::http::testing
