// A frontend and workers with a broker between them that loses, doubles and forgets packets, and
// with fakes for models.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/testing/fake_inference.h"
#include "broker/testing/fake_broker.h"
#include "cluster/channel/channel_link.h"
#include "cluster/channel/channel_port.h"
#include "cluster/channel/mailbox_names.h"
#include "cluster/inference_codec.h"
#include "cluster/worker_pool.h"

namespace tutti::cluster {
namespace {

using api::testing::FakeGeneration;
using api::testing::FakeInference;
using api::testing::FakeModel;
using std::chrono::milliseconds;
using std::chrono::seconds;

bool Soon(const std::function<bool()>& condition, seconds limit = seconds(30)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

FakeModel ModelM() {
  FakeModel model;
  model.info.id = "m";
  model.info.max_model_len = 128;
  model.info.vocab_size = 256;
  model.info.digest = "d";
  return model;
}

struct FarWorker {
  FarWorker(broker::testing::FakeBroker& fake_broker, const std::string& name,
            uint32_t protocol = kProtocol)
      : inference({ModelM()}) {
    v1::Hello hello;
    hello.set_protocol(protocol);
    hello.set_name(name);
    for (const api::ModelInfo& model : inference.Models()) ToWire(model, hello.add_models());
    hello.set_places(64);
    hello.set_max_num_seqs(4);
    hello.set_arithmetic("scalar");
    auto opened =
        OpenChannelLink(fake_broker.MakeBroker(), {.name = "q", .broker = "fake"}, std::move(hello),
                        {.inference = &inference,
                         .health = &inference,
                         .clock = &clock,
                         .flush = [](const std::string*) -> uint64_t { return 3; }},
                        nullptr);
    EXPECT_TRUE(opened.ok()) << opened.status();
    link = *std::move(opened);
  }

  SteadyClock clock;
  FakeInference inference;
  std::unique_ptr<WorkerLink> link;
};

class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override { OpenPort("one"); }
  void TearDown() override {
    workers_.clear();
    port_.reset();
  }
  void OpenPort(const std::string& id) {
    auto port =
        ChannelPort::Open(fake_broker_.MakeBroker(), {.name = "q", .id = id, .broker = "fake"},
                          pool_, clock_, nullptr);
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *std::move(port);
  }
  FarWorker& Add(const std::string& name) {
    const int before = pool_.figures().workers;
    workers_.push_back(std::make_unique<FarWorker>(fake_broker_, name));
    EXPECT_TRUE(Soon([&] { return pool_.figures().workers == before + 1; }));
    return *workers_.back();
  }
  api::Generation Generate(const std::string& text) {
    api::GenerateRequest request;
    request.model = "m";
    request.prompt = api::TextPrompt{text};
    request.sampling.temperature = 0;
    Result<api::Generation> generation = pool_.Generate(std::move(request), nullptr);
    EXPECT_TRUE(generation.ok()) << generation.status();
    return generation.ok() ? *std::move(generation) : api::Generation();
  }
  static Status ReadAll(api::Generation& generation, std::string* text) {
    const bool ended = Soon([&] {
      while (const api::StreamEvent* event = generation.Next()) {
        *text += event->text;
        generation.Consumed(event->text.size());
      }
      return generation.stream().ended() && generation.Next() == nullptr;
    });
    return ended ? generation.stream().status() : Internal("did not end");
  }

  SteadyClock clock_;
  std::atomic<api::LoadLevel> level_{api::LoadLevel::kGreen};
  WorkerPool pool_{clock_, level_, nullptr};
  broker::testing::FakeBroker fake_broker_;
  std::unique_ptr<ChannelPort> port_;
  std::vector<std::unique_ptr<FarWorker>> workers_;
};

TEST_F(ChannelTest, AGenerationCrossesBothWays) {
  FarWorker& worker = Add("a");
  EXPECT_TRUE(Soon([&] { return pool_.ready().ok() && worker.link->attached(); }));
  api::Generation generation = Generate("hello");
  ASSERT_TRUE(Soon([&] { return worker.inference.Generation(0) != nullptr; }));
  worker.inference.Generation(0)->Answer({"a", "b", "c"});
  std::string text;
  EXPECT_TRUE(ReadAll(generation, &text).ok());
  EXPECT_EQ(text, "abc");
  EXPECT_EQ(pool_.Flush(nullptr), 3u);
  EXPECT_EQ(pool_.Detokenize({.model = "m", .tokens = {'o', 'k'}}).value(), "ok");
}

TEST_F(ChannelTest, AReaderThatGoesAwayCancelsAtTheWorker) {
  FarWorker& worker = Add("a");
  {
    api::Generation generation = Generate("x");
    ASSERT_TRUE(Soon([&] { return worker.inference.Generation(0) != nullptr; }));
  }
  EXPECT_TRUE(Soon([&] { return worker.inference.Generation(0)->cancelled.load(); }));
}

TEST_F(ChannelTest, AWorkerOfAnotherBuildIsRefused) {
  FarWorker other(fake_broker_, "old", kProtocol + 1);
  std::this_thread::sleep_for(milliseconds(800));
  EXPECT_EQ(pool_.figures().workers, 0);
  Add("new");
}

TEST_F(ChannelTest, ABrokerThatIsWipedAndComesBackLosesNothing) {
  FarWorker& worker = Add("a");
  std::vector<api::Generation> generations;
  for (int i = 0; i < 8; ++i) generations.push_back(Generate("x" + std::to_string(i)));
  ASSERT_TRUE(Soon([&] { return worker.inference.Generation(7) != nullptr; }));
  for (int i = 0; i < 8; ++i) {
    worker.inference.Generation(i)->Started();
    worker.inference.Generation(i)->Token("one ");
    worker.inference.Generation(i)->Wake();
  }
  for (int times = 0; times < 3; ++times) {
    fake_broker_.GoDown();
    for (int i = 0; i < 8; ++i) {
      worker.inference.Generation(i)->Token("more ");
      worker.inference.Generation(i)->Wake();
    }
    std::this_thread::sleep_for(milliseconds(300));
    fake_broker_.ComeBack();
    std::this_thread::sleep_for(milliseconds(200));
  }
  for (int i = 0; i < 8; ++i) {
    worker.inference.Generation(i)->ChoiceEnd();
    worker.inference.Generation(i)->End();
    worker.inference.Generation(i)->Wake();
  }
  for (api::Generation& generation : generations) {
    std::string text;
    EXPECT_TRUE(ReadAll(generation, &text).ok());
    EXPECT_EQ(text, "one more more more ");
  }
  EXPECT_EQ(pool_.figures().lost, 0u);
  EXPECT_EQ(worker.inference.generations(), 8u);  // none was computed twice
}

TEST_F(ChannelTest, PacketsThatAreLostOrDoubledChangeNothing) {
  fake_broker_.SetFaults(/*lost=*/10, /*doubled=*/10);
  FarWorker& worker = Add("a");
  std::vector<api::Generation> generations;
  for (int i = 0; i < 20; ++i) generations.push_back(Generate(std::to_string(i)));
  ASSERT_TRUE(Soon([&] { return worker.inference.Generation(19) != nullptr; }));
  for (int i = 0; i < 20; ++i)
    worker.inference.Generation(i)->Answer({"a", std::to_string(i), "z"});
  for (int i = 0; i < 20; ++i) {
    std::string text;
    EXPECT_TRUE(ReadAll(generations[static_cast<size_t>(i)], &text).ok());
    EXPECT_EQ(text, "a" + std::to_string(i) + "z");
  }
  EXPECT_EQ(worker.inference.generations(), 20u);
}

TEST_F(ChannelTest, AFrontThatStartsAgainIsFoundAtOnce) {
  FarWorker& worker = Add("a");
  port_.reset();
  EXPECT_EQ(pool_.figures().workers, 0);
  OpenPort("one");
  EXPECT_TRUE(Soon([&] { return pool_.figures().workers == 1; }, seconds(5)));
  api::Generation generation = Generate("x");
  ASSERT_TRUE(Soon([&] { return worker.inference.Generation(0) != nullptr; }));
  worker.inference.Generation(0)->Answer({"y"});
  std::string text;
  EXPECT_TRUE(ReadAll(generation, &text).ok());
}

TEST_F(ChannelTest, AWorkerThatDrainsHandsInAllItHas) {
  FarWorker& worker = Add("a");
  api::Generation generation = Generate("x");
  ASSERT_TRUE(Soon([&] { return worker.inference.Generation(0) != nullptr; }));
  std::thread answers([&] {
    std::this_thread::sleep_for(milliseconds(200));
    worker.inference.Generation(0)->Answer({"y"});
  });
  EXPECT_TRUE(worker.link->Drain(seconds(10)));
  answers.join();
  worker.link.reset();
  std::string text;
  EXPECT_TRUE(ReadAll(generation, &text).ok());
  EXPECT_EQ(text, "y");
  EXPECT_TRUE(Soon([&] { return pool_.figures().workers == 0; }));
  EXPECT_EQ(pool_.figures().lost, 0u);
}

TEST_F(ChannelTest, AWorkerThatLeavesWithWorkIsUnderNoSuspicion) {
  FarWorker& worker = Add("a");
  api::Generation generation = Generate("x");
  ASSERT_TRUE(Soon([&] { return worker.inference.Generation(0) != nullptr; }));
  worker.link.reset();
  std::string text;
  EXPECT_EQ(ReadAll(generation, &text).reason(), "worker_unreachable");
  FarWorker& other = Add("b");
  api::Generation again = Generate("x");
  ASSERT_TRUE(Soon([&] { return other.inference.Generation(0) != nullptr; }));
  other.inference.Generation(0)->Answer({"y"});
  EXPECT_TRUE(ReadAll(again, &text).ok());
}

TEST_F(ChannelTest, RubbishInTheMailboxesChangesNothing) {
  FarWorker& worker = Add("a");
  std::mt19937_64 random(3);
  std::vector<std::string> rubbish = {"", "x", std::string(100'000, '\xFF')};
  const auto packet = [&](const std::function<void(v1::Packet*)>& fill) {
    v1::Packet one;
    one.set_from(WorkerMailbox("q", "stranger"));
    fill(&one);
    rubbish.push_back(one.SerializeAsString());
  };
  packet([](v1::Packet* one) { one->set_from("amq.topic"), one->set_who(true); });
  packet([](v1::Packet* one) { one->set_from(std::string(300, 'x')), one->set_who(true); });
  packet([](v1::Packet* one) { one->set_session(5), one->set_number(2); });
  packet([](v1::Packet* one) { one->set_session(6), one->set_number(1), one->set_part("\xFF"); });
  packet([](v1::Packet* one) { one->set_session(7), one->set_number(1); });  // no hello
  packet([](v1::Packet* one) { one->set_session(8), one->set_over(true); });
  packet([](v1::Packet* one) { one->set_received(UINT64_MAX), one->set_session(9); });
  for (int i = 0; i < 200; ++i) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    rubbish.push_back(std::move(bytes));
  }
  for (const std::string& each : rubbish) {
    fake_broker_.Put(FrontendMailbox("q", "one"), each);
    fake_broker_.Put(SharedMailbox("q"), each);
  }
  api::Generation generation = Generate("x");
  ASSERT_TRUE(Soon([&] { return worker.inference.Generation(0) != nullptr; }));
  worker.inference.Generation(0)->Answer({"y"});
  std::string text;
  EXPECT_TRUE(ReadAll(generation, &text).ok());
  EXPECT_EQ(pool_.figures().workers, 1);
}

TEST(MailboxNamesTest, NamesOfQueuesAreChecked) {
  for (const char* good : {"a", "tutti", "A-b_9"}) EXPECT_TRUE(CheckQueueName(good).ok()) << good;
  for (const std::string bad : {"", "a.b", "a b", "ä"})
    EXPECT_FALSE(CheckQueueName(bad).ok()) << bad;
  EXPECT_FALSE(CheckQueueName(std::string(65, 'a')).ok());
}

}  // namespace
}  // namespace tutti::cluster
