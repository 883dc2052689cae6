#include "server/mqtt/profile/inbox.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>
#include <vector>

namespace tutti::mqtt::profile {
namespace {

// A strand that does nothing until it is let go.
class InboxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    strand_->Post([go = go_.get_future().share()] { go.wait(); });
  }
  void LetGo() {
    go_.set_value();
    Flush();
  }
  void Flush() {
    std::promise<void> idle;
    strand_->Post([&idle] { idle.set_value(); });
    idle.get_future().wait();
  }
  // The result that the publisher got, if any.
  std::shared_ptr<std::optional<Status>> Put(Inbox& inbox, const std::string& payload) {
    auto told = std::make_shared<std::optional<Status>>();
    Message message;
    message.payload = payload;
    inbox.Put(std::move(message), Receipt([told](const Status& status) { *told = status; }),
              [this](const Message& taken, Receipt receipt) {
                taken_.push_back(taken.payload);
                receipt.Accept();
              });
    return told;
  }

  ManualClock clock_;
  std::promise<void> go_;
  std::vector<std::string> taken_;
  std::shared_ptr<Strand> strand_ = std::make_shared<Strand>(clock_);
};

TEST_F(InboxTest, MessagesAreTakenInTheirOrderAndBoundedInNumber) {
  const auto inbox = std::make_shared<Inbox>(Inbox::Limits{.messages = 2, .bytes = 100}, strand_);
  const auto a = Put(*inbox, "a"), b = Put(*inbox, "b"), c = Put(*inbox, "c");
  EXPECT_FALSE(a->has_value());
  ASSERT_TRUE(c->has_value());
  EXPECT_EQ((*c)->reason(), "overloaded");
  LetGo();
  EXPECT_EQ(taken_, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE((*a)->ok() && (*b)->ok());
  const auto d = Put(*inbox, "d");
  Flush();
  EXPECT_TRUE((*d)->ok()) << "there is room again";
}

TEST_F(InboxTest, AndInBytes) {
  const auto inbox = std::make_shared<Inbox>(Inbox::Limits{.messages = 9, .bytes = 10}, strand_);
  const auto a = Put(*inbox, "123456"), b = Put(*inbox, "12345"), c = Put(*inbox, "1234");
  EXPECT_EQ((**b).reason(), "overloaded");
  LetGo();
  EXPECT_EQ(taken_, (std::vector<std::string>{"123456", "1234"}));
}

TEST_F(InboxTest, OneThatIsClosedTakesNothing) {
  const auto inbox = std::make_shared<Inbox>(Inbox::Limits{}, strand_);
  Put(*inbox, "a");
  inbox->Close();
  EXPECT_EQ((**Put(*inbox, "b")).reason(), "draining");
  LetGo();
  EXPECT_EQ(taken_, std::vector<std::string>{"a"}) << "what came before is still taken";
}

}  // namespace
}  // namespace tutti::mqtt::profile
