#include "bench/constrained.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <chrono>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/random.h"
#include "bench/report.h"
#include "bench/workload.h"
#include "grammar/structure.h"

namespace tutti::bench {
namespace {

constexpr double kRatioAlone = 1.5, kRatioTogether = 1.0;  // tokens/s against free text
constexpr int kTogether = 8;
constexpr double kMaskMicros = 100;  // of one step, for kTogether sequences

constexpr int kAnswers = 8;  // of a round at one sequence, one after the other
constexpr int kPromptWords = 40;

// One member of the record that the schema describes.
struct Field {
  std::string_view name;
  // A whole number from `low` to `high`; or, without a range, one of `words`; or a boolean.
  int low = 0, high = 0;
  std::array<std::string_view, 3> words = {};
};
constexpr std::array<Field, 8> kFields = {{
    {"customer_identifier", 1, 9'999, {}},
    {"subscription_status", 0, 0, {"active", "paused", "cancelled"}},
    {"newsletter_is_enabled", 0, 0, {}},
    {"preferred_language", 0, 0, {"en", "de", "fr"}},
    {"number_of_open_orders", 0, 500, {}},
    {"loyalty_program_level", 0, 0, {"bronze", "silver", "gold"}},
    {"account_is_verified", 0, 0, {}},
    {"average_review_score", 1, 5, {}},
}};

std::string RecordSchema() {
  boost::json::object properties;
  boost::json::array required;
  for (const Field& field : kFields) {
    boost::json::object schema;
    if (field.high > 0) {
      schema = {{"type", "integer"}, {"minimum", field.low}, {"maximum", field.high}};
    } else if (!field.words[0].empty()) {
      schema = {{"enum", boost::json::array(field.words.begin(), field.words.end())}};
    } else {
      schema = {{"type", "boolean"}};
    }
    properties.emplace(field.name, std::move(schema));
    required.emplace_back(field.name);
  }
  return boost::json::serialize(boost::json::object{{"type", "object"},
                                                    {"properties", std::move(properties)},
                                                    {"required", std::move(required)},
                                                    {"additionalProperties", false}});
}

bool Fits(const Field& field, const boost::json::value& value) {
  if (field.high > 0)
    return value.is_int64() && value.get_int64() >= field.low && value.get_int64() <= field.high;
  if (field.words[0].empty()) return value.is_bool();
  return value.is_string() &&
         std::find(field.words.begin(), field.words.end(), value.get_string()) != field.words.end();
}

// The share of the text that is fixed for all values; 0 if the text is not such a record.
double FixedShareOf(const std::string& text) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse(text, error);
  if (error || !parsed.is_object() || parsed.get_object().size() != kFields.size()) return 0;
  size_t values = 0;
  const Field* field = kFields.begin();
  for (const auto& member : parsed.get_object()) {
    if (member.key() != field->name || !Fits(*field, member.value())) return 0;
    values += boost::json::serialize(member.value()).size();
    ++field;
  }
  // Whitespace is the model's choice.
  const auto spaces = static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return c == ' ' || c == '\n' || c == '\t'; }));
  return static_cast<double>(text.size() - values - spaces) / static_cast<double>(text.size());
}

std::string TextOf(const grammar::TokenTrie& trie, const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId token : tokens) {
    if (!trie.IsEnd(token)) text += trie.text(token);
  }
  return text;
}

// Like BPE merges: each text joins two earlier ones, common ones more often.
std::shared_ptr<const grammar::TokenTrie> MakeVocabulary(size_t size, uint64_t seed) {
  constexpr size_t kMaxBytes = 16;
  std::vector<std::string> texts;
  std::unordered_set<std::string> known;
  const auto add = [&](std::string text) {
    if (text.size() <= kMaxBytes && known.insert(text).second) texts.push_back(std::move(text));
  };
  for (const char letter : std::string_view(" etaoinshrdlucmfwypvbgkqjxz")) add({letter});
  for (const char* text : {"\":", "\",", "{\"", "\"}", "},", "],", " \"", "\": \"", "\n", "  "})
    add(text);
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  Random random(seed);
  while (texts.size() + 1 < size) {
    const auto pick = [&] {
      const double part = random.Uniform();
      return static_cast<size_t>(part * part * part * static_cast<double>(texts.size()));
    };
    add(texts[pick()] + texts[pick()]);
  }
  texts.emplace_back("<end>");
  const auto end = static_cast<TokenId>(texts.size() - 1);
  return grammar::TokenTrie::Create(std::move(texts), {end});
}

// The text as the longest tokens of a vocabulary.
std::vector<TokenId> Cut(const grammar::TokenTrie& trie, std::string_view text) {
  std::unordered_map<std::string_view, TokenId> ids;
  for (TokenId id = 0; id < static_cast<TokenId>(trie.vocabulary()); ++id) {
    if (!trie.IsEnd(id)) ids.emplace(trie.text(id), id);
  }
  std::vector<TokenId> tokens;
  while (!text.empty()) {
    size_t length = std::min(trie.longest(), text.size());
    while (length > 1 && !ids.contains(text.substr(0, length))) --length;
    const auto at = ids.find(text.substr(0, length));
    if (at == ids.end()) break;
    tokens.push_back(at->second);
    text.remove_prefix(length);
  }
  return tokens;
}

struct MaskTimes {
  std::vector<double> cold, warm;  // microseconds of a step; of a masker's first texts, and later
};

// Times the masks of all texts step by step, first with an empty cache and then again.
Result<MaskTimes> TimeMasks(const grammar::Structure& structure,
                            const std::shared_ptr<const grammar::TokenTrie>& trie,
                            const std::vector<std::vector<TokenId>>& texts, int rounds) {
  MaskTimes times;
  for (int round = 0; round < rounds; ++round) {
    ASSIGN_OR_RETURN(auto automaton, grammar::Compile(structure));
    const auto masker = std::make_shared<grammar::TokenMasker>(std::move(automaton), trie);
    for (const bool warm : {false, true}) {
      std::vector<grammar::Matcher> matchers;
      size_t longest = 0;
      for (const auto& text : texts) {
        matchers.emplace_back(masker);
        longest = std::max(longest, text.size());
      }
      for (size_t step = 0; step < longest; ++step) {
        const auto start = std::chrono::steady_clock::now();
        for (size_t i = 0; i < texts.size(); ++i) {
          if (step < texts[i].size() && masker->Mask(matchers[i].state()) == nullptr)
            return Internal("a mask was given up");
        }
        const std::chrono::duration<double, std::micro> took =
            std::chrono::steady_clock::now() - start;
        (warm ? times.warm : times.cold).push_back(took.count());
        for (size_t i = 0; i < texts.size(); ++i) {
          if (step < texts[i].size() && !matchers[i].Take(texts[i][step]))
            return Internal("a text that was generated does not follow its grammar");
        }
      }
    }
  }
  return times;
}

// In batches of `sequences`; freely where `constraint` is null.
Result<ServedBatches> RunAnswers(Session& session, const std::vector<std::vector<TokenId>>& prompts,
                                 int sequences, const ConstrainedOptions& options,
                                 const std::shared_ptr<grammar::TokenMasker>& constraint) {
  return ServeInBatches(prompts, sequences, [&](const std::vector<std::vector<TokenId>>& batch) {
    return constraint == nullptr ? session.Serve(batch, options.free_tokens)
                                 : session.ServeConstrained(batch, options.max_tokens, constraint);
  });
}

// A prompt like a client's: the model reads the schema that its answer follows.
std::string TextOfPrompt(const std::string& schema, uint64_t seed, int i) {
  return PromptText(Workload::kRandom, kPromptWords, seed, i) +
         ".\n\nWrite a customer's record as JSON that follows this schema:\n" + schema +
         "\n\nThe record:\n";
}

}  // namespace

Result<Report> BenchConstrained(const ConstrainedOptions& options, const Progress& progress) {
  Flags flags = options.flags;
  flags["speculate"] = "off";  // forced tokens are still drafted
  flags["prefix-cache"] = "off";
  const int most =
      std::max(kTogether, *std::max_element(options.sequences.begin(), options.sequences.end()));
  flags["max-num-seqs"] = std::to_string(most);
  ASSIGN_OR_RETURN(const auto session, Session::Load(options.model, flags));
  Calibration calibration(session->kernels().isa, session->threads(), options.calibrate);

  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  say(session->summary());
  const grammar::Structure record = grammar::Structure::Schema(RecordSchema(), "schema");
  const grammar::Structure object{.kind = grammar::Structure::Kind::kJsonObject};
  const auto trie = session->Trie();
  ASSIGN_OR_RETURN(auto automaton, grammar::Compile(record));
  const auto constraint = std::make_shared<grammar::TokenMasker>(std::move(automaton), trie);

  say(fmt::format("{:>9} {:>10} {:>12} {:>20} {:>7} {:>9} {:>9}", "sequences", "free tok/s",
                  "schema tok/s", "ratio (range)", "fixed", "proposed", "accepted"));
  boost::json::array rates;
  std::vector<std::vector<TokenId>> records;  // answers, for the masks
  std::vector<std::vector<TokenId>> prompts;
  for (int i = 0; i < std::max(kAnswers, most); ++i)
    prompts.push_back(session->Tokens(TextOfPrompt(RecordSchema(), options.seed, i)));
  for (const int sequences : options.sequences) {
    std::vector<double> ratios, free_rates, schema_rates;
    double fixed = 1;
    const engine::EngineStats before = session->engine().stats();
    for (int needed = options.rounds, left = 2 * options.rounds; needed > 0; --left) {
      const bool warm_up = left == 2 * options.rounds;
      const bool steady = calibration.AtFullSpeed();
      ServedBatches free, schema;
      for (int turn = 0; turn < 2; ++turn) {
        const bool constrained = (turn + left) % 2 == 0;  // neither is always the first
        ASSIGN_OR_RETURN(
            (constrained ? schema : free),
            RunAnswers(*session, prompts, sequences, options, constrained ? constraint : nullptr));
      }
      for (const auto& output : schema.outputs)
        fixed = std::min(fixed, FixedShareOf(TextOf(*trie, output)));
      if (records.empty()) records = schema.outputs;
      if (schema.outputs != records) report.failures.push_back("answers differ between rounds");
      if (warm_up || (!(calibration.AtFullSpeed() && steady) && left > needed)) continue;
      --needed;
      free_rates.push_back(free.tokens / free.seconds);
      schema_rates.push_back(schema.tokens / schema.seconds);
      ratios.push_back(schema_rates.back() / free_rates.back());
    }
    const engine::EngineStats after = session->engine().stats();
    const uint64_t proposed = after.draft_tokens - before.draft_tokens,
                   accepted = after.accepted_tokens - before.accepted_tokens;
    const Spread ratio = SpreadOf(ratios);
    say(fmt::format("{:>9} {:>10.0f} {:>12.0f} {:>6.2f} ({:.2f}-{:.2f}) {:>6.0f}% {:>9} {:>8.0f}%",
                    sequences, SpreadOf(free_rates).median, SpreadOf(schema_rates).median,
                    ratio.median, ratio.min, ratio.max, 100 * fixed, proposed,
                    proposed > 0
                        ? 100.0 * static_cast<double>(accepted) / static_cast<double>(proposed)
                        : 0.0));
    rates.push_back(boost::json::object{{"sequences", sequences},
                                        {"ratio", ratio.median},
                                        {"ratio_min", ratio.min},
                                        {"ratio_max", ratio.max},
                                        {"free_tok_s", SpreadOf(free_rates).median},
                                        {"schema_tok_s", SpreadOf(schema_rates).median},
                                        {"fixed_share", fixed},
                                        {"proposed", proposed},
                                        {"accepted", accepted}});
    report.figures.push_back(
        TokenRate("decode rate", "free text", "sequences", sequences, free_rates));
    report.figures.push_back(
        TokenRate("decode rate", "JSON schema", "sequences", sequences, schema_rates));
    if (fixed < 0.5)
      report.failures.push_back("an answer is no such record, or less than half of it is fixed");
    const double required = sequences == 1           ? kRatioAlone
                            : sequences == kTogether ? kRatioTogether
                                                     : 0;
    if (options.gated && ratio.median < required) {
      report.failures.push_back(
          fmt::format("ratio at {}: {:.2f} is below {:.2f}", sequences, ratio.median, required));
    }
  }

  // Any object, whose masks are those of free strings, as the model writes it.
  ASSIGN_OR_RETURN(auto any, grammar::Compile(object));
  ASSIGN_OR_RETURN(
      const auto served,
      session->ServeConstrained({prompts.begin(), prompts.begin() + kTogether}, options.free_tokens,
                                std::make_shared<grammar::TokenMasker>(std::move(any), trie)));
  std::vector<std::vector<TokenId>> objects;
  for (const ServedRequest& request : served) objects.push_back(request.output);
  records.resize(kTogether);

  say("");
  say(fmt::format("{:>10} {:>10} {:>8} {:>12} {:>12} {:>12} {:>12}", "masks of 8", "vocabulary",
                  "text", "median us", "p99 us", "worst us", "known us"));
  boost::json::array masks;
  const auto made = MakeVocabulary(options.made_vocabulary, options.seed);
  for (const bool own : {true, false}) {
    for (const bool fixed : {true, false}) {
      std::vector<std::vector<TokenId>> texts = fixed ? records : objects;
      if (!own) {
        for (auto& text : texts) text = Cut(*made, TextOf(*trie, text));
      }
      ASSIGN_OR_RETURN(const MaskTimes times, TimeMasks(fixed ? record : object, own ? trie : made,
                                                        texts, options.rounds));
      const double p50 = Percentile(times.cold, 50), p99 = Percentile(times.cold, 99),
                   worst = Percentile(times.cold, 100), known = Percentile(times.warm, 50);
      const size_t vocabulary = own ? trie->vocabulary() : made->vocabulary();
      say(fmt::format("{:>10} {:>10} {:>8} {:>12.1f} {:>12.1f} {:>12.1f} {:>12.1f}", "", vocabulary,
                      fixed ? "record" : "object", p50, p99, worst, known));
      masks.push_back(boost::json::object{{"vocabulary", vocabulary},
                                          {"text", fixed ? "record" : "object"},
                                          {"steps", times.cold.size()},
                                          {"p50_us", p50},
                                          {"p99_us", p99},
                                          {"worst_us", worst},
                                          {"known_p50_us", known}});
      if (options.gated && p50 > kMaskMicros) {
        report.failures.push_back(
            fmt::format("masks of a step at {} tokens: {:.0f} us", vocabulary, p50));
      }
    }
  }
  say(MachineLine(calibration.best()));
  report.json = {{"schema", "tutti.bench.constrained.v1"},
                 {"machine", calibration.Json()},
                 {"model", session->model_name()},
                 {"rounds", options.rounds},
                 {"rates", std::move(rates)},
                 {"masks", std::move(masks)},
                 {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
