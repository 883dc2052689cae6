#include "cluster/inference_codec.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

namespace tutti::cluster {
namespace {

using std::chrono::seconds;

// Every field that crosses has a value of its own.
api::GenerateRequest FullRequest() {
  api::GenerateRequest request;
  request.request_id = "req-1";
  request.model = "m";
  api::ChatPrompt chat;
  chat.messages = {{api::Role::kSystem, "be brief", "ops"},
                   {api::Role::kTool, "\xff bytes", "", {2, 7}}};
  chat.messages[0].tool_calls = {{"call_1", "f\xff", R"({"a":1})"}, {"call_2", "g", "{}"}};
  chat.messages[0].reasoning = "hm \xff";
  chat.messages[1].tool_call_id = "call_1";
  chat.tools = {{.name = "f",
                 .description = "d",
                 .parameters = "{}",
                 .strict = true,
                 .param = "p",
                 .schema_field = "input_schema"},
                {.name = "g"}};
  chat.tool_choice = {api::ToolChoice::Kind::kNamed, "f"};
  chat.template_arguments = R"({"enable_thinking":false})";
  chat.add_generation_prompt = false;
  chat.continue_final_message = true;
  request.prompt = chat;
  api::SamplingParams& s = request.sampling;
  s.temperature = 0.25;
  s.top_p = 0.5;
  s.top_k = 7;
  s.min_p = api::Parameter<double>::Default(0.125);
  s.repetition_penalty = 1.5;
  s.presence_penalty = -1;
  s.frequency_penalty = 2;
  s.logit_bias = {{5, -1.5f}, {6, 100.f}};
  s.allowed_token_ids = {1, 2};
  s.banned_token_ids = {3};
  s.seed = -5;
  s.max_tokens = 9;
  s.min_tokens = 4;
  s.stop = {"a", "b"};
  s.stop_token_ids = {8};
  s.ignore_eos = true;
  s.include_stop_in_output = true;
  s.skip_special_tokens = false;
  s.logprobs = 3;
  s.prompt_logprobs = 2;
  request.trace_context =
      ReadTraceContext("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "vendor=1");
  request.n = 3;
  request.priority = api::Priority::kBatch;
  request.deadline = TimePoint(seconds(100));
  request.detached = true;
  request.cache = {true, true, seconds(5)};
  request.cache_report = std::make_shared<api::CacheReport>();
  request.tenant = "t";
  request.tenant_weight = 2.5;
  request.cache_salt = "salt";
  request.cache_scope = "family";
  request.keep_alive = seconds(90);
  request.use_prefix_cache = false;
  request.explain_prefix = true;
  request.truncate_prompt_tokens = 77;
  request.call_bytes = 123;
  request.score_only = true;
  request.prediction = "as it will be";
  request.max_reasoning_tokens = 7;
  request.continuation = {.text = "a",
                          .others = {"b", "c"},
                          .covered = true,
                          .classes = {.text_bytes = 4, .yes_or_no = true, .names = {"d"}}};
  request.constraint = {.kind = api::Constraint::Kind::kChoice,
                        .text = "t",
                        .choices = {"a", "b\xff"},
                        .param = "guided_choice"};
  return request;
}

template <typename Wire, typename Value>
std::string Bytes(const Value& value, TimePoint now) {
  Wire wire;
  ToWire(value, now, &wire);
  return wire.SerializeAsString();
}

// Checks that every field is set, so that the encoder forgets none.
void ExpectAllSet(const google::protobuf::Message& message) {
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const auto* field = message.GetDescriptor()->field(i);
    if (field->real_containing_oneof() != nullptr) continue;
    if (field->is_repeated()) {
      EXPECT_GT(reflection->FieldSize(message, field), 0) << field->full_name();
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      ASSERT_TRUE(reflection->HasField(message, field)) << field->full_name();
      ExpectAllSet(reflection->GetMessage(message, field));
    } else if (field->name() != "skip_special_tokens" && field->name() != "use_prefix_cache") {
      EXPECT_TRUE(reflection->HasField(message, field)) << field->full_name();
    }
  }
}

TEST(InferenceCodec, ARequestCrossesWhole) {
  const api::GenerateRequest request = FullRequest();
  v1::WireGenerate wire;
  ToWire(request, TimePoint(seconds(40)), &wire);
  ExpectAllSet(wire);
  const api::GenerateRequest back = FromWire(wire, TimePoint(seconds(1040)));
  EXPECT_EQ(back.deadline, TimePoint(seconds(1100)));  // what was left of it is left
  EXPECT_EQ(Bytes<v1::WireGenerate>(back, TimePoint(seconds(1040))), wire.SerializeAsString());
  EXPECT_EQ(std::get<api::ChatPrompt>(back.prompt).messages[1].content, "\xff bytes");
  const auto& asked = std::get<api::ChatPrompt>(request.prompt);
  const auto& chat = std::get<api::ChatPrompt>(back.prompt);
  EXPECT_EQ(chat.tools, asked.tools);
  EXPECT_EQ(chat.tool_choice, asked.tool_choice);
  EXPECT_TRUE(chat.parallel_tool_calls);
  EXPECT_EQ(chat.messages[0].tool_calls, asked.messages[0].tool_calls);
  EXPECT_EQ(chat.messages[0].reasoning, "hm \xff");
  EXPECT_EQ(chat.messages[1].tool_call_id, "call_1");
  EXPECT_EQ(back.max_reasoning_tokens, 7);
  EXPECT_EQ(back.sampling.logit_bias, request.sampling.logit_bias);
  EXPECT_EQ(back.sampling.seed, request.sampling.seed);
  EXPECT_TRUE(back.sampling.temperature.given());
  EXPECT_FALSE(back.sampling.min_p.given());
  EXPECT_FALSE(back.sampling.skip_special_tokens);
  EXPECT_FALSE(back.use_prefix_cache);
  EXPECT_EQ(back.cache.max_age, request.cache.max_age);
}

TEST(InferenceCodec, DefaultsStayDefaults) {
  const api::GenerateRequest request;
  v1::WireGenerate wire;
  ToWire(request, TimePoint(seconds(1)), &wire);
  const api::GenerateRequest back = FromWire(wire, TimePoint(seconds(2)));
  EXPECT_EQ(back.deadline, TimePoint::max());
  EXPECT_EQ(back.cache_report, nullptr);
  EXPECT_FALSE(back.sampling.seed.has_value());
  EXPECT_FALSE(back.sampling.max_tokens.has_value());
  EXPECT_FALSE(back.truncate_prompt_tokens.has_value());
  EXPECT_TRUE(back.sampling.skip_special_tokens);
  EXPECT_TRUE(back.use_prefix_cache);
  EXPECT_EQ(back.sampling.logprobs, -1);
  EXPECT_FALSE(back.sampling.temperature.given());
  EXPECT_EQ(back.sampling.temperature, 1.0);
}

TEST(InferenceCodec, ToolChoicesCross) {
  using Kind = api::ToolChoice::Kind;
  for (const Kind kind : {Kind::kAuto, Kind::kNone, Kind::kRequired, Kind::kNamed}) {
    api::GenerateRequest request;
    request.prompt = api::ChatPrompt{.tool_choice = {kind, ""}, .parallel_tool_calls = false};
    v1::WireGenerate wire;
    ToWire(request, {}, &wire);
    const api::GenerateRequest back = FromWire(wire, {});
    EXPECT_EQ(std::get<api::ChatPrompt>(back.prompt).tool_choice.kind, kind);
    EXPECT_FALSE(std::get<api::ChatPrompt>(back.prompt).parallel_tool_calls);
  }
}

TEST(InferenceCodec, PromptsOfEachKind) {
  for (const api::Prompt& prompt : {api::Prompt(api::TextPrompt{"text", false, true}),
                                    api::Prompt(api::TextPrompt{"", true, false}),
                                    api::Prompt(api::TextPrompt{.text = "a", .suffix = ""}),
                                    api::Prompt(api::TokenPrompt{{1, 2, 3}})}) {
    api::GenerateRequest request;
    request.prompt = prompt;
    const std::string bytes = Bytes<v1::WireGenerate>(request, {});
    v1::WireGenerate wire;
    ASSERT_TRUE(wire.ParseFromString(bytes));
    const api::GenerateRequest back = FromWire(wire, {});
    EXPECT_EQ(back.prompt.index(), prompt.index());
    EXPECT_EQ(Bytes<v1::WireGenerate>(back, {}), bytes);
  }
}

TEST(InferenceCodec, ATextWithAHoleCrossesWhole) {
  api::GenerateRequest request;
  request.prompt =
      api::TextPrompt{.text = "a", .suffix = "b\xff", .files = {{"x.py", "one\xff"}, {"", "two"}}};
  v1::WireGenerate wire;
  ToWire(request, {}, &wire);
  ExpectAllSet(wire.prompt().text());
  const auto back = std::get<api::TextPrompt>(FromWire(wire, {}).prompt);
  EXPECT_EQ(back.suffix, "b\xff");
  EXPECT_EQ(back.files, std::get<api::TextPrompt>(request.prompt).files);
  request.prompt = api::TextPrompt{.text = "a", .suffix = ""};
  ToWire(request, {}, &wire);
  EXPECT_EQ(std::get<api::TextPrompt>(FromWire(wire, {}).prompt).suffix, "");
  request.prompt = api::TextPrompt{.text = "a"};
  wire.Clear();
  ToWire(request, {}, &wire);
  EXPECT_FALSE(std::get<api::TextPrompt>(FromWire(wire, {}).prompt).suffix.has_value());
}

TEST(InferenceCodec, AnEncodingCrossesWhole) {
  api::EncodeRequest request;
  request.request_id = "req-2";
  request.model = "e";
  request.inputs = {std::string("one"), std::vector<TokenId>{4, 5}, api::TextPair{"q", "d"}};
  request.output = api::EncodeOutput::kScores;
  request.normalize = false;
  request.dimensions = 64;
  request.prompt_name = "query";
  request.raw_scores = true;
  request.truncation = api::Truncation::kLeft;
  request.truncate_tokens = 12;
  request.total_tokens = 99;
  request.tenant = "t";
  request.priority = api::Priority::kFlex;
  v1::WireEncode wire;
  ToWire(request, {}, &wire);
  const api::EncodeRequest back = FromWire(wire, {});
  EXPECT_EQ(Bytes<v1::WireEncode>(back, {}), wire.SerializeAsString());
  ASSERT_EQ(back.inputs.size(), 3u);
  EXPECT_EQ(std::get<std::string>(back.inputs[0]), "one");
  EXPECT_EQ(std::get<std::vector<TokenId>>(back.inputs[1]), (std::vector<TokenId>{4, 5}));
  EXPECT_EQ(std::get<api::TextPair>(back.inputs[2]).second, "d");
  EXPECT_EQ(back.normalize, false);
  EXPECT_EQ(back.prompt_name, "query");
}

TEST(InferenceCodec, EventsKeepBytesLogprobsAndWhatEndedThem) {
  api::StreamEvent event;
  event.kind = api::StreamEvent::Kind::kChoiceEnd;
  event.choice = 2;
  event.token = 17;
  event.text = "\xf0\x9f";
  event.reasoning = "hm";
  event.logprobs = api::TokenLogprobs{{17, -0.5f, "\xe2\x80", true}, {{1, -1.f, "x", false}}};
  event.finish_reason = api::FinishReason::kLength;
  event.stop_reason = std::string("END");
  v1::WireEvent wire;
  ToWire(event, &wire);
  const api::StreamEvent back = FromWire(wire);
  EXPECT_EQ(back.kind, event.kind);
  EXPECT_EQ(back.choice, 2);
  EXPECT_EQ(back.text, event.text);
  EXPECT_EQ(back.reasoning, "hm");
  EXPECT_EQ(back.logprobs->chosen.bytes, "\xe2\x80");
  EXPECT_EQ(back.logprobs->top[0].logprob, -1.f);
  EXPECT_EQ(back.finish_reason, api::FinishReason::kLength);
  EXPECT_EQ(std::get<std::string>(back.stop_reason), "END");
}

TEST(InferenceCodec, EventsKeepCallsAndWhatEndedThem) {
  api::StreamEvent event;
  event.tool_calls = {{0, "call_1", "f", "{\"a\":\xff"}, {3, "", "", "}"}};
  event.finish_reason = api::FinishReason::kToolCalls;
  v1::WireEvent wire;
  ToWire(event, &wire);
  const api::StreamEvent back = FromWire(wire);
  EXPECT_EQ(back.tool_calls, event.tool_calls);
  EXPECT_EQ(back.finish_reason, api::FinishReason::kToolCalls);
}

TEST(InferenceCodec, ThePredictionOfARequestAndTheCountsOfItsUsageCross) {
  api::GenerateRequest request;
  request.prediction = "as it \xff will be";
  v1::WireGenerate asked;
  ToWire(request, {}, &asked);
  EXPECT_EQ(FromWire(asked, {}).prediction, request.prediction);
  api::StreamEvent event;
  event.kind = api::StreamEvent::Kind::kEnd;
  event.usage.accepted_prediction_tokens = 3;
  event.usage.rejected_prediction_tokens = 4;
  event.usage.reasoning_tokens = 2;
  v1::WireEvent told;
  ToWire(event, &told);
  EXPECT_EQ(FromWire(told).usage.accepted_prediction_tokens, 3);
  EXPECT_EQ(FromWire(told).usage.rejected_prediction_tokens, 4);
  EXPECT_EQ(FromWire(told).usage.reasoning_tokens, 2);
  EXPECT_EQ(FromWire(told).usage.prefix, nullptr);
  event.usage.prefix = std::make_shared<api::PrefixReport>(
      api::PrefixReport{.memory_tokens = 64,
                        .disk_tokens = 32,
                        .cause = api::PrefixReport::Cause::kEvicted,
                        .first_difference = 96,
                        .text = "\xff text"});
  v1::WireEvent explained;
  ToWire(event, &explained);
  const auto report = FromWire(explained).usage.prefix;
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->memory_tokens, 64);
  EXPECT_EQ(report->disk_tokens, 32);
  EXPECT_EQ(report->cause, api::PrefixReport::Cause::kEvicted);
  EXPECT_EQ(report->first_difference, 96);
  EXPECT_EQ(report->text, "\xff text");
}

TEST(InferenceCodec, StatusesKeepWhatServersTell) {
  const Status status =
      Status(StatusCode::kInvalidArgument, "context_length_exceeded", "too \xff long")
          .WithParam("messages")
          .WithRetryAfter(std::chrono::milliseconds(250))
          .WithExcess(9, 8);
  v1::WireStatus wire;
  ToWire(status, &wire);
  EXPECT_EQ(FromWire(wire), status);
  ToWire(OkStatus(), &wire);
  v1::WireStatus ok;
  EXPECT_TRUE(FromWire(ok).ok());
}

TEST(InferenceCodec, WhatIsOutOfRangeBecomesTheFirstOfItsKind) {
  v1::WireGenerate wire;
  wire.mutable_place()->set_priority(99);
  wire.mutable_prompt()->mutable_chat()->add_messages()->set_role(-3);
  wire.mutable_prompt()->mutable_chat()->set_tool_choice(4);
  wire.mutable_sampling()->add_bias_tokens(1);  // without its value
  const api::GenerateRequest request = FromWire(wire, {});
  EXPECT_EQ(request.priority, api::Priority::kInteractive);
  EXPECT_EQ(std::get<api::ChatPrompt>(request.prompt).messages[0].role, api::Role::kSystem);
  EXPECT_EQ(std::get<api::ChatPrompt>(request.prompt).tool_choice.kind,
            api::ToolChoice::Kind::kAuto);
  EXPECT_TRUE(request.sampling.logit_bias.empty());
}

TEST(InferenceCodec, ModelsAndLoads) {
  api::ModelInfo model;
  model.id = "e";
  model.aliases = {"x"};
  model.generates = false;
  model.digest = "d1";
  model.tool_format = "hermes";
  model.files = {.format = "gguf",
                 .type = "Q4_K_M",
                 .bytes = int64_t{5} << 30,
                 .parameters = 8'000'000'000,
                 .modified_unix_s = 7};
  model.fills_middle = true;
  model.sampling = {
      .temperature = 0.0, .top_p = {}, .top_k = 20, .source = "generation_config.json"};
  model.encoder.emplace();
  model.encoder->width = 384;
  model.encoder->pairs = true;
  model.encoder->labels = {"l"};
  api::TokenizerInfo tokenizer;
  tokenizer.bos = "<s>";
  tokenizer.add_eos = true;
  tokenizer.chat_template = "{{ messages }}";
  model.tokenizer = std::make_shared<const api::TokenizerInfo>(tokenizer);
  model.status = {.state = api::ModelState::kFailed,
                  .pinned = false,
                  .memory_bytes = 5,
                  .expires_unix_s = 6,
                  .failure = "gguf_truncated"};
  v1::WireModel wire;
  ToWire(model, &wire);
  const api::ModelInfo back = FromWire(wire);
  EXPECT_EQ(back.status.state, api::ModelState::kFailed);
  EXPECT_FALSE(back.status.pinned);
  EXPECT_EQ(back.status.memory_bytes, 5);
  EXPECT_EQ(back.status.expires_unix_s, 6);
  EXPECT_EQ(back.status.failure, "gguf_truncated");
  ASSERT_NE(back.tokenizer, nullptr);
  EXPECT_EQ(back.tokenizer->bos, "<s>");
  EXPECT_EQ(back.tokenizer->eos, "");
  EXPECT_TRUE(back.tokenizer->add_eos && !back.tokenizer->add_bos);
  EXPECT_EQ(back.tokenizer->chat_template, "{{ messages }}");
  EXPECT_EQ(back.id, "e");
  EXPECT_EQ(back.files, model.files);
  EXPECT_EQ(back.aliases, model.aliases);
  EXPECT_EQ(back.tool_format, "hermes");
  EXPECT_TRUE(back.fills_middle);
  EXPECT_FALSE(back.generates);
  EXPECT_EQ(back.sampling.temperature, 0.0);
  EXPECT_EQ(back.sampling.top_k, 20);
  EXPECT_FALSE(back.sampling.top_p.has_value());
  EXPECT_EQ(back.sampling.source, "generation_config.json");
  EXPECT_EQ(back.encoder->width, 384);
  EXPECT_EQ(back.encoder->labels, model.encoder->labels);
  v1::Beat beat;
  ToWire(api::LoadSnapshot{1, 2, 3, 4, 5, api::LoadLevel::kYellow}, &beat);
  EXPECT_EQ(FromWire(beat).level, api::LoadLevel::kYellow);
  EXPECT_EQ(FromWire(beat).waiting, 2);
}

}  // namespace
}  // namespace tutti::cluster
