// Decisions: questions about a text whose possible answers are known, answered with the probability
// of each. POST /v1/decisions (OpenAI) and POST /v1/systemone (TypeSafe, vLLM, Ollama), which say
// the same in two forms. No token is generated: each label is scored as the answer to a prompt of
// the text and the question. The text comes first, so that all questions share it. Pure.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/openai/decision_questions.h"
#include "protocol/openai/request.h"
#include "protocol/response_writer.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

inline constexpr size_t kMaxQuestions = 400;        // of one call, as OpenAI has it
inline constexpr size_t kMaxDecisionLabels = 1024;  // of all questions of one call

// `dialect`: kDecisions or kSystemOne. Makes one request for each label of each question. Errors
// name the field: missing_required_parameter, invalid_value, unsupported_parameter (images, tool
// calls), request_too_large.
Result<GenerationCall> ParseDecisions(Dialect dialect, const Json& body,
                                      const ParseOptions& options);

// The client's name of the field that an error of request `index` is about; `param` is the name in
// the inference API.
std::string DecisionParam(const GenerationCall& call, const std::string& param, size_t index);

// Probabilities in proportion to those whose logarithms are given; their sum is 1.
std::vector<double> Probabilities(std::span<const double> logprobs);

// How far the greatest of `probabilities` is above chance: 0 if all are equal, 1 if it is certain.
double Confidence(std::span<const double> probabilities);

// One JSON object at the end. The call must outlive the writer.
std::unique_ptr<ResponseWriter> MakeDecisionsWriter(const GenerationCall& call, ResponseHead head);

}  // namespace tutti::protocol
