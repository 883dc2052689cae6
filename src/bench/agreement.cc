#include "bench/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "api/validate.h"
#include "app/loading/model_registry.h"
#include "base/ascii.h"
#include "base/clock.h"
#include "base/quote.h"
#include "base/text_file.h"
#include "bench/encode_target.h"
#include "bench/perplexity.h"
#include "model/model_files.h"

namespace tutti::bench {
namespace {

constexpr int kDecodePrompt = 128, kDecodeTokens = 64;  // of the comparison of decoding speeds
constexpr size_t kTextsOfRequest = 32;
constexpr uint64_t kMaxAgreementText = uint64_t{64} << 20;

Result<bool> IsEncoder(const std::string& model) {
  ASSIGN_OR_RETURN(const app::ModelRef ref, app::ResolveModel(model));
  return model::ModelFiles::At(ref.path).holds == model::ModelFiles::Holds::kEncoder;
}

// Tokens per second of one sequence.
Result<double> DecodeSpeed(const std::string& model, const Flags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Load(model, flags));
  const auto prompts = RandomPrompts(session->vocabulary(), 1, kDecodePrompt, /*seed=*/1);
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    ASSIGN_OR_RETURN(const Session::TwoPhases phases,
                     session->PrefillThenDecode(prompts, kDecodeTokens));
    best = std::max(best, kDecodeTokens / phases.decode_s);
  }
  return best;
}

Result<Report> CompareDecoders(const AgreementOptions& options, const Progress& progress) {
  PerplexityOptions scored;
  scored.model = options.student;
  scored.against = options.teacher;
  scored.flags = options.flags;
  scored.text = options.text;
  scored.window = options.window;
  scored.tokens = options.tokens;
  scored.least_agreement = options.least_agreement;
  RETURN_IF_ERROR(
      Session::Check(options.student, options.flags, kDecodePrompt + kDecodeTokens + 1));
  ASSIGN_OR_RETURN(Report report, BenchPerplexity(scored, progress));
  const boost::json::object& against = report.json.at("against").as_object();
  const double scoring = against.at("seconds").as_double() / report.json.at("seconds").as_double();
  ASSIGN_OR_RETURN(const double teacher, DecodeSpeed(options.teacher, options.flags));
  ASSIGN_OR_RETURN(const double student, DecodeSpeed(options.student, options.flags));
  report.Print(fmt::format("speed of the student: scoring {:.2f} x, decoding {:.2f} x ({:.1f} and "
                           "{:.1f} tokens/s)",
                           scoring, student / teacher, student, teacher),
               progress);
  report.json["schema"] = "tutti.bench.agreement.v1";
  report.json["scoring_speed_ratio"] = scoring;
  report.json["decode_tokens_per_s"] = {{"teacher", teacher}, {"student", student}};
  report.json["decode_speed_ratio"] = student / teacher;
  return report;
}

struct Embedded {
  std::string summary;
  size_t width = 0;
  std::vector<float> values;  // [texts][width]
  double texts_per_s = 0;
  std::span<const float> row(size_t text) const {
    return std::span<const float>(values).subspan(text * width, width);
  }
};

Result<Embedded> Embed(const std::string& model, const Flags& flags,
                       const std::vector<std::string>& texts) {
  ASSIGN_OR_RETURN(const std::unique_ptr<EncodeTarget> target, LoadEncodeTarget(model, flags));
  ASSIGN_OR_RETURN(const std::unique_ptr<EncodeClient> client, target->Connect());
  Embedded all;
  all.summary = target->summary();
  RETURN_IF_ERROR(client->Encode({texts.front()}).status());  // pages in the weights
  const SteadyClock clock;
  const TimePoint start = clock.Now();
  for (size_t at = 0; at < texts.size(); at += kTextsOfRequest) {
    const auto first = texts.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t count = std::min(kTextsOfRequest, texts.size() - at);
    ASSIGN_OR_RETURN(const EncodeReply reply,
                     client->Encode({first, first + static_cast<std::ptrdiff_t>(count)}));
    all.width = static_cast<size_t>(reply.width);
    all.values.insert(all.values.end(), reply.values.begin(), reply.values.end());
  }
  all.texts_per_s = static_cast<double>(texts.size()) / ToSeconds(clock.Now() - start);
  return all;
}

// The cosines of all pairs of rows.
std::vector<double> PairCosines(const Embedded& embedded, size_t texts) {
  std::vector<double> cosines;
  for (size_t i = 0; i < texts; ++i) {
    for (size_t j = 0; j < i; ++j) cosines.push_back(Cosine(embedded.row(i), embedded.row(j)));
  }
  return cosines;
}

Result<Report> CompareEmbeddings(const AgreementOptions& options, const Progress& progress) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadTextFile(options.text, kMaxAgreementText, "model_path"));
  RETURN_IF_ERROR(api::CheckUtf8(text, "the text"));
  std::vector<std::string> texts;
  for (const std::string_view line : SplitAt(text, '\n')) {
    if (Trimmed(line).empty() || texts.size() >= static_cast<size_t>(options.lines)) continue;
    texts.emplace_back(Trimmed(line));
  }
  if (texts.size() < 3) {
    return InvalidArgument("invalid_value",
                           fmt::format("{} has {} lines with text; give at least 3",
                                       Quote(options.text, 255), texts.size()));
  }
  Report report;
  ASSIGN_OR_RETURN(const Embedded teacher, Embed(options.teacher, options.flags, texts));
  report.Print(teacher.summary, progress);
  ASSIGN_OR_RETURN(const Embedded student, Embed(options.student, options.flags, texts));
  report.Print(student.summary, progress);
  const double correlation =
      Correlation(PairCosines(teacher, texts.size()), PairCosines(student, texts.size()));
  const double speed = student.texts_per_s / teacher.texts_per_s;
  report.json = {
      {"schema", "tutti.bench.agreement.v1"},
      {"teacher", options.teacher},
      {"student", options.student},
      {"texts", texts.size()},
      {"pair_correlation", correlation},
      {"texts_per_s", {{"teacher", teacher.texts_per_s}, {"student", student.texts_per_s}}},
      {"speed_ratio", speed}};
  double agreement = correlation;
  std::string cosines;
  if (teacher.width == student.width) {
    double sum = 0, least = 1;
    for (size_t i = 0; i < texts.size(); ++i) {
      const double cosine = Cosine(teacher.row(i), student.row(i));
      sum += cosine;
      least = std::min(least, cosine);
    }
    agreement = sum / static_cast<double>(texts.size());
    report.json["mean_cosine"] = agreement;
    report.json["lowest_cosine"] = least;
    cosines = fmt::format("cosine {:.4f} (lowest {:.4f}), ", agreement, least);
  }
  report.Print(fmt::format("{} texts: {}correlation of pairs {:.4f}, speed of the student {:.2f} x "
                           "({:.0f} and {:.0f} texts/s)",
                           texts.size(), cosines, correlation, speed, student.texts_per_s,
                           teacher.texts_per_s),
               progress);
  if (100 * agreement < options.least_agreement) {
    report.failures.push_back(
        fmt::format("the embeddings agree by {:.2f} %, at least {} % was "
                    "asked for",
                    100 * agreement, options.least_agreement));
  }
  report.json["passed"] = report.failures.empty();
  return report;
}

}  // namespace

double Cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0, length_a = 0, length_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += static_cast<double>(a[i]) * b[i];
    length_a += static_cast<double>(a[i]) * a[i];
    length_b += static_cast<double>(b[i]) * b[i];
  }
  return length_a > 0 && length_b > 0 ? product / std::sqrt(length_a * length_b) : 0;
}

double Correlation(std::span<const double> a, std::span<const double> b) {
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double both = 0, variance_a = 0, variance_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    variance_a += (a[i] - mean_a) * (a[i] - mean_a);
    variance_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return variance_a > 0 && variance_b > 0 ? both / std::sqrt(variance_a * variance_b) : 0;
}

Result<Report> BenchAgreement(const AgreementOptions& options, const Progress& progress) {
  ASSIGN_OR_RETURN(const bool teacher, IsEncoder(options.teacher));
  ASSIGN_OR_RETURN(const bool student, IsEncoder(options.student));
  if (teacher != student) {
    return InvalidArgument("invalid_value",
                           "one of the models generates text and the other gives embeddings; give "
                           "two of one kind");
  }
  return teacher ? CompareEmbeddings(options, progress) : CompareDecoders(options, progress);
}

}  // namespace tutti::bench
