#include "protocol/encoding/response.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "protocol/json/base64.h"
#include "protocol/json/json_writer.h"

namespace tutti::protocol {
namespace {

class Rows {
 public:
  explicit Rows(const api::EncodeResult& result)
      : values_(result.values), width_(static_cast<size_t>(std::max(result.width, 1))) {}
  size_t size() const { return values_.size() / width_; }
  std::span<const float> operator[](size_t row) const {
    return values_.subspan(row * width_, width_);
  }

 private:
  const std::span<const float> values_;
  const size_t width_;
};

int64_t TokensRead(const api::EncodeResult& result) {
  return std::accumulate(result.tokens.begin(), result.tokens.end(), int64_t{0});
}

void WriteUsage(const api::EncodeResult& result, JsonWriter* json) {
  const int64_t tokens = TokensRead(result);
  json->Key("usage").BeginObject();
  json->Member("prompt_tokens", tokens).Member("total_tokens", tokens).EndObject();
}

// The greatest first, equal ones by index; what is no number comes last.
std::vector<size_t> Ranked(std::span<const float> scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto rank = [&](size_t i) { return std::isnan(scores[i]) ? -INFINITY : scores[i]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) > rank(b); });
  return order;
}

void WriteEmbeddings(const EncodingCall& call, const EncodingHead& head,
                     const api::EncodeResult& result, std::string* out) {
  JsonWriter json(out);
  json.BeginObject().Member("id", head.id).Member("object", "list").Key("data").BeginArray();
  const Rows rows(result);
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    json.BeginObject().Member("object", "embedding").Member("index", static_cast<int64_t>(i));
    json.Key("embedding");
    if (call.base64) {
      text = '"';
      AppendBase64Floats(rows[i], &text);
      text += '"';
      json.Raw(text);
    } else {
      json.Floats(rows[i]);
    }
    json.EndObject();
  }
  json.EndArray().Member("model", head.model);
  WriteUsage(result, &json);
  json.EndObject();
}

void WriteOllamaEmbed(const EncodingHead& head, const api::EncodeResult& result, std::string* out) {
  JsonWriter json(out);
  json.BeginObject().Member("model", head.model).Key("embeddings").BeginArray();
  const Rows rows(result);
  for (size_t i = 0; i < rows.size(); ++i) json.Floats(rows[i]);
  json.EndArray();
  const api::EncodeTimings& timings = result.timings;
  const std::chrono::nanoseconds total = timings.prepare + timings.queue + timings.inference;
  json.Member("total_duration", int64_t{total.count()});
  json.Member("load_duration", 0).Member("prompt_eval_count", TokensRead(result)).EndObject();
}

// One vector, of the one prompt.
void WriteOllamaEmbeddings(const api::EncodeResult& result, std::string* out) {
  JsonWriter(out).BeginObject().Key("embedding").Floats(result.values).EndObject();
}

void WriteRerank(const EncodingCall& call, const EncodingHead& head,
                 const api::EncodeResult& result, std::string* out) {
  JsonWriter json(out);
  json.BeginObject().Member("id", head.id).Member("model", head.model);
  WriteUsage(result, &json);
  json.Key("results").BeginArray();
  std::vector<size_t> order = Ranked(result.values);
  if (call.top_n > 0) order.resize(std::min(order.size(), static_cast<size_t>(call.top_n)));
  for (const size_t i : order) {
    json.BeginObject().Member("index", static_cast<int64_t>(i));
    if (!call.texts.empty())
      json.Key("document").BeginObject().Member("text", call.texts[i]).EndObject();
    json.Key("relevance_score").Float(result.values[i]).EndObject();
  }
  json.EndArray().EndObject();
}

void WriteScore(const EncodingHead& head, const api::EncodeResult& result, std::string* out) {
  JsonWriter json(out);
  json.BeginObject().Member("id", head.id).Member("object", "list");
  json.Member("created", head.created_s).Member("model", head.model).Key("data").BeginArray();
  for (size_t i = 0; i < result.values.size(); ++i) {
    json.BeginObject().Member("index", static_cast<int64_t>(i)).Member("object", "score");
    json.Key("score").Float(result.values[i]).EndObject();
  }
  json.EndArray();
  WriteUsage(result, &json);
  json.EndObject();
}

void WriteTeiRerank(const EncodingCall& call, const api::EncodeResult& result, std::string* out) {
  JsonWriter json(out);
  json.BeginArray();
  for (const size_t i : Ranked(result.values)) {
    json.BeginObject().Member("index", static_cast<int64_t>(i));
    if (!call.texts.empty()) json.Member("text", call.texts[i]);
    json.Key("score").Float(result.values[i]).EndObject();
  }
  json.EndArray();
}

// One vector for each input, or a list of them for each input.
void WriteTeiVectors(const EncodingCall& call, const api::EncodeResult& result, std::string* out) {
  JsonWriter json(out);
  json.BeginArray();
  const Rows rows(result);
  if (call.kind == EncodingKind::kTeiEmbed) {
    for (size_t i = 0; i < rows.size(); ++i) json.Floats(rows[i]);
  } else {
    size_t at = 0;
    for (const int32_t count : result.rows) {
      json.BeginArray();
      for (int32_t i = 0; i < count; ++i) json.Floats(rows[at++]);
      json.EndArray();
    }
  }
  json.EndArray();
}

// The values other than 0 of each input, by index.
void WriteTeiSparse(const api::EncodeResult& result, std::string* out) {
  JsonWriter json(out);
  json.BeginArray();
  const Rows rows(result);
  for (size_t i = 0; i < rows.size(); ++i) {
    json.BeginArray();
    for (size_t at = 0; at < rows[i].size(); ++at) {
      if (rows[i][at] == 0) continue;
      json.BeginObject().Member("index", static_cast<int64_t>(at));
      json.Key("value").Float(rows[i][at]).EndObject();
    }
    json.EndArray();
  }
  json.EndArray();
}

void WriteTeiPredict(const EncodingCall& call, const EncodingHead& head,
                     const api::EncodeResult& result, std::string* out) {
  JsonWriter json(out);
  if (call.listed) json.BeginArray();
  const Rows rows(result);
  for (size_t i = 0; i < rows.size(); ++i) {
    json.BeginArray();
    for (const size_t label : Ranked(rows[i])) {
      json.BeginObject().Key("score").Float(rows[i][label]);
      json.Member("label", label < head.labels.size() ? head.labels[label]
                                                      : "LABEL_" + std::to_string(label));
      json.EndObject();
    }
    json.EndArray();
  }
  if (call.listed) json.EndArray();
}

void WriteTeiSimilarity(const api::EncodeResult& result, std::string* out) {
  const Rows rows(result);
  std::vector<float> cosines;
  for (size_t i = 1; i < rows.size(); ++i) cosines.push_back(Cosine(rows[0], rows[i]));
  JsonWriter(out).Floats(cosines);
}

}  // namespace

float Cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0, squares_a = 0, squares_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    product += x * y;
    squares_a += x * x;
    squares_b += y * y;
  }
  const double lengths = std::sqrt(squares_a) * std::sqrt(squares_b);
  return lengths == 0 ? 0.0f : static_cast<float>(std::clamp(product / lengths, -1.0, 1.0));
}

size_t EstimateEncodingBody(const EncodingCall& call, const api::EncodeResult& result) {
  constexpr size_t kNumber = 14, kRow = 80;  // bytes of a float between -1 and 1; what is around
  size_t bytes = 256 + result.tokens.size() * kRow;
  constexpr size_t kSparseValue = 40;  // bytes of an index with its value
  if (call.kind == EncodingKind::kTeiSparse) {
    const auto zeros = std::count(result.values.begin(), result.values.end(), 0.0f);
    bytes += (result.values.size() - static_cast<size_t>(zeros)) * kSparseValue;
  } else {
    bytes += result.values.size() * (call.base64 ? 6 : kNumber);
  }
  for (const std::string& text : call.texts) bytes += text.size() + 16;
  return bytes;
}

Result<std::string> EncodingBody(const EncodingCall& call, const EncodingHead& head,
                                 const api::EncodeResult& result) {
  if (call.ranks() && result.values.size() != result.tokens.size()) return RanksNothing(head.model);
  std::string body;
  body.reserve(EstimateEncodingBody(call, result));
  switch (call.kind) {
    case EncodingKind::kEmbeddings:
      WriteEmbeddings(call, head, result, &body);
      break;
    case EncodingKind::kRerank:
      WriteRerank(call, head, result, &body);
      break;
    case EncodingKind::kScore:
      WriteScore(head, result, &body);
      break;
    case EncodingKind::kOllamaEmbed:
      WriteOllamaEmbed(head, result, &body);
      break;
    case EncodingKind::kOllamaEmbeddings:
      WriteOllamaEmbeddings(result, &body);
      break;
    case EncodingKind::kTeiEmbed:
    case EncodingKind::kTeiEmbedAll:
      WriteTeiVectors(call, result, &body);
      break;
    case EncodingKind::kTeiSparse:
      WriteTeiSparse(result, &body);
      break;
    case EncodingKind::kTeiPredict:
      WriteTeiPredict(call, head, result, &body);
      break;
    case EncodingKind::kTeiRerank:
      WriteTeiRerank(call, result, &body);
      break;
    case EncodingKind::kTeiSimilarity:
      WriteTeiSimilarity(result, &body);
      break;
  }
  return body;
}

}  // namespace tutti::protocol
