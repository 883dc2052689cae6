#include "cli/inspect_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/cpus.h"
#include "base/quote.h"
#include "cli/exit_status.h"
#include "cli/remarks.h"
#include "kernels/kernels.h"
#include "model/encoder_checkpoint.h"
#include "model/encoder_choice.h"
#include "tensor/dtype.h"
#include "wire/json.h"

namespace tutti::cli {
namespace {

struct Inspection {
  model::EncoderCheckpoint checkpoint;
  model::EncoderChoice choice;
};

// Everything that loading looks at: structure, meaning, and that the numbers are numbers.
Result<Inspection> Inspect(const model::ModelFiles& files,
                           std::optional<model::EncoderDType> dtype) {
  Inspection found;
  ASSIGN_OR_RETURN(found.checkpoint, model::EncoderCheckpoint::FromFiles(files));
  ASSIGN_OR_RETURN(const kernels::KernelTable* const table, kernels::SelectKernels());
  ASSIGN_OR_RETURN(found.choice, model::ChooseEncoderWeights(
                                     found.checkpoint.config, *found.checkpoint.tensors,
                                     *found.checkpoint.tokenizer,
                                     {.dtype = dtype, .kernels = table, .threads = UsableCores()}));
  return found;
}

uint64_t Parameters(const model::TensorStore& tensors) {
  uint64_t sum = 0;
  for (const model::StoredTensor& tensor : tensors.tensors())
    sum += static_cast<uint64_t>(tensor.shape.elements());
  return sum;
}

// "name: value" lines of what decides a vector.
std::vector<std::pair<std::string, std::string>> Facts(const Inspection& found) {
  const model::EncoderConfig& config = found.checkpoint.config;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"architecture", config.architecture},
      {"layers", std::to_string(config.layers)},
      {"width", std::to_string(config.width)},
      {"heads", std::to_string(config.heads)},
      {"feed forward", std::to_string(config.feed_forward)},
      {"vocabulary", std::to_string(config.vocab_size)},
      {"tokens a text", std::to_string(config.max_tokens)},
  };
  if (config.labels.empty()) {
    facts.emplace_back("pooling", model::PoolingName(config.pooling));
    facts.emplace_back("normalised", config.normalize ? "yes" : "no");
  } else {
    std::string labels;
    for (const std::string& label : config.labels)
      labels += (labels.empty() ? "" : ", ") + Quote(label);
    facts.emplace_back("labels", labels);
    facts.emplace_back("scores through", model::ScoreActivationName(config.activation));
  }
  for (const auto& [name, text] : config.prompts)
    facts.emplace_back("prompt " + Quote(name), Quote(text));
  if (config.default_prompt) facts.emplace_back("default prompt", Quote(*config.default_prompt));
  facts.emplace_back("dtype", found.choice.ToString());
  facts.emplace_back("digest", found.checkpoint.digest);
  return facts;
}

// Slowest dimension first, as the files have it.
std::vector<int64_t> Dimensions(const tensor::Shape& shape) {
  std::vector<int64_t> dims(shape.ne.begin(), shape.ne.begin() + shape.dims);
  std::reverse(dims.begin(), dims.end());
  return dims;
}

std::string ShapeText(const tensor::Shape& shape) {
  std::string text;
  for (const int64_t dim : Dimensions(shape))
    text += (text.empty() ? "" : " x ") + std::to_string(dim);
  return text;
}

void PrintText(const Inspection& found) {
  const model::EncoderConfig& config = found.checkpoint.config;
  const model::TensorStore& tensors = *found.checkpoint.tensors;
  std::printf("ok: %s, %llu parameters, %zu MiB as %s, %s of %d\n", config.architecture.c_str(),
              static_cast<unsigned long long>(Parameters(tensors)),
              found.choice.weights->bytes() >> 20, found.choice.ToString().c_str(),
              config.labels.empty() ? "vectors" : "scores",
              config.labels.empty() ? config.width : static_cast<int>(config.labels.size()));
  PrintRemarks(found.checkpoint.remarks);
  for (const auto& [name, value] : Facts(found))
    std::printf("%-24s %s\n", name.c_str(), value.c_str());
  std::printf("\n");
  for (const model::StoredTensor& tensor : tensors.tensors()) {
    std::printf("%-56s %-6s %-16s %12zu bytes\n", Quote(tensor.name, 128).c_str(),
                std::string(tensor::Name(tensor.dtype)).c_str(), ShapeText(tensor.shape).c_str(),
                tensor.bytes);
  }
  std::printf("\nverdict: ok\n");
}

boost::json::object ToJson(const Inspection& found) {
  boost::json::object facts;
  for (const auto& [name, value] : Facts(found)) facts[name] = value;
  boost::json::array list;
  for (const model::StoredTensor& tensor : found.checkpoint.tensors->tensors()) {
    list.push_back({{"name", tensor.name},
                    {"type", std::string(tensor::Name(tensor.dtype))},
                    {"shape", boost::json::value_from(Dimensions(tensor.shape))},
                    {"bytes", tensor.bytes}});
  }
  return {{"schema", "tutti.inspect.encoder.v1"},
          {"verdict", "ok"},
          {"parameters", Parameters(*found.checkpoint.tensors)},
          {"dtype", model::EncoderDTypeName(found.choice.dtype())},
          {"cosine", found.choice.cosine ? boost::json::value(*found.choice.cosine)
                                         : boost::json::value(nullptr)},
          {"remarks", boost::json::value_from(found.checkpoint.remarks)},
          {"facts", std::move(facts)},
          {"tensors", std::move(list)}};
}

}  // namespace

int InspectEncoder(const model::ModelFiles& files, std::optional<model::EncoderDType> dtype,
                   bool json) {
  const Result<Inspection> found = Inspect(files, dtype);
  if (!found.ok()) {
    const std::string verdict = found.status().reason() + ": " + found.status().message();
    if (json) {
      std::printf("%s\n",
                  wire::PrintJson(boost::json::object{{"schema", "tutti.inspect.encoder.v1"},
                                                      {"verdict", verdict}})
                      .c_str());
    }
    return Fail(std::move(found).status().WithContext(files.path));
  }
  if (json) {
    std::printf("%s\n", wire::PrintJson(ToJson(*found)).c_str());
  } else {
    PrintText(*found);
  }
  return kExitOk;
}

}  // namespace tutti::cli
