// Frontend and workers in one process, over the real socket: pool, port, links and relays, with
// fakes for models.
#include "cluster/worker_pool.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/testing/fake_inference.h"
#include "base/random.h"
#include "cluster/grpc/frontend_port.h"
#include "cluster/grpc/worker_link.h"
#include "cluster/inference_codec.h"

namespace tutti::cluster {
namespace {

using api::testing::FakeGeneration;
using api::testing::FakeInference;
using api::testing::FakeModel;
using std::chrono::milliseconds;
using std::chrono::seconds;

bool Eventually(const std::function<bool()>& condition, seconds limit = seconds(10)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

FakeModel Generator() {
  FakeModel model;
  model.info.id = "m";
  model.info.aliases = {"alias"};
  model.info.max_model_len = 128;
  model.info.vocab_size = 256;
  model.info.digest = "d";
  return model;
}

FakeModel Encoder() {
  FakeModel model;
  model.info.id = "e";
  model.info.generates = false;
  model.info.encoder.emplace();
  model.info.encoder->width = 2;
  model.check = [](const api::EncodeRequest& request, const api::ModelInfo&) {
    return request.inputs.size() > 8 ? ResourceExhausted("queue_full", "too many") : OkStatus();
  };
  model.answer = [](const api::EncodeRequest& request, const api::ModelInfo&) {
    api::EncodeResult result;
    result.width = 2;
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      result.values.push_back(static_cast<float>(i));
      result.values.push_back(0.5f);
      result.tokens.push_back(3);
    }
    return result;
  };
  return model;
}

// A worker of this process.
struct TestWorker {
  TestWorker(const std::string& socket, const std::string& name, int places = 64)
      : inference({Generator(), Encoder()}) {
    v1::Hello hello = HelloOf(inference, name, places);
    Open(socket, std::move(hello));
  }
  static v1::Hello HelloOf(const FakeInference& inference, const std::string& name, int places) {
    v1::Hello hello;
    hello.set_protocol(kProtocol);
    hello.set_name(name);
    for (const api::ModelInfo& model : inference.Models()) ToWire(model, hello.add_models());
    hello.set_places(places);
    hello.set_max_num_seqs(4);
    hello.set_arithmetic("scalar");
    return hello;
  }
  void Open(const std::string& socket, v1::Hello hello) {
    auto opened = WorkerLink::Open(socket, std::move(hello),
                                   {.inference = &inference,
                                    .health = &inference,
                                    .clock = &clock,
                                    .flush = [this](const std::string* tenant) -> uint64_t {
                                      ++flushes;
                                      return tenant == nullptr ? 5 : 2;
                                    }},
                                   nullptr);
    ASSERT_TRUE(opened.ok()) << opened.status();
    link = *std::move(opened);
  }
  // Like a killed process: nothing is sent.
  void Die() { link.reset(); }

  SteadyClock clock;
  FakeInference inference;
  std::atomic<int> flushes{0};
  std::unique_ptr<WorkerLink> link;
};

class WorkerPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/tutti_pool_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    socket_ = folder_ + "/w.sock";
    OpenPort();
  }
  void TearDown() override {
    workers_.clear();
    port_.reset();
    std::filesystem::remove_all(folder_);
  }
  void OpenPort() {
    auto port = FrontendPort::Open(socket_, pool_);
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *std::move(port);
  }
  TestWorker& Add(const std::string& name, int places = 64) {
    const int before = pool_.figures().workers;
    workers_.push_back(std::make_unique<TestWorker>(socket_, name, places));
    EXPECT_TRUE(Eventually([&] { return pool_.figures().workers == before + 1; }));
    return *workers_.back();
  }
  static api::GenerateRequest Ask(const std::string& text, double temperature = 0) {
    api::GenerateRequest request;
    request.model = "m";
    request.prompt = api::TextPrompt{text};
    request.sampling.temperature = temperature;
    return request;
  }
  static std::string TextOf(const FakeGeneration& generation) {
    return std::get<api::TextPrompt>(generation.request.prompt).text;
  }
  api::Generation Generate(api::GenerateRequest request) {
    Result<api::Generation> generation = pool_.Generate(std::move(request), nullptr);
    EXPECT_TRUE(generation.ok()) << generation.status();
    return generation.ok() ? *std::move(generation) : api::Generation();
  }
  // Reads until its end.
  static Status ReadAll(api::Generation& generation, std::string* text) {
    const bool ended = Eventually([&] {
      while (const api::StreamEvent* event = generation.Next()) {
        *text += event->text;
        generation.Consumed(event->text.size());
      }
      return generation.stream().ended() && generation.Next() == nullptr;
    });
    EXPECT_TRUE(ended);
    return ended ? generation.stream().status() : Internal("did not end");
  }
  // Waits for `tokens` events with text.
  static void Read(api::Generation& generation, std::string* text, size_t tokens) {
    size_t seen = 0;
    EXPECT_TRUE(Eventually([&] {
      while (const api::StreamEvent* event = generation.Next()) {
        if (event->kind == api::StreamEvent::Kind::kToken) ++seen;
        *text += event->text;
      }
      return seen >= tokens;
    }));
  }

  static bool HasPoison(TestWorker& worker) {
    for (size_t i = 0; i < worker.inference.generations(); ++i) {
      if (TextOf(*worker.inference.Generation(i)) == "poison") return true;
    }
    return false;
  }

  std::atomic<int> poisoned_{0};
  SteadyClock clock_;
  std::atomic<api::LoadLevel> level_{api::LoadLevel::kGreen};
  WorkerPool pool_{clock_, level_, nullptr};
  std::string folder_, socket_;
  std::unique_ptr<FrontendPort> port_;
  std::vector<std::unique_ptr<TestWorker>> workers_;
};

// Regression: a network that was interrupted for a while made suspects of requests that had killed
// no worker.
TEST_F(WorkerPoolTest, SilentWorkersMakeNoSuspectsAndRequestMovesTwice) {
  struct Deaf final : WorkerPool::Connection {
    void Wake() override {}
    void Close() override {}
  };
  const FakeInference models({Generator()});
  std::vector<WorkerPool::WorkerRef> workers;
  for (int i = 0; i < 4; ++i) {
    auto worker = pool_.Attach(TestWorker::HelloOf(models, "w" + std::to_string(i), 4),
                               std::make_shared<Deaf>());
    ASSERT_TRUE(worker.ok());
    workers.push_back(*worker);
  }
  api::Generation generation = Generate(Ask("x"));
  const auto has_it = [&](const WorkerPool::WorkerRef& worker) {
    v1::FrontendMessage message;
    return pool_.TakeMessage(worker, &message) && message.calls_size() == 1;
  };
  for (int moved = 0; moved <= WorkerPool::kMaxMoves; ++moved) {
    const auto with = std::find_if(workers.begin(), workers.end(), has_it);
    ASSERT_NE(with, workers.end()) << moved;
    EXPECT_FALSE(generation.stream().ended());
    pool_.Lost(*with, WorkerPool::Ended::kSilence);
    workers.erase(with);
  }
  std::string text;
  EXPECT_EQ(ReadAll(generation, &text).reason(), "worker_lost");
  EXPECT_EQ(pool_.figures().quarantined, 0u);
  EXPECT_EQ(pool_.figures().resumed, 2u);
  api::Generation again = Generate(Ask("x"));
  EXPECT_TRUE(has_it(workers.front()));
  pool_.Lost(workers.front());
  EXPECT_EQ(ReadAll(again, &text).reason(), "worker_lost");
}

// Regression: two workers with other weights under one name were both accepted, so that an answer
// depended on which of them was free.
TEST_F(WorkerPoolTest, RefusesAnotherDigestOfTheSameModel) {
  struct Deaf final : WorkerPool::Connection {
    void Wake() override {}
    void Close() override {}
  };
  FakeModel changed = Generator();
  changed.info.digest = "e";
  const FakeInference models({Generator()}), others({changed});
  const auto attach = [&](const FakeInference& served, const std::string& name) {
    return pool_.Attach(TestWorker::HelloOf(served, name, 4), std::make_shared<Deaf>());
  };
  const auto first = attach(models, "first");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(attach(models, "second").ok());
  const Status refused = attach(others, "third").status();
  EXPECT_EQ(refused.reason(), "invalid_value");
  EXPECT_NE(refused.message().find("model m has digest e, at worker first it has d"),
            std::string::npos)
      << refused;
  EXPECT_EQ(pool_.figures().workers, 2);
}

// Weights can be replaced while the frontend runs.
TEST_F(WorkerPoolTest, TakesAnotherDigestOnceTheOldWorkersDrain) {
  struct Deaf final : WorkerPool::Connection {
    void Wake() override {}
    void Close() override {}
  };
  FakeModel changed = Generator();
  changed.info.digest = "e";
  const FakeInference models({Generator()}), others({changed});
  const auto first = pool_.Attach(TestWorker::HelloOf(models, "a", 4), std::make_shared<Deaf>());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(pool_.Attach(TestWorker::HelloOf(others, "b", 4), std::make_shared<Deaf>()).ok());
  v1::WorkerMessage beat;
  beat.mutable_beat()->set_draining(true);
  pool_.Receive(*first, beat);
  EXPECT_TRUE(pool_.Attach(TestWorker::HelloOf(others, "b", 4), std::make_shared<Deaf>()).ok());
}

TEST_F(WorkerPoolTest, WithoutWorkersItIsNotReadyAndSaysWhy) {
  EXPECT_EQ(pool_.started().reason(), "model_loading");
  EXPECT_EQ(pool_.ready().reason(), "model_loading");
  EXPECT_EQ(pool_.Generate(Ask("x"), nullptr).status().reason(), "model_loading");
  EXPECT_TRUE(pool_.Models().empty());
}

TEST_F(WorkerPoolTest, TheSocketIsTheUsersAlone) {
  struct stat known {};
  ASSERT_EQ(stat(socket_.c_str(), &known), 0);
  EXPECT_EQ(known.st_mode & 077, 0u);
}

TEST_F(WorkerPoolTest, AGenerationCrossesBothWays) {
  TestWorker& worker = Add("a");
  EXPECT_TRUE(pool_.ready().ok());
  ASSERT_EQ(pool_.Models().size(), 2u);
  api::GenerateRequest request = Ask("hello");
  request.model = "alias";
  request.tenant = "t";
  api::Generation generation = Generate(std::move(request));
  const auto at_worker = worker.inference.Generation(0);
  ASSERT_NE(at_worker, nullptr);
  EXPECT_EQ(at_worker->request.tenant, "t");
  EXPECT_EQ(at_worker->request.model, "m");
  EXPECT_EQ(TextOf(*at_worker), "hello");
  at_worker->Answer({"a", "b", "c"});
  std::string text;
  EXPECT_TRUE(ReadAll(generation, &text).ok());
  EXPECT_EQ(text, "abc");
}

TEST_F(WorkerPoolTest, WhatIsRefusedThereIsRefusedHere) {
  TestWorker& worker = Add("a");
  worker.inference.on_generate = [](const auto&) {
    return Status(StatusCode::kInvalidArgument, "context_length_exceeded", "too long")
        .WithParam("messages");
  };
  api::Generation generation = Generate(Ask("x"));
  std::string text;
  const Status status = ReadAll(generation, &text);
  EXPECT_EQ(status.reason(), "context_length_exceeded");
  EXPECT_EQ(status.param(), "messages");
  // Invalid requests are refused without a worker.
  EXPECT_EQ(pool_.Generate(Ask("x", 5), nullptr).status().param(), "temperature");
  api::GenerateRequest other = Ask("x");
  other.model = "none";
  EXPECT_EQ(pool_.Generate(other, nullptr).status().reason(), "model_not_found");
}

TEST_F(WorkerPoolTest, EncodingsTokensAndFlushesCross) {
  TestWorker& worker = Add("a");
  api::EncodeRequest request;
  request.inputs = {std::string("one"), std::string("two")};
  Result<api::Encoding> encoding = pool_.Encode(request, nullptr);
  ASSERT_TRUE(encoding.ok());
  ASSERT_TRUE(Eventually([&] { return encoding->done(); }));
  const Result<api::EncodeResult> result = encoding->Take();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->values, (std::vector<float>{0, 0.5f, 1, 0.5f}));
  request.inputs.assign(9, std::string("x"));
  Result<api::Encoding> refused = pool_.Encode(request, nullptr);
  ASSERT_TRUE(refused.ok());
  ASSERT_TRUE(Eventually([&] { return refused->done(); }));
  EXPECT_EQ(refused->Take().status().reason(), "queue_full");

  const auto tokens =
      pool_.Tokenize({.model = "m", .prompt = api::TextPrompt{"hi"}, .pieces = true});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->tokens, (std::vector<TokenId>{'h', 'i'}));
  EXPECT_EQ(tokens->pieces.size(), 2u);
  EXPECT_EQ(*pool_.Detokenize({.model = "m", .tokens = {'o', 'k'}}), "ok");
  EXPECT_EQ(pool_.Detokenize({.model = "m", .tokens = {999}}).status().reason(),
            "token_out_of_range");
  EXPECT_EQ(pool_.Flush(nullptr), 5u);
  const std::string tenant = "t";
  EXPECT_EQ(pool_.Flush(&tenant), 2u);
  EXPECT_EQ(worker.flushes.load(), 2);
}

TEST_F(WorkerPoolTest, AReaderThatGoesAwayCancelsAtTheWorker) {
  TestWorker& worker = Add("a");
  {
    api::Generation generation = Generate(Ask("x"));
    ASSERT_NE(worker.inference.Generation(0), nullptr);
  }
  EXPECT_TRUE(Eventually([&] { return worker.inference.Generation(0)->cancelled.load(); }));
}

TEST_F(WorkerPoolTest, ALostWorkerEndsWhatNobodyElseCanGoOnWith) {
  TestWorker& worker = Add("a");
  std::vector<api::Generation> generations;
  for (int i = 0; i < 8; ++i) generations.push_back(Generate(Ask("x" + std::to_string(i))));
  ASSERT_NE(worker.inference.Generation(7), nullptr);
  worker.Die();
  for (api::Generation& generation : generations) {
    std::string text;
    EXPECT_EQ(ReadAll(generation, &text).reason(), "worker_lost");
  }
  EXPECT_EQ(pool_.figures().lost, 1u);
  EXPECT_EQ(pool_.figures().failed, 8u);
  EXPECT_EQ(pool_.ready().reason(), "model_loading");
  EXPECT_EQ(pool_.Generate(Ask("y"), nullptr).status().reason(), "model_loading");
  Add("a again");
  EXPECT_TRUE(pool_.ready().ok());
}

TEST_F(WorkerPoolTest, ALostModelIsWaitedForByAllItsNamesAndOthersAreNotKnown) {
  TestWorker& worker = Add("a");
  FakeInference others({Encoder()});
  TestWorker other(socket_, "b");
  other.Die();
  other.Open(socket_, TestWorker::HelloOf(others, "b", 4));
  EXPECT_TRUE(Eventually([&] { return pool_.figures().workers == 2; }));
  worker.Die();
  EXPECT_TRUE(Eventually([&] { return pool_.figures().workers == 1; }));
  for (const char* name : {"m", "alias"}) {
    api::GenerateRequest request = Ask("x");
    request.model = name;
    EXPECT_EQ(pool_.Generate(request, nullptr).status().reason(), "model_loading") << name;
  }
  api::GenerateRequest request = Ask("x");
  request.model = "none";
  EXPECT_EQ(pool_.Generate(request, nullptr).status().reason(), "model_not_found");
}

TEST_F(WorkerPoolTest, AnotherWorkerGoesOnWhereTheReaderStands) {
  TestWorker& first = Add("a");
  api::Generation generation = Generate(Ask("x"));
  const auto begun = first.inference.Generation(0);
  ASSERT_NE(begun, nullptr);
  begun->Started();
  begun->Token("one ");
  begun->Token("two ");
  begun->Wake();
  std::string text;
  Read(generation, &text, 2);
  TestWorker& second = Add("b");
  first.Die();
  const auto again = second.inference.Generation(0);
  ASSERT_NE(again, nullptr);
  again->Answer({"one ", "two ", "three"});
  EXPECT_TRUE(ReadAll(generation, &text).ok());
  EXPECT_EQ(text, "one two three");
  EXPECT_EQ(pool_.figures().resumed, 1u);
}

TEST_F(WorkerPoolTest, AnAnswerThatComesOutDifferentlyIsNotMixedWithTheFirst) {
  TestWorker& first = Add("a");
  api::Generation generation = Generate(Ask("x"));
  first.inference.Generation(0)->Started();
  first.inference.Generation(0)->Token("one ");
  first.inference.Generation(0)->Wake();
  std::string text;
  Read(generation, &text, 1);
  TestWorker& second = Add("b");
  first.Die();
  const auto again = second.inference.Generation(0);
  ASSERT_NE(again, nullptr);
  again->Started();
  again->Token("uno ");
  again->Token("dos ");
  again->Wake();
  EXPECT_EQ(ReadAll(generation, &text).reason(), "worker_lost");
  EXPECT_EQ(text, "one ");
  EXPECT_TRUE(Eventually([&] { return again->cancelled.load(); }));
}

TEST_F(WorkerPoolTest, WhatIsDrawnWithoutASeedBeginsAgainOnlyBeforeItsFirstToken) {
  TestWorker& first = Add("a");
  api::Generation fresh = Generate(Ask("fresh", 1.0));
  ASSERT_NE(first.inference.Generation(0), nullptr);
  api::Generation drawn = Generate(Ask("drawn", 1.0));
  const auto begun = first.inference.Generation(1);
  ASSERT_NE(begun, nullptr);
  begun->Started();
  begun->Token("one ");
  begun->Wake();
  std::string text, other;
  Read(drawn, &text, 1);
  TestWorker& second = Add("b");
  first.Die();
  EXPECT_EQ(ReadAll(drawn, &text).reason(), "worker_lost");
  const auto again = second.inference.Generation(0);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(TextOf(*again), "fresh");
  again->Answer({"yes"});
  EXPECT_TRUE(ReadAll(fresh, &other).ok());
  EXPECT_EQ(other, "yes");
}

// Row N72: the request that kills its worker is found by trying suspects one at a time; the other
// requests are computed again once.
TEST_F(WorkerPoolTest, QuarantinesPoisonRequestAfterTwoDeaths) {
  std::vector<api::Generation> generations;
  TestWorker* worker = &Add("w0");
  for (int i = 0; i < 32; ++i)
    generations.push_back(Generate(Ask(i == 13 ? "poison" : "ask " + std::to_string(i))));
  ASSERT_NE(worker->inference.Generation(31), nullptr);
  const auto dies_of_poison = [this](TestWorker& at) {
    at.inference.on_generate = [this](const std::shared_ptr<FakeGeneration>& asked) {
      if (TextOf(*asked) != "poison") asked->AppendAnswer({"fine"});
      if (TextOf(*asked) == "poison") poisoned_.fetch_add(1);
      return OkStatus();
    };
  };
  TestWorker& second = Add("w1");
  TestWorker& third = Add("w2");
  dies_of_poison(second);
  dies_of_poison(third);
  worker->Die();
  ASSERT_TRUE(Eventually([&] { return poisoned_.load() == 1; }));
  (second.inference.generations() > 0 && HasPoison(second) ? second : third).Die();
  int fine = 0;
  for (size_t i = 0; i < generations.size(); ++i) {
    std::string text;
    const Status status = ReadAll(generations[i], &text);
    if (i == 13) {
      EXPECT_EQ(status.reason(), "request_quarantined");
    } else {
      EXPECT_TRUE(status.ok()) << i << " " << status;
      fine += text == "fine";
    }
  }
  EXPECT_EQ(fine, 31);
  EXPECT_EQ(poisoned_.load(), 1);
  EXPECT_EQ(pool_.figures().quarantined, 1u);
  // A further request of the same content is refused at once.
  EXPECT_EQ(pool_.Generate(Ask("poison"), nullptr).status().reason(), "request_quarantined");
  EXPECT_TRUE(pool_.Generate(Ask("ask 3"), nullptr).ok());
}

TEST_F(WorkerPoolTest, ADrainingWorkerGetsNothingNewAndEndsWhatItHas) {
  TestWorker& first = Add("a");
  api::Generation running = Generate(Ask("x"));
  const auto at_first = first.inference.Generation(0);
  ASSERT_NE(at_first, nullptr);
  TestWorker& second = Add("b");
  bool clean = false;
  std::thread drain([&] { clean = first.link->Drain(seconds(20)); });
  EXPECT_TRUE(Eventually([&] { return pool_.figures().draining == 1; }));
  api::Generation next = Generate(Ask("y"));
  ASSERT_NE(second.inference.Generation(0), nullptr);
  at_first->Answer({"done"});
  std::string text;
  EXPECT_TRUE(ReadAll(running, &text).ok());
  drain.join();
  EXPECT_TRUE(clean);
  first.Die();
  EXPECT_TRUE(Eventually([&] { return pool_.figures().workers == 1; }));
  EXPECT_EQ(pool_.figures().lost, 0u);
}

TEST_F(WorkerPoolTest, ASlowReadersEventsStayAtTheWorker) {
  TestWorker& worker = Add("a");
  api::Generation generation = Generate(Ask("x"));
  const auto at_worker = worker.inference.Generation(0);
  ASSERT_NE(at_worker, nullptr);
  at_worker->Started();
  const std::string piece(1000, 'p');
  size_t sent = 0;
  // The worker's stream fills once the frontend has paused it.
  EXPECT_TRUE(Eventually([&] {
    at_worker->Token(piece);
    at_worker->Wake();
    ++sent;
    return at_worker->stream->unread_bytes() > (64 << 10);
  }));
  EXPECT_LT(generation.stream().unread_bytes(), 16 * WorkerPool::kPauseBytes);
  at_worker->End();
  at_worker->Wake();
  std::string text;
  EXPECT_TRUE(ReadAll(generation, &text).ok());
  EXPECT_EQ(text.size(), sent * piece.size());
}

TEST_F(WorkerPoolTest, AFrontThatComesAgainFindsItsWorkers) {
  TestWorker& worker = Add("a");
  api::Generation generation = Generate(Ask("x"));
  ASSERT_NE(worker.inference.Generation(0), nullptr);
  port_.reset();
  std::string text;
  EXPECT_EQ(ReadAll(generation, &text).reason(), "worker_lost");
  EXPECT_TRUE(Eventually([&] { return worker.inference.Generation(0)->cancelled.load(); }));
  OpenPort();
  EXPECT_TRUE(Eventually([&] { return pool_.ready().ok(); }));
  api::Generation next = Generate(Ask("y"));
  ASSERT_NE(worker.inference.Generation(1), nullptr);
}

TEST_F(WorkerPoolTest, AWorkerOfAnotherProtocolIsNotTaken) {
  FakeInference inference({Generator()});
  TestWorker worker(socket_, "old", 1);
  EXPECT_TRUE(Eventually([&] { return pool_.figures().workers == 1; }));
  worker.Die();
  EXPECT_TRUE(Eventually([&] { return pool_.figures().workers == 0; }));
  v1::Hello hello = TestWorker::HelloOf(inference, "old", 1);
  hello.set_protocol(kProtocol + 1);
  worker.Open(socket_, hello);
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(pool_.figures().workers, 0);
}

TEST_F(WorkerPoolTest, FullWorkersAreAQueueThatIsFull) {
  Add("a", 2);
  api::Generation one = Generate(Ask("1")), two = Generate(Ask("2"));
  EXPECT_EQ(pool_.Generate(Ask("3"), nullptr).status().reason(), "queue_full");
}

TEST_F(WorkerPoolTest, AShortageOfTheFrontsMemoryRefuses) {
  Add("a");
  level_ = api::LoadLevel::kYellow;
  api::GenerateRequest batch = Ask("x");
  batch.priority = api::Priority::kBatch;
  EXPECT_EQ(pool_.Generate(batch, nullptr).status().reason(), "overloaded");
  EXPECT_TRUE(pool_.Generate(Ask("x"), nullptr).ok());
  level_ = api::LoadLevel::kRed;
  EXPECT_EQ(pool_.Generate(Ask("x"), nullptr).status().reason(), "overloaded");
}

TEST_F(WorkerPoolTest, ADrainWaitsAndThenEndsWhatIsLeft) {
  TestWorker& worker = Add("a");
  api::Generation quick = Generate(Ask("quick")), slow = Generate(Ask("slow"));
  ASSERT_NE(worker.inference.Generation(1), nullptr);
  std::thread answering([&] {
    std::this_thread::sleep_for(milliseconds(100));
    worker.inference.Generation(0)->Answer({"done"});
  });
  EXPECT_FALSE(pool_.Drain(milliseconds(600)));
  answering.join();
  EXPECT_EQ(pool_.Generate(Ask("x"), nullptr).status().reason(), "draining");
  std::string text, other;
  EXPECT_TRUE(ReadAll(quick, &text).ok());
  EXPECT_EQ(ReadAll(slow, &other).reason(), "draining");
}

// A worker without a socket, whose messages the test makes.
class WordyConnection final : public WorkerPool::Connection {
 public:
  void Wake() override {}
  void Close() override {}
};

class WordyWorker : public ::testing::Test {
 protected:
  void SetUp() override {
    FakeInference models({Generator(), Encoder()});
    auto worker =
        pool_.Attach(TestWorker::HelloOf(models, "wordy", 64), std::make_shared<WordyConnection>());
    ASSERT_TRUE(worker.ok());
    worker_ = *worker;
  }
  void TearDown() override { pool_.Lost(worker_); }
  // The id of the call that was sent last.
  uint64_t Sent() {
    v1::FrontendMessage message;
    EXPECT_TRUE(pool_.TakeMessage(worker_, &message));
    return message.calls_size() == 0 ? 0 : message.calls(message.calls_size() - 1).id();
  }
  v1::Update* UpdateOf(uint64_t id) {
    v1::Update* update = said_.add_updates();
    update->set_id(id);
    return update;
  }
  void SendUpdates() {
    pool_.Receive(worker_, said_);
    said_.Clear();
  }

  SteadyClock clock_;
  std::atomic<api::LoadLevel> level_{api::LoadLevel::kGreen};
  WorkerPool pool_{clock_, level_, nullptr};
  WorkerPool::WorkerRef worker_;
  v1::WorkerMessage said_;
};

TEST_F(WordyWorker, ChoicesThatWereNotAskedForEndTheRequest) {
  for (const int choice : {-1, 1, 1 << 30}) {
    api::GenerateRequest request;
    request.model = "m";
    request.prompt = api::TextPrompt{"x"};
    auto generation = pool_.Generate(request, nullptr);
    ASSERT_TRUE(generation.ok());
    v1::WireEvent* event = UpdateOf(Sent())->add_events();
    event->set_kind(static_cast<int>(api::StreamEvent::Kind::kToken));
    event->set_choice(choice);
    SendUpdates();
    while (generation->Next() != nullptr) continue;
    ASSERT_TRUE(generation->stream().ended());
    EXPECT_EQ(generation->stream().status().reason(), "worker_lost");
  }
}

TEST_F(WordyWorker, VectorsThatAreNotAsManyAsTheInputsAreNoResult) {
  for (const auto& [width, values, tokens] :
       std::vector<std::array<int, 3>>{{2, 3, 2}, {2, 4, 1}, {-1, 4, 2}, {3, 4, 2}, {2, 0, 0}}) {
    api::EncodeRequest request;
    request.inputs = {std::string("a"), std::string("b")};
    auto encoding = pool_.Encode(request, nullptr);
    ASSERT_TRUE(encoding.ok());
    v1::Update* update = UpdateOf(Sent());
    update->mutable_ended();
    update->mutable_encoded()->set_width(width);
    for (int i = 0; i < values; ++i) update->mutable_encoded()->add_values(0.5f);
    for (int i = 0; i < tokens; ++i) update->mutable_encoded()->add_tokens(1);
    SendUpdates();
    ASSERT_TRUE(encoding->done());
    EXPECT_EQ(encoding->Take().status().reason(), "worker_lost");
  }
}

// Regression: the sum of two maximum values overflowed, as did the sum of two such sums.
TEST_F(WordyWorker, NumbersOfAnySizeAddUpToTheMostThereIs) {
  FakeInference models({Generator(), Encoder()});
  const auto second =
      pool_.Attach(TestWorker::HelloOf(models, "second", 64), std::make_shared<WordyConnection>());
  ASSERT_TRUE(second.ok());
  for (const WorkerPool::WorkerRef& worker : {worker_, *second}) {
    v1::Beat* beat = said_.mutable_beat();
    beat->set_running(INT32_MAX);
    beat->set_waiting(INT32_MIN);
    beat->set_kv_blocks_total(INT32_MAX);
    v1::WireStatistics* one = beat->add_statistics();
    one->set_model("m");
    one->set_busy(INT64_MAX);
    pool_.Receive(worker, said_);
    said_.Clear();
  }
  const api::LoadSnapshot load = pool_.Load();
  EXPECT_EQ(load.running, INT32_MAX / 4);
  EXPECT_EQ(load.waiting, 0);
  EXPECT_EQ(load.kv_blocks_total, INT32_MAX / 4);
  const Result<api::ModelStatistics> statistics = pool_.Statistics("");
  ASSERT_TRUE(statistics.ok()) << statistics.status();
  EXPECT_EQ(statistics->busy, Duration::max() / 4);
  pool_.Lost(*second);
}

TEST_F(WordyWorker, CallsThatItWasNeverGivenAndAnythingRandomChangeNothing) {
  api::GenerateRequest request;
  request.model = "m";
  request.prompt = api::TextPrompt{"x"};
  auto generation = pool_.Generate(request, nullptr);
  const uint64_t id = Sent();
  UpdateOf(id + 1)->mutable_ended();
  UpdateOf(0)->add_events();
  said_.mutable_beat()->set_running(-5);
  said_.mutable_beat()->set_level(77);
  SendUpdates();
  EXPECT_EQ(generation->Next(), nullptr);
  // A worker's message with some bytes changed.
  v1::WorkerMessage sound;
  for (int kind = 0; kind < 5; ++kind) {
    v1::Update* update = sound.add_updates();
    update->set_id(id);
    v1::WireEvent* event = update->add_events();
    event->set_kind(kind);
    event->set_token(7);
    event->set_text("text");
    event->mutable_logprobs()->add_top()->set_bytes("b");
    event->mutable_usage()->set_prompt_tokens(3);
    if (kind == 4) ToWire(OkStatus(), update->mutable_ended());
  }
  uint64_t now = id;
  const std::string whole = sound.SerializeAsString();
  Random random(3);
  int parsed = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole;
    for (size_t changes = 1 + random.Below(4); changes > 0; --changes)
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Below(256));
    v1::WorkerMessage message;
    if (!message.ParseFromString(bytes)) continue;
    ++parsed;
    for (v1::Update& update : *message.mutable_updates()) update.set_id(now);
    pool_.Receive(worker_, message);
    if (message.has_models()) {  // a worker may change its list, also to nothing
      v1::WorkerMessage again;
      for (const FakeModel& model : {Generator(), Encoder()})
        ToWire(model.info, again.mutable_models()->add_models());
      again.mutable_beat();
      pool_.Receive(worker_, again);
    }
    while (generation->Next() != nullptr) continue;
    if (!generation->stream().ended()) continue;
    generation = pool_.Generate(request, nullptr);
    ASSERT_TRUE(generation.ok()) << generation.status() << message.DebugString();
    now = Sent();
  }
  EXPECT_GT(parsed, 1000);
}

TEST_F(WorkerPoolTest, WorkersShareTheLoad) {
  TestWorker& first = Add("a");
  TestWorker& second = Add("b");
  std::vector<api::Generation> generations;
  for (int i = 0; i < 20; ++i) generations.push_back(Generate(Ask(std::to_string(i))));
  EXPECT_TRUE(Eventually(
      [&] { return first.inference.generations() + second.inference.generations() == 20; }));
  EXPECT_EQ(first.inference.generations(), 10u);
}

TEST_F(WorkerPoolTest, ListsWorkers) {
  TestWorker& first = Add("first");
  Add("second");
  api::Generation generation = Generate(Ask("x"));
  ASSERT_TRUE(Eventually([&] {
    return workers_[0]->inference.generations() + workers_[1]->inference.generations() == 1;
  }));
  api::LiveState state;
  pool_.ListWorkers(&state);
  EXPECT_EQ(state.workers_left_out, 0);
  ASSERT_EQ(state.workers.size(), static_cast<size_t>(pool_.figures().workers));
  EXPECT_EQ(state.workers[0].name, "first");
  EXPECT_EQ(state.workers[1].name, "second");
  EXPECT_EQ(state.workers[0].models, (std::vector<std::string>{"m", "e"}));
  EXPECT_EQ(state.workers[0].in_flight + state.workers[1].in_flight, 1);
  EXPECT_FALSE(state.workers[0].draining);
  EXPECT_LT(state.workers[0].silent, WorkerPool::kSilence);
  first.Die();
  EXPECT_TRUE(Eventually([&] {
    api::LiveState left;
    pool_.ListWorkers(&left);
    return left.workers.size() == 1 && left.workers[0].name == "second";
  }));
}

}  // namespace
}  // namespace tutti::cluster
