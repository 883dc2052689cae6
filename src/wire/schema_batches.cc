#include "wire/schema_batches.h"

#include "wire/file.h"
#include "wire/schema_rows.h"

namespace tutti::wire {

std::vector<FieldSpec> BatchRows() {
  return {
      Required(Text("input_file_id", kBatch, 1, kNameBytes)),
      Required(Choice("endpoint", kBatch,
                      "/v1/responses|/v1/chat/completions|/v1/completions|/v1/embeddings")),
      Required(Choice("completion_window", kBatch, "24h")),
      Row("metadata", kBatch, FieldType::kObject, 0, kMetadataBytes),
      Row("output_expires_after", kBatch, FieldType::kAny),
      Required(Choice("anchor", kExpiresAfter, "created_at")),
      Required(Int("seconds", kExpiresAfter, static_cast<double>(kLeastExpirySeconds),
                   static_cast<double>(kMaxExpirySeconds))),
      Required(Text("custom_id", kBatchLine, 1, kNameBytes)),
      Required(Row("method", kBatchLine, FieldType::kAny)),
      Required(Row("url", kBatchLine, FieldType::kAny)),
      Required(Row("body", kBatchLine, FieldType::kAny)),
  };
}

}  // namespace tutti::wire
