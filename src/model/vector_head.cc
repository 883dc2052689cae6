#include "model/vector_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/quote.h"
#include "gguf/metadata.h"
#include "model/hyper_parameters.h"
#include "tensor/dequantize.h"
#include "tensor/dtype.h"
#include "tokenizer/chat_template.h"

namespace tutti::model {
namespace {

constexpr std::string_view kHeadTensor = "output.weight", kEmbeddingTensor = "token_embd.weight",
                           kScoreTensor = "cls.output.weight";
constexpr std::array<std::string_view, 2> kDenseTensors = {"dense_2", "dense_3"};
constexpr std::string_view kQuery = "{query}", kDocument = "{document}";

Result<std::vector<float>> ReadAll(const TensorStore& store, const std::string& name,
                                   const tensor::Shape& shape) {
  ASSIGN_OR_RETURN(const StoredTensor* found, Expect(store, name, shape));
  return ReadFinite(store, *found);
}

// `name`: of the module's tensors, without ".weight".
Result<VectorHead::Dense> ReadDense(const TensorStore& store, const DenseModule& module,
                                    const std::string& name) {
  VectorHead::Dense layer;
  layer.activation = module.activation;
  layer.columns = static_cast<size_t>(module.out);
  ASSIGN_OR_RETURN(const std::vector<float> rows,
                   ReadAll(store, name + ".weight", {module.in, module.out}));
  if (module.bias) {
    ASSIGN_OR_RETURN(layer.bias, ReadAll(store, name + ".bias", {module.out}));
  }
  const auto in = static_cast<size_t>(module.in), out = static_cast<size_t>(module.out);
  layer.weight.resize(in * out);
  for (size_t o = 0; o < out; ++o)
    for (size_t i = 0; i < in; ++i) layer.weight[i * out + o] = rows[o * in + i];
  return layer;
}

Result<std::vector<float>> ReadRow(const TensorStore& store, const StoredTensor& matrix,
                                   int64_t row) {
  const int64_t columns = matrix.shape.columns();
  const auto bytes = static_cast<size_t>(tensor::RowBytes(matrix.dtype, columns));
  std::vector<std::byte> stored(bytes);
  RETURN_IF_ERROR(store.Read(matrix, static_cast<uint64_t>(row) * bytes, stored));
  std::vector<float> values(static_cast<size_t>(columns));
  tensor::DequantizeRow(matrix.dtype, stored.data(), values.data(), columns);
  RETURN_IF_ERROR(CheckFinite(matrix, values));
  return values;
}

// Replaces the first `from` in `text`. False without one.
bool Replace(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) return false;
  text.replace(at, from.size(), to);
  return true;
}

std::string ContentOf(std::string_view role) {
  return fmt::format(
      "{{{{ messages | selectattr('role', 'eq', '{}') | map(attribute='content') | first }}}}",
      role);
}

// Nothing if the template cannot be rendered.
std::optional<std::string> RenderPair(const std::string& chat_template, std::string_view query,
                                      std::string_view document) {
  const auto compiled = tokenizer::ChatTemplate::Compile(chat_template, {});
  if (!compiled.ok()) return std::nullopt;
  tokenizer::ChatInput chat;
  for (const auto& [role, text] : {std::pair{"query", query}, {"document", document}})
    chat.messages.push_back(
        {.role = role, .content = tokenizer::jinja::Value::String(std::string(text))});
  const auto rendered = compiled->Render(chat, {});
  return rendered.ok() ? std::optional(rendered->Text()) : std::nullopt;
}

// The rows of "yes" and "no", in that order.
Status ReadScoreRows(const gguf::Header& header, const std::string& prefix,
                     const ModelConfig& config, const TensorStore& tensors, GgufVectors& vectors) {
  const std::string key = prefix + "classifier.output_labels";
  if (header.Find(key)) {
    ASSIGN_OR_RETURN(const gguf::StringArray labels, gguf::GetStrings(header, key));
    constexpr std::string_view kLabels[] = {"yes", "no"};
    if (!std::equal(labels.begin(), labels.end(), std::begin(kLabels), std::end(kLabels)))
      return RefuseParameter("{} is not [yes, no], which alone is supported in {}", key,
                             config.architecture);
  }
  ASSIGN_OR_RETURN(const StoredTensor* rows, Expect(tensors, kScoreTensor, {config.width, 2}));
  ASSIGN_OR_RETURN(vectors.head.yes, ReadRow(tensors, *rows, 0));
  ASSIGN_OR_RETURN(vectors.head.no, ReadRow(tensors, *rows, 1));
  vectors.tensors.emplace_back(kScoreTensor);
  vectors.modules.scores = LogitScore{.yes = 0, .no = 1};
  return OkStatus();
}

}  // namespace

Result<VectorHead> ReadVectorHead(const VectorModules& modules, const ModelConfig& config,
                                  const TensorStore& tensors, const OpenModule& open) {
  VectorHead head;
  if (modules.scores) {
    const TokenId last = std::max(modules.scores->yes, modules.scores->no.value_or(0));
    if (last >= config.vocab_size)
      return RefuseParameter("modules.json: LogitScore names token {}, the model has {}", last,
                             config.vocab_size);
    ASSIGN_OR_RETURN(const StoredTensor* matrix,
                     Expect(tensors, config.tied_head ? kEmbeddingTensor : kHeadTensor,
                            {config.width, config.vocab_size}));
    ASSIGN_OR_RETURN(head.yes, ReadRow(tensors, *matrix, modules.scores->yes));
    if (modules.scores->no) {
      ASSIGN_OR_RETURN(head.no, ReadRow(tensors, *matrix, *modules.scores->no));
    }
  }
  for (const DenseModule& module : modules.dense) {
    ASSIGN_OR_RETURN(const auto store, open(module.folder));
    auto layer = ReadDense(*store, module, "linear");
    if (!layer.ok()) return std::move(layer).status().WithContext(module.folder);
    head.dense.push_back(*std::move(layer));
  }
  return head;
}

Result<GgufVectors> ReadGgufVectors(const gguf::Header& header, const ModelConfig& config,
                                    const TensorStore& tensors) {
  GgufVectors vectors;
  VectorModules& modules = vectors.modules;
  const std::string prefix = config.architecture + ".";
  const GgufParameters keys(header, prefix);
  ASSIGN_OR_RETURN(const int64_t pooling, keys.IntOr("pooling_type", 0, 0, 4));
  if (pooling == 0) return vectors;
  if (pooling == 4) {
    RETURN_IF_ERROR(ReadScoreRows(header, prefix, config, tensors, vectors));
    return vectors;
  }
  constexpr Pooling kPoolings[] = {Pooling::kMean, Pooling::kCls, Pooling::kLast};
  modules.stated = true;
  modules.pooling = kPoolings[pooling - 1];
  modules.normalize = true;
  int64_t width = config.width;
  for (const std::string_view name : kDenseTensors) {
    const std::string in = fmt::format("{}_feat_in", name), out = fmt::format("{}_feat_out", name);
    if (!keys.Has(in) && !keys.Has(out)) continue;
    DenseModule module;
    module.folder = name;
    module.bias = false;
    RETURN_IF_ERROR(ReadInt(keys, in, width, width, &module.in));
    RETURN_IF_ERROR(ReadInt(keys, out, 1, kMaxWidth, &module.out));
    width = module.out;
    ASSIGN_OR_RETURN(vectors.head.dense.emplace_back(),
                     ReadDense(tensors, module, std::string(name)));
    vectors.tensors.push_back(std::string(name) + ".weight");
    modules.dense.push_back(std::move(module));
  }
  return vectors;
}

bool RendersPairs(const std::string& chat_template) {
  constexpr std::string_view kTexts[] = {"the query", "the document"};
  const auto text = RenderPair(chat_template, kTexts[0], kTexts[1]);
  return text && text->find(kTexts[0]) != text->npos && text->find(kTexts[1]) != text->npos;
}

Status PairTemplateFault() {
  return RefuseParameter(
      "LogitScore needs a chat template with the roles \"query\" and \"document\"");
}

Result<std::string> PairTemplateOf(std::string_view rerank) {
  constexpr std::string_view kKey = "tokenizer.chat_template.rerank";
  std::string text(rerank);
  for (const std::string_view mark : {"{{", "{%", "{#"}) {
    if (text.find(mark) != std::string::npos)
      return RefuseParameter("{} holds {}, which is not supported there", kKey, Quote(mark));
  }
  for (const auto& [placeholder, role] : {std::pair{kQuery, "query"}, {kDocument, "document"}}) {
    if (!Replace(text, placeholder, ContentOf(role)))
      return RefuseParameter("{} has no {}", kKey, placeholder);
  }
  // A template loses a line end at its own end.
  return text + "{{ '' }}";
}

std::string RerankTextOf(const std::string& chat_template) {
  return RenderPair(chat_template, kQuery, kDocument).value_or("");
}

}  // namespace tutti::model
