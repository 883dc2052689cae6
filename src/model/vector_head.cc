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
constexpr size_t kMaxDense = 2;
constexpr std::string_view kPoolingKey = "pooling_type";
constexpr int kScorePooling = 4;  // a value of it; those of vectors are 1 and the index here
constexpr std::array kPoolings = {Pooling::kMean, Pooling::kCls, Pooling::kLast};
constexpr std::string_view kLabelsKey = "classifier.output_labels",
                           kRerankKey = "tokenizer.chat_template.rerank";
constexpr std::string_view kPromptNamesKey = "tutti.prompt_names",
                           kPromptTextsKey = "tutti.prompt_texts",
                           kDefaultPromptKey = "tutti.default_prompt";
constexpr std::array<std::string_view, 2> kLabels = {"yes", "no"};
constexpr std::string_view kQuery = "{query}", kDocument = "{document}";

// "dense_2" for the first module behind the pooling, which is the second of all.
std::string DenseName(size_t index) { return fmt::format("dense_{}", index + 2); }

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

// Keys of Tutti's own: the format has none for prompts.
Status ReadPromptKeys(const gguf::Header& header, VectorModules& modules) {
  if (!header.Find(kPromptNamesKey)) return OkStatus();
  ASSIGN_OR_RETURN(const gguf::StringArray names, gguf::GetStrings(header, kPromptNamesKey));
  ASSIGN_OR_RETURN(const gguf::StringArray texts, gguf::GetStrings(header, kPromptTextsKey));
  if (names.size() != texts.size() || names.size() > kMaxPrompts)
    return RefuseParameter("{} names {} prompts, {} has {}; at most {}", kPromptNamesKey,
                           names.size(), kPromptTextsKey, texts.size(), kMaxPrompts);
  auto text = texts.begin();
  for (const std::string_view name : names) {
    if ((*text).size() > kMaxPromptBytes)
      return RefuseParameter("{} holds a text of {} bytes; at most {}", kPromptTextsKey,
                             (*text).size(), kMaxPromptBytes);
    modules.prompts.emplace(name, *text++);
  }
  if (!header.Find(kDefaultPromptKey)) return OkStatus();
  ASSIGN_OR_RETURN(const std::string_view chosen, gguf::GetString(header, kDefaultPromptKey));
  if (modules.prompts.count(std::string(chosen)) == 0)
    return RefuseParameter("{} is not among the prompts", kDefaultPromptKey);
  modules.default_prompt = chosen;
  return OkStatus();
}

void PutPrompts(const VectorModules& modules, gguf::HeaderWriter& out) {
  if (modules.prompts.empty()) return;
  std::vector<std::string> names, texts;
  for (const auto& [name, text] : modules.prompts) {
    names.push_back(name);
    texts.push_back(text);
  }
  out.Strings(kPromptNamesKey, names);
  out.Strings(kPromptTextsKey, texts);
  if (modules.default_prompt) out.String(kDefaultPromptKey, *modules.default_prompt);
}

// The rows of "yes" and "no", in that order.
Status ReadScoreRows(const gguf::Header& header, const std::string& prefix,
                     const ModelConfig& config, const TensorStore& tensors, GgufVectors& vectors) {
  const std::string key = prefix + std::string(kLabelsKey);
  if (header.Find(key)) {
    ASSIGN_OR_RETURN(const gguf::StringArray labels, gguf::GetStrings(header, key));
    if (!std::equal(labels.begin(), labels.end(), kLabels.begin(), kLabels.end()))
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
  ASSIGN_OR_RETURN(const int64_t pooling, keys.IntOr(kPoolingKey, 0, 0, kScorePooling));
  if (pooling == 0) return vectors;
  RETURN_IF_ERROR(ReadPromptKeys(header, modules));
  if (pooling == kScorePooling) {
    RETURN_IF_ERROR(ReadScoreRows(header, prefix, config, tensors, vectors));
    return vectors;
  }
  modules.stated = true;
  modules.pooling = kPoolings[static_cast<size_t>(pooling - 1)];
  modules.normalize = true;
  int64_t width = config.width;
  for (size_t i = 0; i < kMaxDense; ++i) {
    const std::string name = DenseName(i);
    const std::string in = fmt::format("{}_feat_in", name), out = fmt::format("{}_feat_out", name);
    if (!keys.Has(in) && !keys.Has(out)) continue;
    DenseModule module;
    module.folder = name;
    module.bias = false;
    RETURN_IF_ERROR(ReadInt(keys, in, width, width, &module.in));
    RETURN_IF_ERROR(ReadInt(keys, out, 1, kMaxWidth, &module.out));
    width = module.out;
    ASSIGN_OR_RETURN(vectors.head.dense.emplace_back(), ReadDense(tensors, module, name));
    vectors.tensors.push_back(name + ".weight");
    modules.dense.push_back(std::move(module));
  }
  return vectors;
}

Status CheckGgufVectors(const VectorModules& modules, const VectorHead& head,
                        const std::string& chat_template) {
  const auto refuse = [](std::string_view what) {
    return RefuseParameter("a GGUF cannot hold {}; serve the folder", what);
  };
  if (modules.scores) {
    if (!modules.scores->no) return refuse("a score of one token");
    if (modules.scores->activation != ScoreActivation::kSigmoid)
      return refuse("a score without a sigmoid");
    return RendersPairs(chat_template) ? OkStatus() : PairTemplateFault();
  }
  if (modules.pooling == Pooling::kMax) return refuse("the pooling max");
  if (!modules.normalize) return refuse("vectors that are not normalised");
  if (head.dense.size() > kMaxDense) return refuse("more than two Dense modules");
  for (const VectorHead::Dense& layer : head.dense) {
    if (layer.activation || !layer.bias.empty())
      return refuse("a Dense module with a bias or an activation");
  }
  return OkStatus();
}

void PutVectors(const VectorModules& modules, const VectorHead& head, const ModelConfig& config,
                const std::string& chat_template, gguf::HeaderWriter& out) {
  const std::string prefix = config.architecture + ".";
  PutPrompts(modules, out);
  const std::string pooling_key = prefix + std::string(kPoolingKey);
  if (modules.scores) {
    out.U32(pooling_key, kScorePooling);
    const std::vector<std::string> labels(kLabels.begin(), kLabels.end());
    out.Strings(prefix + std::string(kLabelsKey), labels);
    out.String(kRerankKey, RerankTextOf(chat_template));
    return;
  }
  const auto pooling = std::ranges::find(kPoolings, modules.pooling);
  out.U32(pooling_key, static_cast<uint32_t>(pooling - kPoolings.begin() + 1));
  auto in = static_cast<size_t>(config.width);
  for (size_t i = 0; i < head.dense.size(); ++i) {
    const std::string name = prefix + DenseName(i);
    out.U32(name + "_feat_in", static_cast<uint32_t>(in));
    out.U32(name + "_feat_out", static_cast<uint32_t>(head.dense[i].columns));
    in = head.dense[i].columns;
  }
}

std::vector<VectorTensor> VectorTensors(const VectorHead& head, int width) {
  std::vector<VectorTensor> tensors;
  if (head.scores()) {
    std::vector<float> rows = head.yes;
    rows.insert(rows.end(), head.no.begin(), head.no.end());
    tensors.push_back({std::string(kScoreTensor), std::move(rows), {width, 2}});
  }
  int64_t in = width;
  for (size_t i = 0; i < head.dense.size(); ++i) {
    const VectorHead::Dense& layer = head.dense[i];
    const size_t out = layer.columns;
    std::vector<float> rows(layer.weight.size());
    for (size_t at = 0; at < rows.size(); ++at)
      rows[at % out * static_cast<size_t>(in) + at / out] = layer.weight[at];
    const auto columns = static_cast<int64_t>(out);
    tensors.push_back({DenseName(i) + ".weight", std::move(rows), {in, columns}});
    in = columns;
  }
  return tensors;
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
  std::string text(rerank);
  for (const std::string_view mark : {"{{", "{%", "{#"}) {
    if (text.find(mark) != std::string::npos)
      return RefuseParameter("{} holds {}, which is not supported there", kRerankKey, Quote(mark));
  }
  for (const auto& [placeholder, role] : {std::pair{kQuery, "query"}, {kDocument, "document"}}) {
    if (!Replace(text, placeholder, ContentOf(role)))
      return RefuseParameter("{} has no {}", kRerankKey, placeholder);
  }
  // A template loses a line end at its own end.
  return text + "{{ '' }}";
}

std::string RerankTextOf(const std::string& chat_template) {
  return RenderPair(chat_template, kQuery, kDocument).value_or("");
}

}  // namespace tutti::model
