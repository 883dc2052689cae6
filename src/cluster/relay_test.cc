// A worker's list of models, and the loads and unloads that its frontend asks for.
#include "cluster/relay.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/testing/fake_inference.h"
#include "cluster/inference_codec.h"

namespace tutti::cluster {
namespace {

using api::testing::FakeInference;
using api::testing::FakeModel;

struct NoWaker final : Waker {
  void Wake() noexcept override {}
};

struct FakeControl final : api::ModelControl {
  void Load(const std::string& model, Done done) override {
    asked.push_back("load " + model);
    held.push_back(std::move(done));
  }
  void Unload(const std::string& model, Done done) override {
    asked.push_back("unload " + model);
    done(OkStatus());
  }
  void KeepAlive(const std::string& model, Duration keep_alive) override {
    asked.push_back("keep " + model + " " + std::to_string(keep_alive.count()));
  }
  void Rescan() override { asked.emplace_back("rescan"); }

  std::vector<std::string> asked;
  std::vector<Done> held;
};

FakeModel Named(const std::string& id) {
  FakeModel model;
  model.info.id = id;
  model.info.digest = "d";
  return model;
}

class RelayTest : public ::testing::Test {
 protected:
  Relay::Ports Ports(api::ModelControl* control) {
    return {.inference = &inference_,
            .health = &inference_,
            .clock = &clock_,
            .control = control,
            .memory_budget = 77};
  }
  v1::WorkerMessage Beat(Relay& relay) {
    v1::WorkerMessage message;
    relay.FillBeat(&message);
    return message;
  }
  static api::ModelState StateIn(const v1::WorkerMessage& message, const std::string& id) {
    for (const v1::WireModelState& state : message.beat().models())
      if (state.id() == id) return FromWire(state.status()).state;
    ADD_FAILURE() << id << " is not in the heartbeat";
    return api::ModelState::kFailed;
  }
  static uint64_t Ask(Relay& relay, v1::Call call) {
    static uint64_t next = 1;
    call.set_id(next++);
    v1::FrontendMessage message;
    *message.add_calls() = call;
    relay.Receive(message);
    return call.id();
  }

  SteadyClock clock_;
  FakeInference inference_{{Named("a")}};
  std::shared_ptr<Waker> waker_ = std::make_shared<NoWaker>();
};

TEST_F(RelayTest, ListsAreSentWhenTheyChange) {
  Relay relay(Ports(nullptr), waker_);
  const v1::Hello hello = relay.Announce({});
  ASSERT_EQ(hello.models_size(), 1);
  EXPECT_EQ(hello.models(0).id(), "a");
  v1::WorkerMessage beat = Beat(relay);
  EXPECT_FALSE(beat.has_models());
  EXPECT_EQ(beat.beat().memory_budget(), 77);
  EXPECT_EQ(StateIn(beat, "a"), api::ModelState::kLoaded);
  FakeModel other = Named("b");
  other.info.status.state = api::ModelState::kUnloaded;
  inference_.PutFirst(other);
  beat = Beat(relay);
  EXPECT_EQ(beat.models().models_size(), 2);
  inference_.Remove("b");
  other.info.status.state = api::ModelState::kLoaded;
  inference_.Add(other);
  beat = Beat(relay);
  EXPECT_FALSE(beat.has_models()) << "order and state are no change of the list";
  EXPECT_EQ(StateIn(beat, "b"), api::ModelState::kLoaded);
  inference_.Remove("b");
  EXPECT_EQ(Beat(relay).models().models_size(), 1);
  // Another frontend knows nothing yet.
  EXPECT_EQ(relay.Announce({}).models_size(), 1);
}

TEST_F(RelayTest, AListThatIsGivenStays) {
  Relay relay(Ports(nullptr), waker_);
  v1::Hello hello;
  ToWire(Named("x").info, hello.add_models());
  EXPECT_EQ(relay.Announce(hello).models(0).id(), "x");
  EXPECT_FALSE(Beat(relay).has_models());
}

TEST_F(RelayTest, LoadsAreAnsweredWhenTheyEnd) {
  FakeControl control;
  Relay relay(Ports(&control), waker_);
  v1::Call call;
  call.set_load("a");
  const uint64_t load = Ask(relay, call);
  call.set_unload("a");
  const uint64_t unload = Ask(relay, call);
  call.mutable_keep_alive()->set_model("a");
  call.mutable_keep_alive()->set_keep_alive(5);
  Ask(relay, call);
  call.set_rescan(true);
  Ask(relay, call);
  EXPECT_EQ(control.asked, (std::vector<std::string>{"load a", "unload a", "keep a 5", "rescan"}));
  v1::WorkerMessage message;
  ASSERT_TRUE(relay.Next(&message));
  ASSERT_EQ(message.updates_size(), 3);
  EXPECT_EQ(message.updates(0).id(), unload);
  control.held[0](Unavailable("model_load_failed", "no"));
  message.Clear();
  ASSERT_TRUE(relay.Next(&message));
  EXPECT_EQ(message.updates(0).id(), load);
  EXPECT_EQ(message.updates(0).ended().reason(), "model_load_failed");
}

// The frontend that asked is gone: another one may use the same numbers.
TEST_F(RelayTest, AnswersToAnEarlierFrontendAreDiscarded) {
  FakeControl control;
  {
    Relay relay(Ports(&control), waker_);
    v1::Call call;
    call.set_load("a");
    Ask(relay, call);
    relay.Drop();
    control.held[0](OkStatus());
    v1::WorkerMessage message;
    EXPECT_FALSE(relay.Next(&message));
    Ask(relay, call);
  }
  control.held[1](OkStatus());  // after the relay has gone
}

TEST_F(RelayTest, WithoutAControlLoadsAreRefused) {
  Relay relay(Ports(nullptr), waker_);
  v1::Call call;
  call.set_load("a");
  Ask(relay, call);
  v1::WorkerMessage message;
  ASSERT_TRUE(relay.Next(&message));
  EXPECT_EQ(message.updates(0).ended().reason(), "not_implemented");
}

}  // namespace
}  // namespace tutti::cluster
