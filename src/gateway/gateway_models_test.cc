// Tests of the list of models that a gateway gives.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/gateway.h"

namespace tutti::gateway {
namespace {

class NoSource final : public ModelSource {
 public:
  Status Want(const std::string& model) override { return Unavailable("model_loading", model); }
};

api::ModelInfo Listed(const std::string& id) {
  api::ModelInfo info;
  info.id = id;
  info.status = {.state = api::ModelState::kUnloaded, .pinned = false};
  return info;
}

std::shared_ptr<ServedModel> Loaded(const std::string& id) {
  auto model = std::make_shared<ServedModel>();
  model->info.id = id;
  model->use->default_keep_alive_ns = Duration(std::chrono::minutes(5)).count();
  return model;
}

class GatewayModels : public ::testing::Test {
 protected:
  GatewayModels() {
    gateway_.UseSource(&source_, {});
    gateway_.List({Listed("a"), Listed("b")});
  }
  std::string Names() const {
    std::string names;
    for (const api::ModelInfo& model : gateway_.Models())
      names += model.id + (model.status.state == api::ModelState::kLoaded ? "+ " : " ");
    return names;
  }
  NoSource source_;
  ManualClock clock_;
  Gateway gateway_{{}, clock_};
};

TEST_F(GatewayModels, ShareOneListUntilModelsChange) {
  const api::ModelList first = gateway_.Models();
  EXPECT_TRUE(first.SharesWith(gateway_.Models()));
  EXPECT_EQ(Names(), "a b ");
  const std::shared_ptr<ServedModel> b = Loaded("b");
  gateway_.AddModel(b);
  EXPECT_EQ(Names(), "b+ a ");
  gateway_.RemoveModel(*b);
  EXPECT_EQ(Names(), "a b ");
  gateway_.List({Listed("c")});
  EXPECT_EQ(Names(), "c ");
  gateway_.AddModel(Loaded("d"));
  EXPECT_EQ(Names(), "d+ c ") << "a model that nobody listed comes first";
  gateway_.Expect({"c"});
  EXPECT_EQ(Names(), "d+ ") << "it is about to come";
  EXPECT_EQ(first.size(), 2U) << "a list that was given does not change";
}

TEST_F(GatewayModels, ListNewTimesOfExpiry) {
  gateway_.AddModel(Loaded("a"));
  const api::ModelList first = gateway_.Models();
  const int64_t expires = first.front().status.expires_unix_s;
  ASSERT_GT(expires, UnixSeconds() + 200);
  clock_.Advance(std::chrono::minutes(2));
  const api::ModelList second = gateway_.Models();
  EXPECT_FALSE(first.SharesWith(second));
  const int64_t sooner = expires - second.front().status.expires_unix_s;
  EXPECT_GT(sooner, 110);
  EXPECT_LE(sooner, 120);
}

}  // namespace
}  // namespace tutti::gateway
