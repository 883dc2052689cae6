#include <algorithm>
#include <cmath>
#include <utility>

#include "protocol/json/json_writer.h"
#include "protocol/openai/decisions.h"
#include "protocol/openai/parts.h"

namespace tutti::protocol {
namespace {

using QuestionKind = DecisionQuestion::Kind;

class DecisionsWriter final : public ResponseWriter {
 public:
  DecisionsWriter(const GenerationCall& call, ResponseHead head)
      : call_(call), head_(std::move(head)), scores_(call.requests.size()) {}

  void OnEvent(int prompt, const api::StreamEvent& event, std::string*) override {
    Score& score = scores_[static_cast<size_t>(prompt)];
    if (event.kind == api::StreamEvent::Kind::kPromptToken && event.logprobs.has_value()) {
      if (!score.known) {
        for (const api::Logprob& other : event.logprobs->top) score.others.push_back(other.logprob);
      }
      score.known = true;
      score.logprob += event.logprobs->chosen.logprob;
    }
    if (event.kind == api::StreamEvent::Kind::kEnd) AddUsage(event.usage, &usage_);
  }

  void OnDone(std::string* out) override {
    JsonWriter json(out);
    const bool openai = call_.dialect == Dialect::kDecisions;
    json.BeginObject().Member("model", head_.model).Key("answers");
    openai ? json.BeginArray() : json.BeginObject();
    for (const DecisionQuestion& question : call_.questions) {
      const std::vector<double> probabilities = ProbabilitiesOf(question);
      openai ? WriteOpenAi(question, probabilities, &json)
             : WriteSystemOne(question, probabilities, &json);
    }
    openai ? json.EndArray() : json.EndObject();
    // Neither form has the field, so it is written only where it changes the answers.
    if (head_.decision_temperature > 0 && head_.decision_temperature != 1)
      json.Member("temperature", head_.decision_temperature);
    json.Key("usage").BeginObject().Member("input_tokens", usage_.prompt_tokens);
    json.Key("input_tokens_details").BeginObject().Member("cached_tokens", usage_.cached_tokens);
    json.Member("cache_write_tokens", 0).EndObject().Member("output_tokens", 0);
    json.Key("output_tokens_details").BeginObject().Member("reasoning_tokens", 0).EndObject();
    json.Member("total_tokens", usage_.prompt_tokens).EndObject().EndObject();
  }

  void OnError(const ErrorView& error, std::string* out) override { *out += ErrorBody(error); }

 private:
  struct Score {
    bool known = false;          // it came; else the question's first request has it
    double logprob = 0;          // sum over the label's tokens
    std::vector<double> others;  // of the question's first request: of other labels, in order
  };

  std::vector<double> ProbabilitiesOf(const DecisionQuestion& question) const {
    const Score& lead = scores_[question.first];
    std::vector<double> logprobs;
    size_t other = 0;
    for (size_t i = 0; i < question.labels.size(); ++i) {
      const Score& own = scores_[question.first + i];
      const bool covered = !own.known && other < lead.others.size();
      logprobs.push_back(covered ? lead.others[other++] : own.logprob);
    }
    return Probabilities(logprobs);
  }

  static size_t Best(const std::vector<double>& probabilities) {
    return static_cast<size_t>(std::max_element(probabilities.begin(), probabilities.end()) -
                               probabilities.begin());
  }
  static double Expected(const std::vector<double>& probabilities) {
    double sum = 0;
    for (size_t i = 0; i < probabilities.size(); ++i)
      sum += static_cast<double>(i) * probabilities[i];
    return sum;
  }
  static void WriteValue(std::string_view key, const DecisionLabel& label, JsonWriter* json) {
    label.boolean ? json->Member(key, label.shown == "true") : json->Member(key, label.shown);
  }

  static void WriteOpenAi(const DecisionQuestion& question,
                          const std::vector<double>& probabilities, JsonWriter* json) {
    json->BeginObject().Member("type", question.kind == QuestionKind::kPredicate ? "predicate"
                                       : question.kind == QuestionKind::kChoice  ? "choice"
                                                                                 : "score");
    question.named ? json->Member("name", question.name) : json->Member("name", nullptr);
    if (question.kind == QuestionKind::kPredicate) {
      json->Member("probability", probabilities.front()).EndObject();
      return;
    }
    const bool choice = question.kind == QuestionKind::kChoice;
    if (choice) {
      WriteValue("choice", question.labels[Best(probabilities)], json);
    } else {
      json->Member("score", Expected(probabilities));
    }
    json->Member("confidence", Confidence(probabilities)).Key("probabilities").BeginArray();
    for (size_t i = 0; i < probabilities.size(); ++i) {
      json->BeginObject();
      if (choice) {
        WriteValue("value", question.labels[i], json);
      } else {
        json->Member("value", static_cast<int64_t>(i)).Member("label", question.labels[i].shown);
      }
      json->Member("probability", probabilities[i]).EndObject();
    }
    json->EndArray().EndObject();
  }

  static void WriteSystemOne(const DecisionQuestion& question,
                             const std::vector<double>& probabilities, JsonWriter* json) {
    json->Key(question.name).BeginObject();
    if (question.kind == QuestionKind::kPredicate) {
      json->Member("type", "noul").Member("noul", probabilities.front()).EndObject();
      return;
    }
    const bool choice = question.kind == QuestionKind::kChoice;
    json->Member("type", choice ? "choice" : "score");
    if (choice) {
      json->Member("choice", question.labels[Best(probabilities)].shown);
    } else {
      json->Member("score", Expected(probabilities)).Key("legend").BeginObject();
      for (const DecisionLabel& label : question.labels) json->Member(label.scored, label.shown);
      json->EndObject();
    }
    json->Key("probabilities").BeginObject();
    for (size_t i = 0; i < probabilities.size(); ++i)
      json->Member(question.labels[i].scored, probabilities[i]);
    json->EndObject().Member("confidence", Confidence(probabilities)).EndObject();
  }

  const GenerationCall& call_;
  const ResponseHead head_;
  std::vector<Score> scores_;  // of each request
  api::Usage usage_;
};

}  // namespace

std::vector<double> Probabilities(std::span<const double> logprobs) {
  const double most = *std::max_element(logprobs.begin(), logprobs.end());
  std::vector<double> probabilities;
  double sum = 0;
  for (const double logprob : logprobs) {
    probabilities.push_back(std::exp(logprob - most));
    sum += probabilities.back();
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

double Confidence(std::span<const double> probabilities) {
  const double chance = 1.0 / static_cast<double>(probabilities.size());
  const double most = *std::max_element(probabilities.begin(), probabilities.end());
  return std::clamp((most - chance) / (1.0 - chance), 0.0, 1.0);
}

std::unique_ptr<ResponseWriter> MakeDecisionsWriter(const GenerationCall& call, ResponseHead head) {
  return std::make_unique<DecisionsWriter>(call, std::move(head));
}

}  // namespace tutti::protocol
