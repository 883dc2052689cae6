#include "base/work_inbox.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

namespace tutti {
namespace {

// The owner's thread is this one, while it runs the posted work.
class WorkInboxTest : public ::testing::Test {
 protected:
  std::shared_ptr<WorkInbox> Make(const WorkInbox::Limits& limits = {}) {
    return std::make_shared<WorkInbox>(
        [this](WorkInbox::Work work) {
          if (takes_) posted_.push_back(std::move(work));
          return takes_;
        },
        limits, [this] { ++settled_; });
  }
  void Run() {
    while (!posted_.empty()) {
      const WorkInbox::Work work = std::move(posted_.front());
      posted_.pop_front();
      work();
    }
  }
  WorkInbox::Work Note(const std::string& name) {
    return [this, name] { done_.push_back(name); };
  }

  bool takes_ = true;
  std::deque<WorkInbox::Work> posted_;
  std::vector<std::string> done_;
  int settled_ = 0;
};

using Names = std::vector<std::string>;

TEST_F(WorkInboxTest, WorkIsDoneInItsOrderAndBoundedInNumber) {
  const auto inbox = Make({.items = 2, .bytes = 100});
  EXPECT_TRUE(inbox->Offer(1, Note("a")).ok());
  EXPECT_TRUE(inbox->Offer(1, Note("b")).ok());
  EXPECT_EQ(inbox->Offer(1, Note("c")).reason(), "overloaded");
  EXPECT_TRUE(inbox->Post(Note("own"))) << "work of the process is not bounded here";
  EXPECT_EQ(posted_.size(), 1u) << "one wake-up for all";
  Run();
  EXPECT_EQ(done_, (Names{"a", "b", "own"}));
  EXPECT_EQ(settled_, 1);
  EXPECT_TRUE(inbox->Offer(1, Note("d")).ok()) << "there is room again";
}

TEST_F(WorkInboxTest, AndInBytes) {
  const auto inbox = Make({.items = 9, .bytes = 10});
  EXPECT_TRUE(inbox->Offer(6, Note("6")).ok());
  EXPECT_EQ(inbox->Offer(5, Note("5")).reason(), "overloaded");
  EXPECT_TRUE(inbox->Offer(4, Note("4")).ok());
  Run();
  EXPECT_EQ(done_, (Names{"6", "4"}));
  EXPECT_TRUE(inbox->Offer(11, Note("11")).ok()) << "one alone always fits";
}

TEST_F(WorkInboxTest, OneThatIsSealedTakesNothing) {
  const auto inbox = Make();
  EXPECT_TRUE(inbox->Offer(1, Note("a")).ok());
  inbox->Seal();
  EXPECT_EQ(inbox->Offer(1, Note("b")).reason(), "draining");
  EXPECT_FALSE(inbox->Post(Note("c")));
  Run();
  EXPECT_EQ(done_, Names{"a"}) << "what came before is still done";
}

TEST_F(WorkInboxTest, AfterCloseNothingIsDoneAndNobodyIsWoken) {
  const auto inbox = Make();
  EXPECT_TRUE(inbox->Post(Note("a")));
  inbox->Close();
  Run();
  inbox->Wake();
  EXPECT_EQ(inbox->Offer(1, Note("b")).reason(), "draining");
  EXPECT_TRUE(posted_.empty());
  EXPECT_TRUE(done_.empty());
  EXPECT_EQ(settled_, 0);
}

TEST_F(WorkInboxTest, AnOwnerThatTakesNothingIsOverloaded) {
  const auto inbox = Make();
  takes_ = false;
  EXPECT_EQ(inbox->Offer(1, Note("a")).reason(), "overloaded");
  takes_ = true;
  inbox->Wake();
  Run();
  EXPECT_TRUE(done_.empty());
  EXPECT_EQ(settled_, 1);
}

}  // namespace
}  // namespace tutti
