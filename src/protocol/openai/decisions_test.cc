// Decisions, in and out.
#include "protocol/openai/decisions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

using StreamKind = api::StreamEvent::Kind;

Result<GenerationCall> ParseAs(Dialect dialect, const std::string& text, bool strict = false) {
  const Result<JsonDocument> body = ParseJson(text);
  EXPECT_TRUE(body.ok()) << text;
  return ParseGeneration(dialect, body->root(), {.strict = strict});
}

std::string WithQuestions(const std::string& questions) {
  return R"({"model":"m","input":"Some text.","questions":)" + questions + "}";
}

const api::ChatPrompt& ChatOf(const GenerationCall& call, size_t request) {
  return std::get<api::ChatPrompt>(call.requests[request].prompt);
}

const std::string kThree = WithQuestions(
    R"([{"type":"predicate","name":"p","instructions":"Is it?"},)"
    R"({"type":"choice","instructions":"Which?","choices":[{"value":"red","description":"warm"},{"value":true}]},)"
    R"({"type":"score","name":"s","instructions":"How?","levels":[{"label":"low"},{"label":"mid"},{"label":"high"}]}])");

TEST(DecisionsRequest, HasARequestForEachLabelBehindTheSharedText) {
  const Result<GenerationCall> call = ParseAs(Dialect::kDecisions, kThree);
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_EQ(call->requests.size(), 7u);
  const char* const labels[] = {"yes", "no", "red", "true", "0", "1", "2"};
  for (size_t i = 0; i < 7; ++i) {
    const api::GenerateRequest& request = call->requests[i];
    ASSERT_TRUE(request.continuation.has_value());
    EXPECT_EQ(request.continuation->text, labels[i]);
    EXPECT_EQ(request.continuation->covered, i != 0 && i != 2 && i != 4);
    EXPECT_TRUE(request.score_only);
    EXPECT_TRUE(ChatOf(*call, i).messages.back().content.starts_with("Some text.\n\n"));
  }
  EXPECT_EQ(call->requests[4].continuation->others, (std::vector<std::string>{"1", "2"}));
  EXPECT_TRUE(call->requests[5].continuation->others.empty());
  EXPECT_EQ(ChatOf(*call, 0).messages.back().content,
            "Some text.\n\nIs it?\nAnswer with yes or no.");
  EXPECT_EQ(ChatOf(*call, 3).messages.back().content,
            "Some text.\n\nWhich?\nAnswer with one of these:\nred: warm\ntrue");
  EXPECT_TRUE(call->ignored.empty());
}

TEST(DecisionsRequest, DescribesItsQuestionsToClassifiers) {
  const Result<GenerationCall> call = ParseAs(Dialect::kDecisions, kThree);
  ASSERT_TRUE(call.ok()) << call.status();
  const auto classes = [&](size_t i) { return call->requests[i].continuation->classes; };
  for (const size_t first : {0, 2, 4}) EXPECT_EQ(classes(first).text_bytes, 10u);  // "Some text."
  EXPECT_TRUE(classes(0).yes_or_no);
  EXPECT_FALSE(classes(2).yes_or_no);
  EXPECT_TRUE(classes(2).names.empty());
  EXPECT_EQ(classes(4).names, (std::vector<std::string>{"low", "mid", "high"}));
  EXPECT_EQ(classes(5), api::Continuation::Classes());
}

TEST(DecisionsRequest, TheTwoFormsAskTheSame) {
  const Result<GenerationCall> one = ParseAs(
      Dialect::kSystemOne,
      R"({"model":"m","state":"Some text.","questions":{"p":{"type":"noul","instructions":"Is it?"},)"
      R"("c":{"type":"choice","instructions":"Which?","criteria":{"red":"warm","true":null}},)"
      R"("s":{"type":"score","instructions":"How?","criteria":["low","mid","high"]}}})");
  const Result<GenerationCall> other = ParseAs(Dialect::kDecisions, kThree);
  ASSERT_TRUE(one.ok() && other.ok()) << one.status();
  ASSERT_EQ(one->requests.size(), other->requests.size());
  for (size_t i = 0; i < one->requests.size(); ++i) {
    EXPECT_EQ(ChatOf(*one, i).messages.back().content, ChatOf(*other, i).messages.back().content);
    EXPECT_EQ(one->requests[i].continuation, other->requests[i].continuation);
  }
}

TEST(DecisionsRequest, ReadsMessagesAndParts) {
  const Result<GenerationCall> call = ParseAs(
      Dialect::kDecisions,
      R"({"model":"m","input":[{"role":"developer","content":"Rules."},{"type":"message","role":"user","content":[)"
      R"({"type":"input_text","text":"a"},{"type":"input_json","data":{"b":1}}]},{"role":"assistant","content":"c"}],)"
      R"("questions":[{"type":"predicate","instructions":[{"type":"input_text","text":"Is it?"}]}]})");
  ASSERT_TRUE(call.ok()) << call.status();
  const std::vector<api::ChatMessage>& messages = ChatOf(*call, 0).messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].role, api::Role::kSystem);
  EXPECT_EQ(messages[1].content, "a\n{\"b\":1}");
  EXPECT_EQ(messages[3].role, api::Role::kUser);
  EXPECT_EQ(messages[3].content, "Is it?\nAnswer with yes or no.");
}

TEST(DecisionsRequest, ErrorsNameTheField) {
  std::string many, levels;
  for (int i = 0; i < 256; ++i) {
    many += (i == 0 ? "" : ",") + std::string(R"({"value":"v)") + std::to_string(i) + "\"}";
    levels += (i == 0 ? "" : ",") + std::string(R"({"label":"v)") + std::to_string(i) + "\"}";
  }
  const std::string choice = R"([{"type":"choice","instructions":"x","choices":)";
  const std::string wide = R"({"type":"score","instructions":"x","levels":[)" +
                           levels.substr(0, levels.rfind(',')) + "]}";
  struct Case {
    std::string body, param, reason = "invalid_value";
  };
  const Case cases[] = {
      {R"({"input":"x","questions":[]})", "model", "missing_required_parameter"},
      {R"({"model":"m","questions":[]})", "input", "missing_required_parameter"},
      {R"({"model":"m","input":"x"})", "questions", "missing_required_parameter"},
      {R"({"model":"m","input":"","questions":[]})", "input"},
      {R"({"model":"m","input":7,"questions":[]})", "input"},
      {R"({"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}],"questions":[]})",
       "input[0].content[0]", "unsupported_parameter"},
      {R"({"model":"m","input":[{"type":"function_call","name":"f"}],"questions":[]})", "input[0]",
       "unsupported_parameter"},
      {R"({"model":"m","input":[{"role":"tool","content":"x"}],"questions":[]})", "input[0].role"},
      {WithQuestions("[]"), "questions"},
      {WithQuestions("{}"), "questions"},
      {WithQuestions(R"([7])"), "questions[0]"},
      {WithQuestions(R"([{"type":"box","instructions":"x"}])"), "questions[0].type"},
      {WithQuestions(R"([{"instructions":"x"}])"), "questions[0].type",
       "missing_required_parameter"},
      {WithQuestions(R"([{"type":"predicate"}])"), "questions[0].instructions",
       "missing_required_parameter"},
      {WithQuestions(R"([{"type":"predicate","instructions":""}])"), "questions[0].instructions"},
      {WithQuestions(choice + R"([{"value":"a"}]}])"), "questions[0].choices"},
      {WithQuestions(choice + "[" + many + "]}]"), "questions[0].choices"},
      {WithQuestions(choice + R"([{"value":"a"},{"value":""}]}])"),
       "questions[0].choices[1].value"},
      {WithQuestions(choice + R"([{"value":"a"},{"value":7}]}])"), "questions[0].choices[1].value"},
      {WithQuestions(choice + R"([{"value":"true"},{"value":true}]}])"),
       "questions[0].choices[1].value"},
      {WithQuestions(
           R"([{"type":"score","instructions":"x","levels":[{"label":"a"},{"label":"a"}]}])"),
       "questions[0].levels[1].label"},
      {WithQuestions("[" + wide + "," + wide + "," + wide + "," + wide + "," + wide + "]"),
       "questions"},
      {R"({"model":"m","input":"x","stream":true,"questions":[]})", "stream",
       "unsupported_parameter"},
      {R"({"model":"m","input":")" + std::string(1 << 20, 'x') + R"(","questions":[)" + wide + "]}",
       "input", "request_too_large"},
  };
  for (const auto& [body, param, reason] : cases) {
    const Status status = ParseAs(Dialect::kDecisions, body).status();
    EXPECT_EQ(status.param(), param) << body.substr(0, 200) << " " << status;
    EXPECT_EQ(status.reason(), reason) << body.substr(0, 200);
  }
  const std::string unknown = WithQuestions(R"([{"type":"predicate","instructions":"x","why":1}])");
  EXPECT_EQ(ParseAs(Dialect::kDecisions, unknown)->ignored,
            (std::vector<std::string>{"questions[0].why"}));
  EXPECT_EQ(ParseAs(Dialect::kDecisions, unknown, /*strict=*/true).status().reason(),
            "unknown_parameter");
}

TEST(DecisionsRequest, SystemOneErrorsNameTheField) {
  const auto param = [](const std::string& question) {
    return ParseAs(Dialect::kSystemOne,
                   R"({"model":"m","state":"x","questions":{"q":)" + question + "}}")
        .status()
        .param();
  };
  EXPECT_EQ(param(R"({"type":"box","instructions":"x"})"), "questions.q.type");
  EXPECT_EQ(param(R"({"type":"choice","instructions":"x"})"), "questions.q.criteria");
  EXPECT_EQ(param(R"({"type":"choice","instructions":"x","criteria":{"a":"b"}})"),
            "questions.q.criteria");
  EXPECT_EQ(param(R"({"type":"choice","instructions":"x","criteria":{"a":"b","":"c"}})"),
            "questions.q.criteria.");
  EXPECT_EQ(param(R"({"type":"score","instructions":"x","criteria":["a","a"]})"),
            "questions.q.criteria[1]");
  EXPECT_EQ(param(R"({"type":"score","instructions":7,"criteria":["a","b"]})"),
            "questions.q.instructions");
  EXPECT_EQ(
      ParseAs(Dialect::kSystemOne, R"({"model":"m","state":7,"questions":{}})").status().param(),
      "state");
}

TEST(DecisionsRequest, ErrorsOfTheInferenceNameTheLabel) {
  const Result<GenerationCall> call = ParseAs(Dialect::kDecisions, kThree);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(DecisionParam(*call, "continuation", 3), "questions[1].choices[1].value");
  EXPECT_EQ(DecisionParam(*call, "continuation[2]", 4), "questions[2].levels[2].label");
  EXPECT_EQ(DecisionParam(*call, "messages", 0), "input");
  EXPECT_EQ(DecisionParam(*call, "model", 0), "model");
}

// --- the answer ---

api::StreamEvent Scored(double logprob, std::vector<double> others = {}) {
  api::StreamEvent event;
  event.kind = StreamKind::kPromptToken;
  event.logprobs.emplace();
  event.logprobs->chosen.logprob = static_cast<float>(logprob);
  for (const double other : others)
    event.logprobs->top.push_back({.token = 1, .logprob = static_cast<float>(other), .bytes = ""});
  return event;
}

api::StreamEvent Ended(int prompt, int cached) {
  api::StreamEvent event;
  event.kind = StreamKind::kEnd;
  event.usage.prompt_tokens = prompt;
  event.usage.cached_tokens = cached;
  return event;
}

TEST(DecisionsResponse, NormalisesOverTheLabels) {
  const double half = std::log(0.5), quarter = std::log(0.25);
  const Result<GenerationCall> call = ParseAs(Dialect::kDecisions, kThree);
  const auto writer = MakeResponseWriter(*call, {.id = "", .model = "m", .fingerprint = ""}, {});
  std::string out;
  const auto feed = [&](int prompt, const std::vector<api::StreamEvent>& events) {
    for (const api::StreamEvent& event : events) writer->OnEvent(prompt, event, &out);
  };
  feed(0, {Scored(quarter, {half + quarter}), Ended(10, 0)});
  feed(1, {Ended(0, 0)});
  // The second label has two tokens, and so a request of its own.
  feed(2, {Scored(half), Ended(11, 8)});
  feed(3, {Scored(half), Scored(0), Ended(12, 8)});
  feed(4, {Scored(quarter, {quarter, half}), Ended(10, 8)});
  feed(5, {Ended(0, 0)});
  feed(6, {Ended(0, 0)});
  EXPECT_EQ(out, "");
  writer->OnDone(&out);
  const Result<JsonDocument> answer = ParseJson(out);
  ASSERT_TRUE(answer.ok()) << out;
  const JsonArray& answers = answer->root().at("answers").as_array();
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_NEAR(answers[0].at("probability").as_double(), 2.0 / 3, 1e-7);
  EXPECT_EQ(answers[0].at("name").as_string(), "p");
  EXPECT_TRUE(answers[1].at("name").is_null());
  EXPECT_EQ(answers[1].at("choice").as_string(), "red");
  EXPECT_NEAR(answers[1].at("probabilities").at(1).at("probability").as_double(), 0.5, 1e-7);
  EXPECT_TRUE(answers[1].at("probabilities").at(1).at("value").as_bool());
  EXPECT_NEAR(answers[2].at("score").as_double(), 1.25, 1e-7);
  EXPECT_NEAR(answers[2].at("confidence").as_double(), 0.25, 1e-7);
  EXPECT_EQ(answers[2].at("probabilities").at(2).at("label").as_string(), "high");
  EXPECT_EQ(answer->root().at("usage").at("input_tokens").as_int64(), 43);
  EXPECT_EQ(answer->root().at("usage").at("input_tokens_details").at("cached_tokens").as_int64(),
            24);
}

TEST(DecisionsResponse, ShowsATemperatureThatIsNotOne) {
  const Result<GenerationCall> call = ParseAs(
      Dialect::kDecisions, WithQuestions(R"([{"type":"predicate","instructions":"Is it?"}])"));
  const auto temperature = [&](double of_model) -> std::string {
    ResponseHead head{.id = "", .model = "m", .fingerprint = ""};
    head.decision_temperature = of_model;
    const auto writer = MakeResponseWriter(*call, head, {});
    std::string out;
    writer->OnEvent(0, Scored(-1, {-2}), &out);
    writer->OnEvent(0, Ended(10, 0), &out);
    writer->OnEvent(1, Ended(0, 0), &out);
    writer->OnDone(&out);
    const Result<JsonDocument> answer = ParseJson(out);
    const auto* value = answer->root().as_object().if_contains("temperature");
    return value == nullptr ? "none" : PrintJson(*value);
  };
  EXPECT_EQ(temperature(1.5), "1.5");
  EXPECT_EQ(temperature(1), "none");
  EXPECT_EQ(temperature(0), "none") << "an alias of models with different ones";
}

TEST(DecisionsResponse, SystemOneIsKeyedByTheQuestionsNames) {
  const Result<GenerationCall> call =
      ParseAs(Dialect::kSystemOne,
              R"({"model":"m","state":"x","questions":{"a":{"type":"noul","instructions":"x"},)"
              R"("b":{"type":"score","instructions":"x","criteria":["low","high"]}}})");
  ASSERT_TRUE(call.ok());
  const auto writer = MakeResponseWriter(*call, {.id = "", .model = "m", .fingerprint = ""}, {});
  std::string out;
  for (const int lead : {0, 2}) writer->OnEvent(lead, Scored(-1, {-1}), &out);
  writer->OnDone(&out);
  EXPECT_EQ(
      out,
      R"({"model":"m","answers":{"a":{"type":"noul","noul":0.5},)"
      R"("b":{"type":"score","score":0.5,"legend":{"0":"low","1":"high"},"probabilities":{"0":0.5,"1":0.5},"confidence":0.0}},)"
      R"("usage":{"input_tokens":0,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":0,)"
      R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}})");
}

TEST(Probabilities, SumToOneAndKeepTheirRatios) {
  const std::vector<double> all = Probabilities(std::vector<double>{-1000, -1002, -3000});
  EXPECT_NEAR(all[0] / all[1], std::exp(2.0), 1e-9);
  EXPECT_NEAR(all[0] + all[1] + all[2], 1, 1e-12);
  EXPECT_EQ(Confidence(std::vector<double>{0.25, 0.25, 0.25, 0.25}), 0);
  EXPECT_EQ(Confidence(std::vector<double>{1, 0}), 1);
}

}  // namespace
}  // namespace tutti::protocol
