#include "protocol/openai/adapters.h"

#include <gtest/gtest.h>

namespace tutti::protocol {
namespace {

Result<AdapterCall> Load(std::string_view body, bool strict = false) {
  const auto json = ParseJson(body);
  if (!json.ok()) return json.status();
  return ParseLoadAdapter(json->root(), {strict, {}, {}});
}

TEST(AdapterRequests, ReadsALoad) {
  const auto call =
      Load(R"({"lora_name":"sql","lora_path":"a/b","base_model_name":"chat","load_inplace":true,)"
           R"("scale":0.5,"is_3d_lora_weight":false})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->request.name, "sql");
  EXPECT_EQ(call->request.path, "a/b");
  EXPECT_EQ(call->request.base, "chat");
  EXPECT_TRUE(call->request.replace);
  EXPECT_EQ(call->request.scale, 0.5);
  EXPECT_EQ(call->ignored, std::vector<std::string>{"is_3d_lora_weight"});
}

TEST(AdapterRequests, TakesNullAsAbsent) {
  const auto call =
      Load(R"({"lora_name":"sql","lora_path":"a","base_model_name":null,"scale":null})", true);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->request.base, "");
  EXPECT_EQ(call->request.scale, 1);
}

TEST(AdapterRequests, NamesTheFieldAtFault) {
  EXPECT_EQ(Load(R"({"lora_path":"a"})").status().param(), "lora_name");
  EXPECT_EQ(Load(R"({"lora_name":"a"})").status().reason(), "missing_required_parameter");
  EXPECT_EQ(Load(R"({"lora_name":1,"lora_path":"a"})").status().param(), "lora_name");
  EXPECT_EQ(Load(R"({"lora_name":"a","lora_path":""})").status().param(), "lora_path");
  EXPECT_EQ(Load(R"({"lora_name":"a","lora_path":"a","scale":"x"})").status().param(), "scale");
  EXPECT_EQ(Load(R"({"lora_name":"a","lora_path":"a","load_inplace":1})").status().param(),
            "load_inplace");
  EXPECT_EQ(Load(R"({"lora_name":"a","lora_path":"a","x":1})", true).status().reason(),
            "unknown_parameter");
  EXPECT_EQ(Load("[]").status().reason(), "invalid_json");
}

TEST(AdapterRequests, ReadsAnUnload) {
  const auto json = ParseJson(R"({"lora_name":"sql","lora_int_id":3})");
  const auto call = ParseUnloadAdapter(json->root(), {true, {}, {}});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->request.name, "sql");
  EXPECT_TRUE(call->ignored.empty());
}

}  // namespace
}  // namespace tutti::protocol
