#include "api/encoding.h"

#include "api/validate.h"
#include "protocol/schema/rows.h"

namespace tutti::protocol {

std::vector<FieldSpec> EncodingRows() {
  constexpr ScopeSet kOpenAi = kEmbeddings | kRerank | kScore;
  constexpr ScopeSet kTei = kTeiEmbed | kTeiEmbedAll | kTeiPredict | kTeiRerank | kTeiSimilarity;
  constexpr ScopeSet kTeiVectors = kTeiEmbed | kTeiEmbedAll | kSimilarityParameters;
  constexpr ScopeSet kTeiCut =
      kTeiEmbed | kTeiEmbedAll | kTeiPredict | kTeiRerank | kSimilarityParameters;
  constexpr double kMost = api::kMaxEncodeInputs;
  constexpr std::string_view kCutHint = "use truncate_prompt_tokens";
  constexpr std::string_view kPromptHint = "use prompt_name, or write the prompt into the texts";
  constexpr std::string_view kTextHint = "this model reads texts only";
  return {
      // --- what is asked of which model ---
      Required(Text("model", kEmbeddings, 1, kNameBytes)),
      Text("model", kRerank | kScore | kTei, 1, kNameBytes),
      Required(Row("input", kEmbeddings, FieldType::kAny)),
      Required(
          Row("inputs", kTeiEmbed | kTeiEmbedAll | kTeiPredict | kTeiSimilarity, FieldType::kAny)),
      Required(Text("query", kRerank | kTeiRerank, 1, kTextBytes)),
      Required(Row("documents", kRerank, FieldType::kArray, 1, kMost)),
      Required(Row("texts", kTeiRerank, FieldType::kAny)),
      Row("text_1", kScore, FieldType::kAny),
      Row("text_2", kScore, FieldType::kAny),
      Row("queries", kScore, FieldType::kAny),
      Row("documents", kScore, FieldType::kAny),
      Row("items", kScore, FieldType::kAny),
      Row("data_1", kScore, FieldType::kAny),
      Row("data_2", kScore, FieldType::kAny),
      Required(Text("text", kDocument, 1, kTextBytes)),
      Required(Text("source_sentence", kSimilarityInputs, 1, kTextBytes)),
      Required(Row("sentences", kSimilarityInputs, FieldType::kAny)),
      Row("parameters", kTeiSimilarity, FieldType::kAny),
      Text("prompt_name", kEmbeddings | kTeiVectors, 1, kNameBytes),
      Refused("messages", kOpenAi, {}, kTextHint),
      Refused("add_special_tokens", kOpenAi, {"true"}, "token ids are used as they are given"),
      Refused("mm_processor_kwargs", kOpenAi, {"{}"}, kTextHint),
      Refused("input_type", kOpenAi, {}, kPromptHint),
      Refused("task", kOpenAi, {}, kPromptHint),
      Refused("instruction", kOpenAi, {"\"\""}, kPromptHint),
      Refused("late_chunking", kEmbeddings, {"false"}),

      // --- length ---
      Int("truncate_prompt_tokens", kOpenAi, -1, kInt32Max),
      Choice("truncation_side", kOpenAi, "left|right"),
      Flag("truncate", kTeiCut),
      Choice("truncation_direction", kTeiCut, "Left|Right|left|right"),
      Refused("truncate", kOpenAi, {"false", "\"NONE\""}, kCutHint),
      Flag("truncation", kOpenAi),
      Refused("max_tokens_per_doc", kRerank, {}, kCutHint),
      Refused("max_chunks_per_doc", kRerank, {"1"}, "a document is read as one"),
      Refused("overlap_tokens", kRerank, {"0"}, "a document is read as one"),
      Refused("padding", kOpenAi, {"\"do_not_pad\""}),

      // --- what comes back ---
      Choice("encoding_format", kEmbeddings, "float|base64"),
      Int("dimensions", kEmbeddings | kTeiEmbed, 1, kInt32Max),
      Flag("normalize", kEmbeddings | kTeiEmbed),
      Int("top_n", kRerank, 0, kInt32Max),
      Flag("return_documents", kRerank),
      Flag("return_text", kTeiRerank),
      Flag("raw_scores", kRerank | kScore | kTeiPredict | kTeiRerank),
      Flag("use_activation", kRerank | kScore),
      Refused("use_activation", kEmbeddings, {}, "use normalize"),
      Refused("normalized", kEmbeddings, {}, "use normalize"),
      Refused("embed_dtype", kEmbeddings, {"\"float32\""}),
      Refused("endianness", kEmbeddings, {"\"native\"", "\"little\""}),
      Refused("embedding_type", kEmbeddings, {"\"float\""}, "use encoding_format"),
      Refused("embedding_types", kEmbeddings, {"[\"float\"]"}, "use encoding_format"),
      Refused("output_dtype", kEmbeddings, {"\"float\""}),
      Refused("output_dimension", kEmbeddings, {}, "use dimensions"),
      Refused("top_k", kRerank, {}, "use top_n"),
      Refused("rank_fields", kRerank, {"[\"text\"]"}, "documents are texts"),

      // --- when and where ---
      Choice("service_tier", kOpenAi | kTei, "auto|default|flex|priority"),
      Int("priority", kOpenAi | kTei, -kInt32Max, kInt32Max),
      Int("deadline_ms", kOpenAi | kTei, 1, kDayMs),
      Text("request_id", kOpenAi | kTei, 1, api::kMaxRequestIdBytes),

      // --- accepted, without effect on the answer ---
      WithoutEffect(Text("user", kOpenAi, 0, kMetadataBytes)),
      WithoutEffect(Text("safety_identifier", kOpenAi, 0, kMetadataBytes)),
      WithoutEffect(Row("metadata", kOpenAi, FieldType::kObject, 0, kMetadataBytes)),
      WithoutEffect(Text("cache_salt", kOpenAi, 1, kNameBytes)),
  };
}

}  // namespace tutti::protocol
