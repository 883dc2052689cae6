// EncodingCall: a parsed call of an encoder's route, in any dialect: the request, and the format of
// the answer. Values; pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/encoding.h"
#include "api/types.h"
#include "base/status.h"

namespace tutti::protocol {

enum class EncodingKind {
  kEmbeddings,     // POST /v1/embeddings
  kRerank,         // POST /v1/rerank, in the form of Jina, Cohere and vLLM
  kScore,          // POST /v1/score, vLLM's
  kTeiEmbed,       // POST /embed, and below: Text Embeddings Inference
  kTeiEmbedAll,    // POST /embed_all
  kTeiPredict,     // POST /predict
  kTeiRerank,      // POST /rerank, with texts
  kTeiSimilarity,  // POST /similarity
};

struct EncodingCall {
  EncodingKind kind = EncodingKind::kEmbeddings;
  api::EncodeRequest request;
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

}  // namespace tutti::protocol
