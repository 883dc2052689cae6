// Access control over MQTT: every topic of the table (chat/topics) and every verb, by every
// kind of caller, through the listener's sockets, with the logins, services and profiles of a
// server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/testing/fake_inference.h"
#include "app/mqtt/mqtt_login.h"
#include "app/store.h"
#include "app/testing/no_lines.h"
#include "base/clock.h"
#include "mqtt/topics.h"
#include "protocol/chat/native.h"
#include "server/mqtt/chat/profile.h"
#include "server/mqtt/chat/topics.h"
#include "server/mqtt/listener/listener.h"
#include "server/mqtt/listener/testing/socket_client.h"
#include "services/admission/admission.h"
#include "services/auth/principal.h"
#include "services/auth/testing/opened_store.h"

namespace tutti::app {
namespace {

using mqtt::ReasonCode, mqtt::Version;
using mqtt::chat::Party, mqtt::chat::TopicRule, mqtt::chat::TopicRules;
using mqtt::listener::testing::SocketClient;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPrefix[] = "llm/v1", kProject[] = "driving", kTenant[] = "default";
constexpr char kPassword[] = "correct horse battery";

struct Person {
  std::string user, password;
  bool member = false;  // of the project
  bool admin = false;
};

// A topic of the table, with every name filled in.
struct Instance {
  const TopicRule* rule;
  std::string topic;
};

// The rule's topic for that user, with the levels of one topic for the other parts.
std::string TopicOf(const TopicRule& rule, const std::string& user) {
  std::string topic(rule.pattern);
  const auto replace = [&topic](const std::string& mark, const std::string& by) {
    if (const size_t at = topic.find(mark); at != std::string::npos)
      topic.replace(at, mark.size(), by);
  };
  replace("{prefix}", kPrefix);
  replace("{project}", kProject);
  replace("{user}", user);
  replace("{session}", "s");
  replace("{rest}", "x/y");
  return topic;
}

// Whether a row of the table allows it; independent of the implementation of access checks.
bool May(Party TopicRule::*what, const Person& who, std::string_view topic,
         const std::vector<std::string>& users) {
  for (const TopicRule& rule : TopicRules()) {
    for (const std::string& user : users) {
      std::string filter(rule.pattern);
      for (const auto& [mark, by] : {std::pair<std::string, std::string>{"{prefix}", kPrefix},
                                     {"{project}", kProject},
                                     {"{user}", user},
                                     {"{session}", "+"},
                                     {"{rest}", "#"}}) {
        if (const size_t at = filter.find(mark); at != std::string::npos)
          filter.replace(at, mark.size(), by);
      }
      if (!mqtt::TopicMatches(filter, topic)) continue;
      switch (rule.*what) {
        case Party::kUnset:
        case Party::kNobody:
          break;
        case Party::kUser:
          if (who.user == user) return true;
          break;
        case Party::kAnybody:
          return true;
        case Party::kMember:
          if (who.member) return true;
          break;
        case Party::kAdmin:
          if (who.member && who.admin) return true;
          break;
      }
    }
  }
  return false;
}

// All ways to put wildcards into a topic.
std::set<std::string> WildcardsOf(const std::string& topic) {
  std::vector<std::string> levels;
  for (size_t at = 0; at <= topic.size();) {
    const size_t slash = std::min(topic.find('/', at), topic.size());
    levels.push_back(topic.substr(at, slash - at));
    at = slash + 1;
  }
  std::set<std::string> filters;
  for (unsigned mask = 0; mask < 1U << levels.size(); ++mask) {
    std::string filter;
    for (size_t i = 0; i < levels.size(); ++i) {
      filters.insert(filter + "#");
      filter += (mask >> i & 1U) != 0 ? "+" : levels[i];
      if (i + 1 < levels.size()) filter += '/';
    }
    filters.insert(filter);
    filters.insert(filter + "/#");
  }
  return filters;
}

// A client of MQTT 5; messages and acknowledgements may come in any order.
class Client {
 public:
  explicit Client(int port, Version version = Version::k5) : socket_(port, version) {}

  ReasonCode Login(const Person& who, const std::string& client_id,
                   std::optional<mqtt::Will> will = {}) {
    return socket_.Connect(mqtt::Connect{.keep_alive_s = 60,
                                         .client_id = client_id,
                                         .user_name = who.user,
                                         .password = who.password,
                                         .will = std::move(will)});
  }
  // The acknowledgement of a QoS 1 message, or the reason of the disconnect.
  ReasonCode Publish(const std::string& topic, const std::string& payload,
                     const std::string& response_topic = "", bool retain = false) {
    mqtt::Publish packet{.topic = topic, .payload = payload, .qos = 1, .retain = retain};
    packet.packet_id = ++last_id_;
    if (!response_topic.empty()) packet.properties.response_topic = response_topic;
    socket_.Send(packet);
    return Wait<mqtt::Puback>();
  }
  ReasonCode Subscribe(const std::string& filter) {
    socket_.Send(mqtt::Subscribe{.packet_id = 1, .subscriptions = {{.filter = filter, .qos = 1}}});
    while (const auto packet = Next()) {
      if (const auto* told = std::get_if<mqtt::Suback>(&*packet)) return told->reasons.at(0);
    }
    return ReasonCode::kUnspecified;
  }
  void Unsubscribe(const std::string& filter) {
    socket_.Send(mqtt::Unsubscribe{.packet_id = 2, .filters = {filter}});
    while (const auto packet = Next()) {
      if (std::holds_alternative<mqtt::Unsuback>(*packet)) return;
    }
  }
  // The next message that contains `part`; messages before it are skipped, and kept.
  std::optional<mqtt::Publish> Receive(const std::string& part) {
    for (size_t i = 0;; ++i) {
      while (i >= heard_.size()) {
        if (!Next().has_value()) return std::nullopt;
      }
      if (heard_[i].payload.find(part) != std::string::npos) return heard_[i];
    }
  }
  const std::vector<mqtt::Publish>& heard() const { return heard_; }
  bool WaitClosed() { return socket_.WaitClosed(); }
  SocketClient& socket() { return socket_; }

 private:
  template <typename Ack>
  ReasonCode Wait() {
    while (const auto packet = Next()) {
      if (const auto* ack = std::get_if<Ack>(&*packet)) return ack->reason;
      if (const auto* goodbye = std::get_if<mqtt::Disconnect>(&*packet)) return goodbye->reason;
    }
    return ReasonCode::kUnspecified;
  }
  std::optional<mqtt::Packet> Next() {
    std::optional<mqtt::Packet> packet = socket_.NextPacket();
    if (!packet.has_value()) return packet;
    if (const auto* message = std::get_if<mqtt::Publish>(&*packet)) {
      if (message->qos > 0) socket_.Send(mqtt::Puback{.packet_id = message->packet_id});
      heard_.push_back(*message);
    }
    return packet;
  }

  SocketClient socket_;
  uint16_t last_id_ = 10;
  std::vector<mqtt::Publish> heard_;
};

class MqttAccessTest : public ::testing::Test {
 protected:
  MqttAccessTest() {
    models_.on_generate = [](const std::shared_ptr<api::testing::FakeGeneration>& generation) {
      generation->AppendAnswer({"what ann was told"});
      return OkStatus();
    };
    mqtt::chat::ProfileOptions options;
    options.prefix = kPrefix;
    options.tenant = kTenant;
    options.node = "node-1";
    options.projects.push_back({.name = kProject, .tenant = kTenant, .model = "small"});
    profile_ = *mqtt::chat::Profile::Make(
        options, {.port = listener_,
                  .sessions = sessions_,
                  .responses = responses_,
                  .inference = admission_,
                  .clock = clock_,
                  .unix_ms = &UnixMillis,
                  .log = log_,
                  .admit = nullptr,
                  .caller_of = [this](const std::string& credential,
                                      const std::string& tenant) -> Result<api::CallerRef> {
                    ASSIGN_OR_RETURN(const auth::PrincipalRef who,
                                     authority_->FromCredential(credential, std::time(nullptr)));
                    api::Caller caller = *auth::CallerOf(*who);
                    caller.tenant = tenant;
                    return std::make_shared<const api::Caller>(std::move(caller));
                  }});
    EXPECT_TRUE(profile_->Subscribe().ok());
    EXPECT_TRUE(listener_
                    .Subscribe("#",
                               [this](const mqtt::Message&, mqtt::Receipt receipt) {
                                 ++taken_;
                                 receipt.Accept();
                               })
                    .ok());
    EXPECT_TRUE(listener_.Start().ok());
    profile_->Start();
  }
  ~MqttAccessTest() override {
    profile_->Stop();
    listener_.Stop();
  }

  static api::testing::FakeModel Model(const std::string& id) {
    api::testing::FakeModel model;
    model.info.id = id;
    return model;
  }
  static mqtt::listener::ListenerOptions FreePort() {
    mqtt::listener::ListenerOptions options;
    options.port = 0;
    options.limits.packets_per_s = options.limits.packet_burst = 1'000'000;
    options.limits.login_check = std::chrono::milliseconds(20);
    return options;
  }
  static std::vector<MqttProject> Projects() {
    MqttProject project;
    project.name = kProject;
    project.model = "small";
    return {project};
  }

  Person AddUser(const std::string& name, const std::string& tenant, bool admin = false) {
    auth::UserRecord user{.name = name,
                          .password_hash = *auth::HashPassword(kPassword, auth::testing::kQuick),
                          .grant = {}};
    user.grant.tenant = tenant;
    if (admin) user.grant.scopes.routes.Add(auth::RouteClass::kAdmin);
    EXPECT_TRUE(accounts_->CreateUser(user).ok());
    return {name, kPassword, tenant == kTenant, admin};
  }
  Person AddKey(const std::string& name, const std::string& tenant, auth::Scopes scopes = {},
                std::optional<int64_t> expires_s = {}) {
    auth::KeySpec spec{.name = name, .grant = {}, .expires_s = expires_s};
    spec.grant.tenant = tenant;
    spec.grant.scopes = std::move(scopes);
    const auto key = accounts_->CreateKey(spec, std::time(nullptr));
    EXPECT_TRUE(key.ok()) << key.status();
    return {name, key->text, tenant == kTenant, false};
  }
  // All kinds of accepted callers.
  std::vector<Person> AddPeople() {
    std::vector<Person> people = {AddUser("ann", kTenant),
                                  AddUser("bob", kTenant),
                                  AddUser("root", kTenant, /*admin=*/true),
                                  AddUser("eve", "umbrella"),
                                  AddUser("boss", "umbrella", /*admin=*/true),
                                  AddKey("app", kTenant)};
    people.push_back(AddKey("narrow", kTenant, {.models = {"other"}}));
    people.back().member = false;  // the project's model is not its
    for (const Person& each : people) users_.push_back(each.user);
    return people;
  }
  // Every topic of the table, of every user.
  std::vector<Instance> Instances() const {
    std::vector<Instance> instances;
    for (const TopicRule& rule : TopicRules()) {
      const bool of_user = rule.pattern.find("{user}") != std::string_view::npos;
      for (const std::string& user : of_user ? users_ : std::vector<std::string>{""})
        instances.push_back({&rule, TopicOf(rule, user)});
    }
    return instances;
  }
  static std::string MessageJson(const std::string& id, const std::string& text) {
    return R"({"id":")" + id + R"(","type":"message","input":")" + text + "\"}";
  }
  static std::string Own(const Person& who, const std::string& channel) {
    return std::string(kPrefix) + "/" + who.user + "/s/" + channel;
  }
  int port() const { return listener_.port(); }

  SteadyClock clock_;
  Logger log_{LogLevel::kError, std::make_shared<testing::NoLines>()};
  std::vector<store::Migration> tables_ = StoreTables();
  std::unique_ptr<store::Store> store_ = *store::Store::Open({}, tables_);
  std::unique_ptr<auth::Accounts> accounts_ = *auth::Accounts::Open(store_.get());
  std::unique_ptr<auth::Authenticator> authority_ =
      *auth::Authenticator::Create(accounts_.get(), {.hash = auth::testing::kQuick});
  api::testing::FakeInference models_{{Model("small"), Model("other")}};
  limits::Limiter limiter_{{}, &clock_, &UnixSeconds};
  admission::Admission admission_{{},
                                  {.inference = &models_,
                                   .limiter = &limiter_,
                                   .unix_ms = &UnixMillis,
                                   .valid =
                                       [this](const api::Caller& caller) {
                                         return authority_->StillValid(caller.credential,
                                                                       std::time(nullptr));
                                       },
                                   .counted = [](const api::Caller&) { return false; }}};
  responses::Responses responses_{{}, admission_, *store_, clock_, &UnixSeconds};
  sessions::Sessions sessions_{{}, admission_, *store_, responses_, clock_, &UnixSeconds};
  MqttLogin login_{*authority_, kPrefix, /*loopback=*/true, Projects(), kTenant};
  mqtt::listener::Listener listener_{FreePort(),
                                     {.authenticator = &login_, .log = &log_, .clock = &clock_}};
  std::unique_ptr<mqtt::chat::Profile> profile_;
  std::atomic<int> taken_{0};  // messages of clients that were delivered
  std::vector<std::string> users_;
};

// The other tests rely on this table, so a change of a row must be repeated here.
TEST(TopicRulesTest, TheTableOfWhoMayDoWhat) {
  const auto word = [](Party party) {
    constexpr const char* kWords[] = {"?", "-", "user", "anybody", "member", "admin"};
    return std::string(kWords[static_cast<size_t>(party)]);
  };
  std::string table;
  for (const TopicRule& rule : TopicRules()) {
    table += std::string(rule.pattern) + " " + word(rule.publishes) + " " + word(rule.reads) + " " +
             word(rule.answered) + "\n";
  }
  EXPECT_EQ(table,
            "{prefix}/{user}/{session}/in user user -\n"
            "{prefix}/{user}/{session}/ctl user user -\n"
            "{prefix}/{user}/{session}/out - user user\n"
            "{prefix}/{user}/status user user -\n"
            "{prefix}/{user}/{rest} - user user\n"
            "{prefix}/server/{rest} - anybody -\n"
            "{project}/user_input member - -\n"
            "{project}/template admin - -\n"
            "{project}/template/{session} admin - -\n"
            "{project}/clear admin - -\n"
            "{project}/clear/{session} admin - -\n"
            "{project}/delete admin - -\n"
            "{project}/delete/{session} admin - -\n"
            "{project}/assistant_response/{rest} - member member\n"
            "{project}/status - member -\n");
}

TEST_F(MqttAccessTest, EveryTopicIsPublishedToByThoseOfItsRowAlone) {
  const std::vector<Person> people = AddPeople();
  int allowed = 0, refused = 0;
  for (const Person& who : people) {
    Client client(port());
    ASSERT_EQ(client.Login(who, "c"), ReasonCode::kSuccess) << who.user;
    for (const Instance& each : Instances()) {
      const bool may = May(&TopicRule::publishes, who, each.topic, users_);
      const int before = taken_.load();
      const ReasonCode told = client.Publish(each.topic, "{}");
      EXPECT_EQ(told, may ? ReasonCode::kSuccess : ReasonCode::kNotAuthorized)
          << who.user << " to " << each.topic;
      EXPECT_EQ(taken_.load() - before, may ? 1 : 0) << who.user << " to " << each.topic;
      ++(may ? allowed : refused);
      if (may) continue;
      // 3.1.1 and QoS 0 have no negative acknowledgement, so the connection ends.
      Client old(port(), Version::k311);
      ASSERT_EQ(old.Login(who, "old"), ReasonCode::kSuccess);
      old.socket().Send(mqtt::Publish{.topic = each.topic, .payload = "{}"});
      EXPECT_TRUE(old.WaitClosed()) << who.user << " to " << each.topic;
    }
  }
  EXPECT_GT(allowed, 30);
  EXPECT_GT(refused, 200);
}

TEST_F(MqttAccessTest, NothingIsRetainedAndNoWillIsTakenWhereATopicIsNotTheirs) {
  const std::vector<Person> people = AddPeople();
  for (const Person& who : people) {
    for (const Instance& each : Instances()) {
      const bool may = May(&TopicRule::publishes, who, each.topic, users_);
      const bool keeps = may && each.rule->topic == mqtt::chat::Topic::kClientStatus;
      for (const bool retain : {false, true}) {
        Client client(port());
        const ReasonCode expected = !may             ? ReasonCode::kNotAuthorized
                                    : retain > keeps ? ReasonCode::kRetainNotSupported
                                                     : ReasonCode::kSuccess;
        EXPECT_EQ(client.Login(who, "c",
                               mqtt::Will{.topic = each.topic, .payload = "{}", .retain = retain}),
                  expected)
            << who.user << " with a Will to " << each.topic;
      }
      if (!may) continue;
      Client client(port());
      ASSERT_EQ(client.Login(who, "c"), ReasonCode::kSuccess);
      EXPECT_EQ(client.Publish(each.topic, "{}", "", /*retain=*/true),
                keeps ? ReasonCode::kSuccess : ReasonCode::kRetainNotSupported)
          << who.user << " to " << each.topic;
    }
  }
}

TEST_F(MqttAccessTest, EveryTopicIsReadByThoseOfItsRowAloneWhateverTheWildcards) {
  const std::vector<Person> people = AddPeople();
  const std::vector<Instance> instances = Instances();
  std::set<std::string> filters;
  for (const Instance& each : instances) filters.merge(WildcardsOf(each.topic));
  int granted = 0, refused = 0;
  for (const Person& who : people) {
    Client client(port());
    ASSERT_EQ(client.Login(who, "c"), ReasonCode::kSuccess) << who.user;
    for (const Instance& each : instances) {
      const bool may = May(&TopicRule::reads, who, each.topic, users_);
      EXPECT_EQ(client.Subscribe(each.topic),
                may ? ReasonCode::kGrantedQos1 : ReasonCode::kNotAuthorized)
          << who.user << " of " << each.topic;
      client.Unsubscribe(each.topic);
    }
    for (const std::string& filter : filters) {
      const ReasonCode told = client.Subscribe(filter);
      client.Unsubscribe(filter);
      ++(told == ReasonCode::kGrantedQos1 ? granted : refused);
      if (told != ReasonCode::kGrantedQos1) {
        EXPECT_EQ(told, ReasonCode::kNotAuthorized) << filter;
        continue;
      }
      for (const Instance& each : instances) {
        if (!mqtt::TopicMatches(filter, each.topic)) continue;
        EXPECT_TRUE(May(&TopicRule::reads, who, each.topic, users_))
            << who.user << " of " << filter << " reads " << each.topic;
      }
    }
  }
  EXPECT_GT(granted, 100);
  EXPECT_GT(refused, 1000);
}

TEST_F(MqttAccessTest, EveryResponseTopicIsTheAskersOwn) {
  const std::vector<Person> people = AddPeople();
  int refused = 0;
  for (const Person& who : people) {
    Client client(port());
    ASSERT_EQ(client.Login(who, "c"), ReasonCode::kSuccess) << who.user;
    for (const Instance& from : Instances()) {
      if (!May(&TopicRule::publishes, who, from.topic, users_)) continue;
      for (const Instance& to : Instances()) {
        const bool may = May(&TopicRule::answered, who, to.topic, users_);
        EXPECT_EQ(client.Publish(from.topic, "{}", to.topic),
                  may ? ReasonCode::kSuccess : ReasonCode::kNotAuthorized)
            << who.user << " to " << from.topic << ", answered at " << to.topic;
        refused += may ? 0 : 1;
      }
    }
  }
  EXPECT_GT(refused, 500);
}

// Clients publish on the topics below a user's name, so a server that answered there would receive
// its own messages.
TEST_F(MqttAccessTest, NobodyIsAnsweredWhereClientsSpeak) {
  const Person ann = AddPeople().front();
  Client client(port());
  ASSERT_EQ(client.Login(ann, "c"), ReasonCode::kSuccess);
  ASSERT_EQ(client.Subscribe("llm/v1/ann/other/out"), ReasonCode::kGrantedQos1);
  int tried = 0;
  for (const TopicRule& rule : TopicRules()) {
    if (rule.of_project() || rule.reads != Party::kUser || rule.answered != Party::kNobody)
      continue;
    const std::string there = TopicOf(rule, ann.user), id = "m-" + std::to_string(++tried);
    ASSERT_EQ(client.Subscribe(there), ReasonCode::kGrantedQos1);
    EXPECT_EQ(client.Publish("llm/v1/ann/other/in", MessageJson(id, "hi"), there),
              ReasonCode::kSuccess);
    const auto refusal = client.Receive("\"" + id + "\"");
    ASSERT_TRUE(refusal.has_value()) << there;
    EXPECT_THAT(refusal->payload, HasSubstr("invalid_value"));
    for (const mqtt::Publish& each : client.heard()) EXPECT_NE(each.topic, there) << each.payload;
  }
  EXPECT_EQ(tried, 3);
}

TEST_F(MqttAccessTest, WhoIsNotLetInReachesNothing) {
  const std::vector<Person> people = AddPeople();
  const auto connect = [](std::optional<std::string> user, std::optional<std::string> password) {
    return mqtt::Connect{.keep_alive_s = 60,
                         .client_id = "c",
                         .user_name = std::move(user),
                         .password = std::move(password)};
  };
  const Person embeds = AddKey("embeds", kTenant, {.routes = {auth::RouteClass::kEmbed}});
  const Person admin = AddKey("admin", kTenant, {.routes = {auth::RouteClass::kAdmin}});
  const Person revoked = AddKey("revoked", kTenant);
  ASSERT_TRUE(accounts_->RevokeKeys("revoked", std::time(nullptr)).ok());
  ASSERT_TRUE(accounts_->EnableUser("bob", false).ok());
  const std::string key = people[5].password;
  constexpr auto kWrong = ReasonCode::kBadUserNameOrPassword, kScope = ReasonCode::kNotAuthorized;
  const std::vector<std::tuple<std::string, mqtt::Connect, ReasonCode>> logins = {
      {"no login", connect({}, {}), kWrong},
      {"a name alone", connect("ann", {}), kWrong},
      {"a password alone", connect({}, kPassword), kWrong},
      {"a wrong password", connect("ann", "wrong horse battery"), kWrong},
      {"an empty password", connect("ann", ""), kWrong},
      {"an unknown user", connect("nobody", kPassword), kWrong},
      {"a disabled user", connect("bob", kPassword), kWrong},
      {"the name of an open server", connect("local", {}), kWrong},
      {"another's key", connect("ann", key), kWrong},
      {"a key without its name", connect({}, key), kWrong},
      {"a wrong key", connect("app", key + "x"), kWrong},
      {"a revoked key", connect("revoked", revoked.password), kWrong},
      {"a key that may only embed", connect("embeds", embeds.password), kScope},
      {"a key that may only administer", connect("admin", admin.password), kScope},
  };
  for (const auto& [who, login, reason] : logins) {
    for (const Version version : {Version::k311, Version::k5}) {
      Client client(port(), version);
      mqtt::Connect packet = login;
      // 3.1.1 has no password without a name (3.1.2.9).
      if (version == Version::k311 && !packet.user_name.has_value()) packet.password.reset();
      EXPECT_EQ(client.socket().Connect(packet), reason) << who;
      EXPECT_TRUE(client.WaitClosed()) << who;
    }
    // After CONNECT but before its answer, and without CONNECT.
    for (const bool connects : {true, false}) {
      for (const Instance& each : Instances()) {
        Client eager(port());
        if (connects) eager.socket().Send(login);
        eager.socket().Send(mqtt::Publish{.topic = each.topic, .payload = "{}"});
        eager.socket().Send(
            mqtt::Subscribe{.packet_id = 1, .subscriptions = {{.filter = each.topic, .qos = 1}}});
        while (const auto packet = eager.socket().NextPacket()) {
          const auto* refusal = std::get_if<mqtt::Connack>(&*packet);
          ASSERT_TRUE(refusal != nullptr && connects) << who << " at " << each.topic;
          EXPECT_EQ(refusal->reason, reason) << who;
        }
      }
      if (who != "no login" && !connects) break;
    }
  }
  EXPECT_EQ(taken_.load(), 0);
}

// A request of each verb for ann's data.
std::string Taking(protocol::MqttControl::Verb verb, const std::string& id,
                   const std::string& response_id) {
  using Verb = protocol::MqttControl::Verb;
  const std::string of_response = R"(,"response_id":")" + response_id + "\"";
  std::string more;
  switch (verb) {
    case Verb::kCancel:
    case Verb::kResume:
      more = of_response;
      break;
    case Verb::kFork:
      more = R"(,"into":"mine")";
      break;
    case Verb::kSubscribe:
      more = R"(,"job_id":"job_0")";
      break;
    case Verb::kHistory:
    case Verb::kClear:
    case Verb::kPing:
      break;
  }
  for (const protocol::MqttVerb& each : protocol::MqttVerbs()) {
    if (each.verb == verb)
      return R"({"id":")" + id + R"(","type":")" + std::string(each.name) + "\"" + more + "}";
  }
  return "a verb without a name";
}

TEST_F(MqttAccessTest, EveryVerbReachesTheAskersOwnDialogsAlone) {
  const std::vector<Person> people = AddPeople();
  Client ann(port());
  ASSERT_EQ(ann.Login(people[0], "c"), ReasonCode::kSuccess);
  ASSERT_EQ(ann.Subscribe(Own(people[0], "out")), ReasonCode::kGrantedQos1);
  ASSERT_EQ(ann.Publish(Own(people[0], "in"), MessageJson("m-1", "what ann said")),
            ReasonCode::kSuccess);
  const auto accepted = ann.Receive("\"response_id\":\"");
  ASSERT_TRUE(accepted.has_value());
  const size_t at = accepted->payload.find("\"response_id\":\"") + 15;
  const std::string response_id =
      accepted->payload.substr(at, accepted->payload.find('"', at) - at);
  ASSERT_TRUE(ann.Receive("response.completed").has_value());

  for (const Person& who : people) {
    const bool herself = who.user == "ann";
    for (const protocol::MqttVerb& verb : protocol::MqttVerbs()) {
      // Clearing would leave no data of ann for the other verbs.
      if (herself && verb.verb == protocol::MqttControl::Verb::kClear) continue;
      Client client(port());
      ASSERT_EQ(client.Login(who, "v"), ReasonCode::kSuccess);
      ASSERT_EQ(client.Subscribe(Own(who, "out")), ReasonCode::kGrantedQos1);
      const std::string asked = Taking(verb.verb, "q-1", response_id);
      // On ann's topic.
      EXPECT_EQ(client.Publish(Own(people[0], "ctl"), asked),
                herself ? ReasonCode::kSuccess : ReasonCode::kNotAuthorized)
          << who.user << " " << verb.name;
      if (herself) continue;
      // On the caller's own topic, for ann's data.
      EXPECT_EQ(client.Publish(Own(who, "ctl"), asked), ReasonCode::kSuccess);
      ASSERT_TRUE(client.Receive("\"q-1\"").has_value()) << who.user << " " << verb.name;
      // A fork, if one was made, must not show ann's dialog.
      EXPECT_EQ(client.Publish(std::string(kPrefix) + "/" + who.user + "/mine/ctl",
                               R"({"id":"q-2","type":"history"})", Own(who, "out")),
                ReasonCode::kSuccess);
      ASSERT_TRUE(client.Receive("\"q-2\"").has_value()) << who.user << " " << verb.name;
      for (const mqtt::Publish& each : client.heard()) {
        EXPECT_THAT(each.payload, Not(HasSubstr("what ann"))) << who.user << " " << verb.name;
        EXPECT_THAT(each.payload, Not(HasSubstr("cancelled"))) << who.user << " " << verb.name;
      }
    }
  }
  // Checks that ann's data still exists, so that the searches above were meaningful.
  Client again(port());
  ASSERT_EQ(again.Login(people[0], "w"), ReasonCode::kSuccess);
  ASSERT_EQ(again.Subscribe(Own(people[0], "out")), ReasonCode::kGrantedQos1);
  using Verb = protocol::MqttControl::Verb;
  again.Publish(Own(people[0], "ctl"), Taking(Verb::kResume, "q-3", response_id));
  EXPECT_TRUE(again.Receive("what ann was told").has_value());
  again.Publish(Own(people[0], "ctl"), Taking(Verb::kHistory, "q-4", response_id));
  EXPECT_TRUE(again.Receive("what ann said").has_value());
}

TEST_F(MqttAccessTest, AModelThatWasNotGivenAnswersNobody) {
  const std::vector<Person> people = AddPeople();
  const Person& narrow = people.back();
  Client client(port());
  ASSERT_EQ(client.Login(narrow, "c"), ReasonCode::kSuccess);
  ASSERT_EQ(client.Subscribe(Own(narrow, "out")), ReasonCode::kGrantedQos1);
  EXPECT_EQ(client.Publish(Own(narrow, "in"), MessageJson("m-1", "hi")), ReasonCode::kSuccess);
  EXPECT_TRUE(client.Receive("insufficient_scope").has_value());
  EXPECT_EQ(client.Publish(Own(narrow, "in"),
                           R"({"id":"m-2","type":"message","input":"hi","model":"other"})"),
            ReasonCode::kSuccess);
  EXPECT_TRUE(client.Receive("response.completed").has_value());
}

TEST_F(MqttAccessTest, AnOpenServerTakesEverybodyUnderAnyName) {
  const Person ann{"ann", "", /*member=*/true, /*admin=*/true};
  users_ = {"ann", "bob"};
  Client client(port());
  ASSERT_EQ(client.Login(ann, "c"), ReasonCode::kSuccess);
  for (const Instance& each : Instances()) {
    EXPECT_EQ(client.Publish(each.topic, "{}"), May(&TopicRule::publishes, ann, each.topic, users_)
                                                    ? ReasonCode::kSuccess
                                                    : ReasonCode::kNotAuthorized)
        << each.topic;
  }
}

// Regression: connections made before the first key existed stayed open and could publish.
TEST_F(MqttAccessTest, AConnectionToAnOpenServerEndsWithTheFirstKey) {
  Client client(port());
  ASSERT_EQ(client.Login({"ann", ""}, "c"), ReasonCode::kSuccess);
  ASSERT_EQ(client.Subscribe("llm/v1/ann/#"), ReasonCode::kGrantedQos1);
  AddKey("app", kTenant);
  EXPECT_TRUE(client.WaitClosed());
}

// Regression: revoking a key ended its connections, but its expiry did not.
TEST_F(MqttAccessTest, AConnectionEndsWhenItsKeyExpires) {
  const int64_t now = std::time(nullptr);
  const Person brief = AddKey("brief", kTenant, {}, now + 2), rotated = AddKey("turned", kTenant),
               lasting = AddKey("lasting", kTenant);
  Client first(port()), second(port()), third(port());
  ASSERT_EQ(first.Login(brief, "c"), ReasonCode::kSuccess);
  ASSERT_EQ(second.Login(rotated, "c"), ReasonCode::kSuccess);
  ASSERT_EQ(third.Login(lasting, "c"), ReasonCode::kSuccess);
  ASSERT_TRUE(accounts_->RotateKey("turned", /*grace_s=*/1, now).ok());
  EXPECT_TRUE(first.WaitClosed());
  EXPECT_TRUE(second.WaitClosed());
  EXPECT_EQ(third.Publish(Own(lasting, "ctl"), "{}"), ReasonCode::kSuccess);
}

// Regression: topics contain names but no tenants, so each of the two could read the other's
// answers.
TEST_F(MqttAccessTest, AKeyThatIsCalledLikeAUserOfAnotherTenantIsNotLetIn) {
  AddUser("ann", kTenant);
  const Person same = AddKey("ann", "umbrella"), free = AddKey("app", "umbrella");
  Client refused(port()), client(port());
  EXPECT_EQ(refused.Login(same, "c"), ReasonCode::kBadUserNameOrPassword);
  ASSERT_EQ(client.Login(free, "c"), ReasonCode::kSuccess);
  AddUser("app", kTenant);
  EXPECT_TRUE(client.WaitClosed()) << "a user comes before a key, also when it comes later";
  ASSERT_TRUE(accounts_->RevokeKeys("ann", std::time(nullptr)).ok());
  Client own(port());
  EXPECT_EQ(own.Login(AddKey("ann", kTenant), "c"), ReasonCode::kSuccess) << "of one tenant";
}

}  // namespace
}  // namespace tutti::app
