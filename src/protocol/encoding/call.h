// EncodingCall: a parsed call of an encoder's route, in any dialect: the request, and the format of
// the answer. How its inputs are read, and how errors name them. Values; pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/encoding.h"
#include "api/types.h"
#include "base/status.h"
#include "protocol/encoding/errors.h"
#include "protocol/json/json.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// --- the call ---

enum class EncodingKind {
  kEmbeddings,        // POST /v1/embeddings
  kRerank,            // POST /v1/rerank, in the form of Jina, Cohere and vLLM
  kScore,             // POST /v1/score, vLLM's
  kOllamaEmbed,       // POST /api/embed
  kOllamaEmbeddings,  // POST /api/embeddings
  kTeiEmbed,          // POST /embed, and below: Text Embeddings Inference
  kTeiEmbedAll,       // POST /embed_all
  kTeiPredict,        // POST /predict
  kTeiRerank,         // POST /rerank, with texts
  kTeiSimilarity,     // POST /similarity
  kTeiSparse,         // POST /embed_sparse
};

struct EncodingCall {
  EncodingKind kind = EncodingKind::kEmbeddings;
  api::EncodeRequest request;
  std::string shown_model;           // name of the model in the answer, if another was asked for
  std::string input_name = "input";  // the client's field that holds the inputs
  bool listed = true;                // in a list; else that field is the one input
  bool base64 = false;               // kEmbeddings
  int top_n = 0;                     // kRerank: number of best results; 0 = all
  std::vector<std::string> texts;    // of rerank kinds: what the answer repeats; none: nothing
  size_t characters = 0;             // of all inputs; of token ids, the ids
  std::vector<std::string> ignored;  // unknown fields, for x-tutti-ignored

  // True for calls that score pairs of texts.
  bool ranks() const {
    return kind == EncodingKind::kRerank || kind == EncodingKind::kScore ||
           kind == EncodingKind::kTeiRerank;
  }
  bool tei() const { return kind >= EncodingKind::kTeiEmbed; }
};

// The client's name of an input: "input[3]", "inputs.sentences[2]".
std::string InputParam(const EncodingCall& call, size_t index);

// Replaces "input" or "input[3]" in an error of api::Inference by the client's name of the field.
Status BlameInput(const EncodingCall& call, Status status);

// The model of the call, as api::EncoderFor() says. Nothing when it is not there: the inference API
// says so best. Errors: invalid_value of "model", when that model ranks nothing or none gives what
// is asked for.
Result<const api::ModelInfo*> ChooseModel(const EncodingCall& call,
                                          std::span<const api::ModelInfo> models);

// --- reading texts, token ids and pairs to api::EncodeInput ---
//
// Errors: invalid_value, empty_prompt, token_out_of_range, request_too_large; each names the
// invalid element ("input[3]").

// Makes a call with the fields common to all kinds: model, priority, deadline. `input_name`: name
// of the inputs' field.
Result<EncodingCall> BeginCall(EncodingKind kind, std::string input_name,
                               const CheckedObject& object, const ParseOptions& options);

// Parses string | [string] | [int] | [[int]] to the inputs of the call. `mixed`: a list may contain
// both strings and lists of ids.
Status ReadInputs(const Json& value, bool mixed, EncodingCall* call);

// 1 to kMaxEncodeInputs strings, none empty.
Result<std::vector<std::string>> ReadTexts(const Json& value, const std::string& name);

// Adds an input; `param` is its name in the error for an empty one.
Status AddText(std::string text, const std::string& param, EncodingCall* call);
void AddPair(std::string first, std::string second, EncodingCall* call);

// Pairs the query with each text, at most api::kMaxPairBytes in total. `texts` are not changed.
Status AddPairs(const std::string& query, const std::vector<std::string>& texts,
                EncodingCall* call);

Status EmptyInput(const std::string& param);     // empty_prompt
Status TooManyInputs(const std::string& param);  // invalid_value

}  // namespace tutti::protocol
