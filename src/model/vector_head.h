// VectorHead: what a decoder's files make of its rows after the last norm: vectors by dense
// modules, or scores by rows of its output head.
//
// Plain data in float32, read when the model is opened; pure functions, any thread. Folders
// describe it by sentence-transformers' modules (vector_modules.h), a GGUF by keys and tensors as
// llama.cpp's converter writes them:
//   pooling_type                       1 mean, 2 the first row, 3 the last one, 4 a score
//   dense_2_feat_in, dense_2_feat_out, dense_2.weight [out][in]; the same of dense_3
//   cls.output.weight [2][width]       the rows of "yes" and "no" of a reranker's output head
//   tokenizer.chat_template.rerank     its prompt, with {query} and {document}
// and of Tutti's own:
//   tutti.prompt_names, tutti.prompt_texts, tutti.default_prompt   the prompts before texts
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/header.h"
#include "gguf/header_writer.h"
#include "model/config.h"
#include "model/tensor_store.h"
#include "model/vector_modules.h"
#include "tensor/dtype.h"

namespace tutti::model {

struct VectorHead {
  // Rows of the output head, [width] each. A text's last row times `yes`, less that times `no`, is
  // its score; `no` is empty where one token decides. Both are empty unless the model scores.
  std::vector<float> yes, no;
  struct Dense {
    std::vector<float> weight;  // [in][out]
    std::vector<float> bias;    // [out], or empty
    std::optional<Activation> activation;
    size_t columns = 0;  // out
  };
  std::vector<Dense> dense;  // applied to a text's vector, one after another

  bool scores() const { return !yes.empty(); }
};

// The tensors in the folder of a module, "2_Dense". Errors: of opening.
using OpenModule = std::function<Result<std::unique_ptr<TensorStore>>(const std::string&)>;

// The head of a folder. `tensors`: the decoder's, under GGUF's names. Errors: model_hparam,
// model_tensor_missing, st_shape, model_nonfinite, of `open`, and of reading (st_offsets,
// model_path).
Result<VectorHead> ReadVectorHead(const VectorModules& modules, const ModelConfig& config,
                                  const TensorStore& tensors, const OpenModule& open);

// The modules and the head of a GGUF. Vectors have length 1: the format has no key for that.
// Prompts are in keys of Tutti's own. Errors: model_hparam, model_tensor_missing, gguf_shape,
// model_nonfinite, gguf_type, and of reading (gguf_truncated, model_path).
struct GgufVectors {
  VectorModules modules;
  VectorHead head;
  std::vector<std::string> tensors;  // the names of those that were read, which are no layer's
};
Result<GgufVectors> ReadGgufVectors(const gguf::Header& header, const ModelConfig& config,
                                    const TensorStore& tensors);

// The reverse, for a GGUF of a folder. First what such a file cannot hold: model_hparam.
// `chat_template`: the model's.
Status CheckGgufVectors(const VectorModules& modules, const VectorHead& head,
                        const std::string& chat_template);
// Its keys, of what CheckGgufVectors() accepts.
void PutVectors(const VectorModules& modules, const VectorHead& head, const ModelConfig& config,
                const std::string& chat_template, gguf::HeaderWriter& out);
// Its tensors, in float32. `width`: of the model's rows.
struct VectorTensor {
  std::string name;
  std::vector<float> values;
  tensor::Shape shape;
};
std::vector<VectorTensor> VectorTensors(const VectorHead& head, int width);

// Whether a chat template writes the texts of a pair: messages of the roles "query" and
// "document", as sentence-transformers gives them to a reranker. A "system" message is its
// instruction.
bool RendersPairs(const std::string& chat_template);
// The error of a model that scores and has no such template.
Status PairTemplateFault();

// The text of tokenizer.chat_template.rerank as such a template. Errors: model_hparam where a
// placeholder is missing.
Result<std::string> PairTemplateOf(std::string_view rerank);

// The reverse: what RendersPairs() accepts, rendered with the placeholders as texts.
std::string RerankTextOf(const std::string& chat_template);

}  // namespace tutti::model
