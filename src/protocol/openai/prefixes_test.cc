// Rows N03 and R27: the form of pinned prefixes, and of the report about the prefix cache.
#include "protocol/openai/prefixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/prefix_report.h"

namespace tutti::protocol {
namespace {

Result<GenerationCall> PrefixOf(const std::string& body) {
  const Result<JsonDocument> document = ParseJson(body);
  CHECK(document.ok()) << document.status();
  return ParsePrefix(document->root(), {});
}

TEST(Prefixes, AChatIsComputedAndPinned) {
  const auto call =
      PrefixOf(R"({"model":"m","messages":[{"role":"system","content":"Be brief."}],"ttl_s":60,)"
               R"("cache_salt":"s"})");
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_EQ(call->requests.size(), 1u);
  const api::GenerateRequest& request = call->requests.front();
  EXPECT_TRUE(request.score_only);
  EXPECT_EQ(request.sampling.max_tokens, 0);
  EXPECT_EQ(request.cache_salt, "s");
  ASSERT_TRUE(request.pin.has_value());
  EXPECT_EQ(request.pin->ttl, std::chrono::seconds(60));
  const auto& chat = std::get<api::ChatPrompt>(request.prompt);
  EXPECT_FALSE(chat.add_generation_prompt) << "what follows is the next message";
}

TEST(Prefixes, ATextIsPinnedForAnHour) {
  const auto call = PrefixOf(R"({"model":"m","prompt":"Once upon a time"})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->requests.front().pin->ttl, std::chrono::hours(1));
}

TEST(Prefixes, RefusesWhatHasNoMeaning) {
  for (const auto& [field, param] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"("ttl_s":0)", "ttl_s"},
           {R"("ttl_s":-5)", "ttl_s"},
           {R"("ttl_s":2592001)", "ttl_s"},
           {R"("ttl_s":1.5)", "ttl_s"},
           {R"("ttl_s":"1h")", "ttl_s"},
           {R"("stream":true)", "stream"},
           {R"("n":2)", "n"},
           {R"("max_tokens":5)", "max_tokens"},
           {R"("echo":true)", "echo"}}) {
    const auto call = PrefixOf(R"({"model":"m","prompt":"a",)" + std::string(field) + "}");
    ASSERT_FALSE(call.ok()) << field;
    EXPECT_EQ(call.status().param(), param) << field;
  }
  EXPECT_EQ(PrefixOf(R"({"model":"m","prompt":["a","b"]})").status().param(), "prompt");
  EXPECT_EQ(PrefixOf(R"({"model":"m"})").status().param(), "prompt");
  EXPECT_EQ(PrefixOf("[]").status().reason(), "invalid_json");
}

TEST(Prefixes, AnswersHaveTheFormOfObjects) {
  const auto call = PrefixOf(R"({"model":"m","prompt":"a","ttl_s":60})");
  ASSERT_TRUE(call.ok());
  const auto writer = MakeResponseWriter(
      *call, {.id = "prefix_1", .model = "m", .created_s = 1000, .fingerprint = ""}, {});
  api::StreamEvent end;
  end.kind = api::StreamEvent::Kind::kEnd;
  end.usage.prompt_tokens = 70;
  end.usage.pinned_tokens = 64;
  std::string out;
  writer->OnEvent(0, end, &out);
  writer->OnDone(&out);
  EXPECT_THAT(out, ::testing::StartsWith(
                       R"({"id":"prefix_1","object":"prefix","model":"m","pinned_tokens":64,)"
                       R"("expires_at":1060,"created":1000,"usage":{"prompt_tokens":70,)"));
  EXPECT_EQ(PrefixListBody({{.id = "a", .model = "m", .tokens = 32, .expires_unix_ms = 5999}}),
            R"({"object":"list","data":[{"id":"a","object":"prefix","model":"m",)"
            R"("pinned_tokens":32,"expires_at":5}]})");
  EXPECT_EQ(PrefixDeletedBody("a"), R"({"id":"a","object":"prefix","deleted":true})");
}

TEST(PrefixReport, IsAMemberOfTheUsage) {
  const auto written = [](const api::Usage& usage) {
    JsonWriter json;
    json.BeginObject();
    WritePrefixReport(usage, &json);
    json.EndObject();
    return json.Take();
  };
  api::Usage usage;
  EXPECT_EQ(written(usage), "{}");
  api::PrefixReport report{.memory_tokens = 32, .disk_tokens = 64};
  usage.prefix = std::make_shared<api::PrefixReport>(report);
  EXPECT_EQ(written(usage), R"({"cache":{"memory_tokens":32,"disk_tokens":64,"reason":null,)"
                            R"("first_difference":null}})");
  report.cause = api::PrefixReport::Cause::kEvicted;
  report.first_difference = 96;
  report.text = "a \"b\"";
  usage.prefix = std::make_shared<api::PrefixReport>(report);
  EXPECT_EQ(written(usage), R"({"cache":{"memory_tokens":32,"disk_tokens":64,"reason":"evicted",)"
                            R"("first_difference":{"token":96,"text":"a \"b\""}}})");
}

}  // namespace
}  // namespace tutti::protocol
