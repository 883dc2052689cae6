#include "model/encoder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "model/config.h"
#include "model/encoder_families/family.h"
#include "model/families/family.h"
#include "model/json_file.h"

namespace tutti::model {
namespace {

namespace json = boost::json;

constexpr size_t kMaxLabelBytes = 256;

Status ReadShape(const JsonFile& file, EncoderConfig& config) {
  const EncoderFamily* family = EncoderFamilyOfConfig(file);
  if (family == nullptr) {
    ASSIGN_OR_RETURN(const std::string type, file.StringOr("model_type", ""));
    return file.Refuse("model_type",
                       "{} is no encoder known here ({}), nor a model that generates ({})",
                       Quote(type), KnownEncoderTypes(), KnownModelTypes());
  }
  config.architecture = family->architecture;
  RETURN_IF_ERROR(family->describe(file, config));
  Status shape = CheckEncoderShape(config);
  return shape.ok() ? OkStatus() : std::move(shape).WithContext(file.name());
}

// Labels are those of a sequence classifier; other heads make no scores. A file that does not name
// its class is one where the weights have a head and no module pools.
Status ReadLabels(const JsonFile& file, const ModuleFiles& files, EncoderConfig& config) {
  const std::string_view name = ClassOf(file);
  const bool scores = name.empty() ? files.classifies && files.modules.empty()
                                   : name.find("ForSequenceClassification") != name.npos;
  if (!scores) return OkStatus();
  const json::value* labels = file.Find("id2label");
  const json::object* by_id = labels == nullptr ? nullptr : labels->if_object();
  if (by_id == nullptr) {
    ASSIGN_OR_RETURN(const int count, file.IntOr("num_labels", 2, 1, kMaxLabels));
    for (int i = 0; i < count; ++i) config.labels.push_back(fmt::format("LABEL_{}", i));
    return OkStatus();
  }
  if (by_id->empty() || by_id->size() > kMaxLabels) {
    return file.Refuse("id2label", "has {} entries, not 1 to {}", by_id->size(), kMaxLabels);
  }
  for (size_t i = 0; i < by_id->size(); ++i) {
    const json::value* label = by_id->if_contains(std::to_string(i));
    if (label == nullptr || label->if_string() == nullptr ||
        label->get_string().size() > kMaxLabelBytes) {
      return file.Refuse("id2label", "has no name for {}", i);
    }
    config.labels.emplace_back(label->get_string().data(), label->get_string().size());
  }
  return OkStatus();
}

}  // namespace

Status CheckEncoderShape(const EncoderConfig& config) {
  for (const auto& [what, columns] : {std::pair<const char*, int>{"hidden_size", config.width},
                                      {"intermediate_size", config.feed_forward}}) {
    if (columns % 32 != 0) {
      return RefuseParameter("{} is {}, not a multiple of 32 as the kernels need", what, columns);
    }
  }
  if (config.width % config.heads != 0 || config.head_dim() % 16 != 0 || config.head_dim() > 256) {
    return RefuseParameter(
        "num_attention_heads of {} cannot share a width of {}: a head has 16 to 256 "
        "components, in steps of 16",
        config.heads, config.width);
  }
  if (config.longest() < 1) {
    return RefuseParameter("max_position_embeddings is {}, and texts begin at {}", config.positions,
                           config.first_position);
  }
  if (config.rope_base > 0 && config.positions > kMaxRotatedPositions) {
    return RefuseParameter("max_position_embeddings is {}, the limit with rotation is {}",
                           config.positions, kMaxRotatedPositions);
  }
  const bool gated_silu = config.gated && config.activation_function == Activation::kSilu;
  if (config.activation_function != Activation::kGelu && !gated_silu) {
    return RefuseParameter("a feed-forward block {} a gate is not supported with this activation",
                           config.gated ? "with" : "without");
  }
  if (config.relative.span > 0 &&
      std::min(config.relative.farthest, config.longest()) > kMaxRelativeDistance) {
    return RefuseParameter("max_relative_positions is {}, the limit is {}",
                           config.relative.farthest, kMaxRelativeDistance);
  }
  // A table holds a value of each head for each distance.
  if (config.distance != DistanceBias::kNone && config.positions > kMaxBiasedPositions) {
    return RefuseParameter("max_position_embeddings is {}, the limit with a bias by distance is {}",
                           config.positions, kMaxBiasedPositions);
  }
  return OkStatus();
}

Result<EncoderConfig> ReadEncoderConfig(const ModuleFiles& files) {
  EncoderConfig config;
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(files.config, "config.json"));
  config.pooling = Pooling::kCls;  // unless its family or a module says otherwise
  RETURN_IF_ERROR(ReadShape(file, config));
  RETURN_IF_ERROR(ReadLabels(file, files, config));
  if (!config.labels.empty()) {
    ASSIGN_OR_RETURN(config.activation,
                     ReadScoreActivation(file, files.sentence_transformers, config.labels.size()));
  }
  ASSIGN_OR_RETURN(VectorModules modules, ReadVectorModules(files, config.width));
  if (modules.scores)
    return RefuseParameter("modules.json: LogitScore is supported for decoders only");
  if (!files.pooling.empty()) config.pooling = modules.pooling;
  config.normalize = modules.normalize;
  config.lowercase = modules.lowercase;
  // No length goes beyond the model's positions.
  config.max_tokens =
      modules.max_tokens == 0 ? config.longest() : std::min(modules.max_tokens, config.longest());
  if (config.labels.empty()) {
    config.lexical = modules.lexical;
    config.dense = std::move(modules.dense);
    config.per_token = modules.per_token;
  }
  config.prompts = std::move(modules.prompts);
  config.default_prompt = std::move(modules.default_prompt);
  return config;
}

}  // namespace tutti::model
