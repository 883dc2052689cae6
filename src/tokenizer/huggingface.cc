#include "tokenizer/huggingface.h"

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/text_file.h"
#include "tokenizer/huggingface_json.h"
#include "tokenizer/pre_tokenizer_names.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {
namespace {

namespace json = boost::json;
using namespace huggingface;  // how the file is read

Result<json::value> Parse(std::string_view text, std::string_view file) {
  if (text.size() > kMaxTokenizerJsonBytes) {
    return InvalidArgument("tokenizer_limit",
                           std::string(file) + " of " + std::to_string(text.size()) +
                               " bytes; the limit is " + std::to_string(kMaxTokenizerJsonBytes));
  }
  json::parse_options options;
  options.max_depth = 64;
  boost::system::error_code error;
  json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error || !value.is_object()) {
    return InvalidArgument("tokenizer_invalid",
                           std::string(file).append(" is no JSON object").append(GitLfsHint(text)));
  }
  return value;
}

// The first of equal texts; nothing for a text that is no token.
std::optional<int64_t> FindToken(const TokenizerSpec& spec, std::string_view token) {
  if (token.empty()) return std::nullopt;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id] == token) return static_cast<int64_t>(id);
  }
  return std::nullopt;
}

// Tokens and merges of the file, and tokenizer_config.json.
class Reader {
 public:
  Reader(const json::object& root, TokenizerSpec& spec) : root_(root), spec_(spec) {}

  Status Read() {
    const json::object* model = ObjectAt(root_, "model");
    if (model == nullptr) return Invalid("it has no model");
    RETURN_IF_ERROR(ReadTokens(*model));
    const json::array* merges = ArrayAt(*model, "merges");
    return merges != nullptr ? ReadMerges(*merges) : OkStatus();
  }

  Status ReadConfig(const json::object& config) {
    const std::pair<const char*, std::optional<int64_t>*> tokens[] = {{"bos_token", &spec_.bos},
                                                                      {"eos_token", &spec_.eos},
                                                                      {"pad_token", &spec_.pad},
                                                                      {"unk_token", &spec_.unk},
                                                                      {"mask_token", &spec_.mask}};
    for (const auto& [key, id] : tokens) {
      const json::value* value = Member(config, key);
      if (value == nullptr || id->has_value()) continue;
      // A string, or since long {"content": string, ...}.
      const json::object* object = value->if_object();
      const std::string_view text =
          object != nullptr ? TextAt(*object, "content") : TextOf(value).value_or("");
      *id = Find(text);  // a name that is no token is never written or drawn
    }
    if (!spec_.add_bos) spec_.add_bos = BoolAt(config, "add_bos_token").value_or(false);
    if (!spec_.add_eos) spec_.add_eos = BoolAt(config, "add_eos_token").value_or(false);
    if (const auto text = TextOf(Member(config, "chat_template"))) spec_.chat_template = *text;
    if (const json::array* named = ArrayAt(config, "chat_template")) {
      for (const json::value& entry : *named) {
        const json::object* object = entry.if_object();
        if (object != nullptr && TextAt(*object, "name") == "default") {
          spec_.chat_template = TextAt(*object, "template");
        }
      }
    }
    return OkStatus();
  }

 private:
  std::optional<int64_t> Find(std::string_view token) const { return FindToken(spec_, token); }

  Status PutToken(std::optional<size_t> id, std::string_view text, TokenType type) {
    // Files may leave ids out; one far beyond the number of tokens is a fault.
    const size_t limit = 2 * entries_ + kMaxHoles;
    if (!id || *id >= limit) {
      return Invalid("the id of token " + Quote(text) + " is no number below " +
                     std::to_string(limit));
    }
    if (*id >= spec_.tokens.size()) {
      spec_.tokens.resize(*id + 1);
      spec_.token_types.resize(*id + 1, static_cast<int32_t>(TokenType::kUndefined));
    }
    const bool taken = spec_.token_types[*id] != static_cast<int32_t>(TokenType::kUndefined);
    if (taken && spec_.tokens[*id] != text) {
      return Invalid("tokens " + Quote(spec_.tokens[*id]) + " and " + Quote(text) +
                     " have the same id");
    }
    spec_.tokens[*id] = text;
    spec_.token_types[*id] = static_cast<int32_t>(type);
    return OkStatus();
  }

  Status ReadTokens(const json::object& model) {
    const json::object* vocabulary = ObjectAt(model, "vocab");
    const json::array* pieces = ArrayAt(model, "vocab");  // of a unigram model
    if (vocabulary == nullptr && pieces == nullptr) return Invalid("the model has no vocab");
    const json::array* added = ArrayAt(root_, "added_tokens");
    entries_ = (vocabulary != nullptr ? vocabulary->size() : pieces->size()) +
               (added != nullptr ? added->size() : 0);
    if (pieces != nullptr) RETURN_IF_ERROR(ReadPieces(*pieces));
    for (auto entry = vocabulary != nullptr ? vocabulary->begin() : nullptr;
         vocabulary != nullptr && entry != vocabulary->end(); ++entry) {
      const std::string_view text(entry->key().data(), entry->key().size());
      RETURN_IF_ERROR(PutToken(IdOf(&entry->value()), text, TokenType::kNormal));
    }
    if (added != nullptr) {
      for (const json::value& value : *added) {
        const json::object* token = value.if_object();
        const std::string_view text =
            token != nullptr ? TextAt(*token, "content") : std::string_view();
        if (text.empty()) return Invalid("an added token has no content");
        const TokenType type = BoolAt(*token, "special").value_or(false) ? TokenType::kControl
                                                                         : TokenType::kUserDefined;
        RETURN_IF_ERROR(PutToken(IdOf(Member(*token, "id")), text, type));
      }
    }
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      if (spec_.token_types[id] != static_cast<int32_t>(TokenType::kUndefined)) continue;
      // Ids that the file leaves out are never written and mean nothing; called so in a GGUF too.
      spec_.tokens[id] = "[PAD" + std::to_string(id) + "]";
      spec_.token_types[id] = static_cast<int32_t>(TokenType::kUnused);
    }
    return OkStatus();
  }

  // [["<s>", 0.0], ...]
  Status ReadPieces(const json::array& pieces) {
    for (const json::value& value : pieces) {
      const json::array* pair = value.if_array();
      const std::optional<double> score =
          pair != nullptr && pair->size() == 2 ? NumberOf((*pair)[1]) : std::nullopt;
      if (!score || !(*pair)[0].is_string()) return Invalid("a piece is not a text and its score");
      const size_t id = spec_.unigram_scores.size();
      if (id >= kMaxTokens) break;  // more pieces than the limit are not read
      spec_.unigram_scores.push_back(*score);
      RETURN_IF_ERROR(PutToken(id, *TextOf(&(*pair)[0]), TokenType::kNormal));
    }
    return OkStatus();
  }

  Status ReadMerges(const json::array& merges) {
    if (merges.size() > kMaxMerges) {
      return InvalidArgument(
          "tokenizer_limit",
          std::to_string(merges.size()) + " merges; the limit is " + std::to_string(kMaxMerges));
    }
    spec_.merges.reserve(merges.size());
    for (const json::value& merge : merges) RETURN_IF_ERROR(ReadMerge(merge));
    return OkStatus();
  }

  // "left right", or since 0.20 ["left", "right"].
  Status ReadMerge(const json::value& merge) {
    if (const auto text = TextOf(&merge)) {
      spec_.merges.emplace_back(*text);
      return OkStatus();
    }
    const json::array* pair = merge.if_array();
    const bool is_pair =
        pair != nullptr && pair->size() == 2 && (*pair)[0].is_string() && (*pair)[1].is_string();
    if (!is_pair) return Invalid("a merge is not two pieces");
    const std::string_view left = *TextOf(&(*pair)[0]);
    const std::string_view right = *TextOf(&(*pair)[1]);
    const bool has_space =
        left.find(' ') != std::string_view::npos || right.find(' ') != std::string_view::npos;
    spec_.merges.push_back(std::string(left) + (has_space ? kMergeBorder : ' ') +
                           std::string(right));
    return OkStatus();
  }

  static constexpr size_t kMaxHoles = 4096;

  const json::object& root_;
  TokenizerSpec& spec_;
  size_t entries_ = 0;  // of the vocabulary and the added tokens together
};

// Reads everything except the lists: how texts are rewritten, split, spelled and framed.
class PipelineReader {
 public:
  PipelineReader(const json::object& root, TokenizerSpec& spec) : root_(root), spec_(spec) {}

  Status Read() {
    const json::object* model = ObjectAt(root_, "model");
    if (model == nullptr) return Invalid("it has no model");
    ASSIGN_OR_RETURN(spec_.normalizer, NormalizerSteps(root_));
    ASSIGN_OR_RETURN(spec_.split, SplitSteps(root_));
    spec_.has_steps = true;
    spec_.decode_strips_space = DecoderStripsSpace(root_);
    ReadAddedRules();
    const std::string_view type = TypeOf(*model);
    if (type == "BPE") {
      RETURN_IF_ERROR(ReadBpe(*model));
    } else if (type == "WordPiece") {
      RETURN_IF_ERROR(ReadWordPiece(*model));
    } else if (type == "Unigram") {
      RETURN_IF_ERROR(ReadUnigram(*model));
    } else {
      return Unsupported("tokenizer model", type);
    }
    return ReadPostProcessor();
  }

 private:
  std::optional<int64_t> Find(std::string_view token) const { return FindToken(spec_, token); }

  // Old files do not name the model: it is recognised by its members.
  std::string_view TypeOf(const json::object& model) const {
    const std::string_view type = TextAt(model, "type");
    if (!type.empty()) return type;
    if (ArrayAt(model, "merges") != nullptr || !spec_.merges.empty()) return "BPE";
    if (!spec_.unigram_scores.empty()) return "Unigram";
    if (Member(model, "max_input_chars_per_word") != nullptr) return "WordPiece";
    return Member(model, "unk_token") != nullptr ? "WordLevel" : "";
  }

  void ReadAddedRules() {
    const json::array* added = ArrayAt(root_, "added_tokens");
    if (added == nullptr) return;
    for (const json::value& value : *added) {
      const json::object* token = value.if_object();
      const std::optional<size_t> id = token != nullptr ? IdOf(Member(*token, "id")) : std::nullopt;
      if (!id || *id >= spec_.tokens.size()) continue;
      AddedTokenRule rule{.id = static_cast<int32_t>(*id)};
      rule.single_word = BoolAt(*token, "single_word").value_or(false);
      rule.lstrip = BoolAt(*token, "lstrip").value_or(false);
      rule.rstrip = BoolAt(*token, "rstrip").value_or(false);
      rule.normalized = BoolAt(*token, "normalized").value_or(false);
      if (rule.single_word || rule.lstrip || rule.rstrip || rule.normalized)
        spec_.added.push_back(rule);
    }
  }

  Status ReadBpe(const json::object& model) {
    const bool bytes = std::ranges::any_of(spec_.split,
                                           [](const SplitStep& step) {
                                             return step.kind == SplitStep::Kind::kByteLevel;
                                           }) ||
                       std::ranges::any_of(spec_.normalizer, [](const NormalizerStep& step) {
                         return step.kind == NormalizerStep::Kind::kByteLevel;
                       });
    spec_.model = bytes ? "gpt2" : "bpe";
    if (const json::value* dropout = Member(model, "dropout");
        dropout != nullptr && NumberOf(*dropout).value_or(1) != 0)
      return Unsupported("BPE with", "dropout");
    spec_.continuing_prefix = TextAt(model, "continuing_subword_prefix");
    spec_.end_of_word_suffix = TextAt(model, "end_of_word_suffix");
    if (bytes && !spec_.continuing_prefix.empty())
      return Unsupported("byte-level BPE with", "continuing_subword_prefix");
    if (bytes && !spec_.end_of_word_suffix.empty())
      return Unsupported("byte-level BPE with", "end_of_word_suffix");
    spec_.ignore_merges = BoolAt(model, "ignore_merges").value_or(false);
    spec_.fuse_unknown = BoolAt(model, "fuse_unk").value_or(false);
    spec_.byte_fallback = BoolAt(model, "byte_fallback").value_or(false);
    spec_.model_unknown = Find(TextAt(model, "unk_token"));
    if (spec_.model_unknown) spec_.unk = spec_.model_unknown;
    if (spec_.merges.empty() && ArrayAt(model, "merges") == nullptr && spec_.pipeline.empty())
      return Invalid("the model has no merges");
    if (bytes) {
      spec_.pre = NameOfPreTokenizer(spec_.split, *spec_.ignore_merges);
      return OkStatus();
    }
    if (spec_.model_unknown) SetType(*spec_.model_unknown, TokenType::kUnknown);
    for (size_t id = 0; spec_.byte_fallback && id < spec_.tokens.size(); ++id) {
      const std::string& token = spec_.tokens[id];
      if (token.size() == 6 && token.starts_with("<0x") && token.ends_with(">"))
        SetType(static_cast<int64_t>(id), TokenType::kByte);
    }
    return OkStatus();
  }

  void SetType(int64_t id, TokenType type) {
    spec_.token_types[static_cast<size_t>(id)] = static_cast<int32_t>(type);
  }

  Status ReadUnigram(const json::object& model) {
    if (spec_.unigram_scores.empty()) return Invalid("the model has no pieces");
    spec_.model = "t5";
    const std::optional<size_t> unknown = IdOf(Member(model, "unk_id"));
    if (!unknown) return Unsupported("Unigram without", "unk_id");
    spec_.unk = static_cast<int64_t>(*unknown);
    spec_.byte_fallback = BoolAt(model, "byte_fallback").value_or(false);
    return OkStatus();
  }

  Status ReadWordPiece(const json::object& model) {
    spec_.model = "bert";
    spec_.wordpiece_plain_vocabulary = true;
    spec_.continuing_prefix = TextOf(Member(model, "continuing_subword_prefix")).value_or("##");
    spec_.max_word_characters =
        static_cast<uint32_t>(IdOf(Member(model, "max_input_chars_per_word")).value_or(100));
    spec_.unk = Find(TextAt(model, "unk_token"));
    if (!spec_.unk) return Invalid("the unk_token is no token");
    spec_.cls = Find("[CLS]");  // a post-processor may name others
    spec_.sep = Find("[SEP]");
    spec_.pad = Find("[PAD]");
    spec_.mask = Find("[MASK]");
    const bool any_normalized = std::ranges::any_of(
        spec_.added, [](const AddedTokenRule& rule) { return rule.normalized; });
    if (!HasBertSteps(root_) || any_normalized) return OkStatus();
    const json::object& normalizer = *ObjectAt(root_, "normalizer");
    spec_.lowercase = BoolAt(normalizer, "lowercase").value_or(true);
    spec_.strip_accents = BoolAt(normalizer, "strip_accents").value_or(*spec_.lowercase);
    spec_.normalizer.clear();
    spec_.split.clear();
    spec_.has_steps = false;
    return OkStatus();
  }

  // Reads the tokens before and after a text, and around a pair.
  Status ReadPostProcessor() {
    spec_.single = {{FramePlace::kFirstText, 0}};
    ASSIGN_OR_RETURN(const std::vector<const json::object*> parts,
                     PartsAt(root_, "post_processor", "processors"));
    if (parts.empty()) return OkStatus();
    for (const json::object* part : parts) {
      const std::string_view type = TextAt(*part, "type");
      if (type == "ByteLevel") continue;  // only moves offsets
      if (type == "TemplateProcessing") {
        ASSIGN_OR_RETURN(spec_.single, ReadFrame(*part, "single"));
        ASSIGN_OR_RETURN(spec_.pair, ReadFrame(*part, "pair"));
      } else if (type == "BertProcessing" || type == "RobertaProcessing") {
        RETURN_IF_ERROR(ReadOldProcessor(type == "BertProcessing", *part));
      } else {
        return Unsupported("post_processor", type);
      }
    }
    NameFrame();
    return OkStatus();
  }

  // [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, ...]
  Result<std::vector<FramePlace>> ReadFrame(const json::object& block, std::string_view key) const {
    std::vector<FramePlace> frame;
    const json::array* items = ArrayAt(block, key);
    if (items == nullptr) return frame;
    for (const json::value& item : *items) {
      const json::object* object = item.if_object();
      if (object == nullptr) return Invalid("TemplateProcessing holds no object");
      const json::object* part = ObjectAt(*object, "SpecialToken");
      const bool special = part != nullptr;
      if (!special) part = ObjectAt(*object, "Sequence");
      if (part == nullptr) return Invalid("TemplateProcessing holds no object");
      FramePlace place;
      if (const json::value* type = Member(*part, "type_id"); type != nullptr) {
        if (IdOf(type).value_or(2) > 1)
          return Unsupported("TemplateProcessing with", "a type_id above 1");
        place.type = static_cast<uint8_t>(*IdOf(type));
      }
      if (special) {
        ASSIGN_OR_RETURN(const std::vector<int64_t> ids, IdsOfSpecial(block, TextAt(*part, "id")));
        for (const int64_t id : ids) frame.push_back({id, place.type});
      } else {
        place.token = TextAt(*part, "id") == "B" ? FramePlace::kSecondText : FramePlace::kFirstText;
        frame.push_back(place);
      }
      if (frame.size() > kMaxFramePlaces)
        return Unsupported("TemplateProcessing with more places than 16 in", key);
    }
    // Some files of models without pairs have a pair template that lacks the second text.
    const bool has_second = std::ranges::any_of(
        frame, [](const FramePlace& place) { return place.token == FramePlace::kSecondText; });
    if (key == "pair" && !has_second) frame.clear();
    return frame;
  }

  // "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}: one name may stand for
  // several tokens.
  Result<std::vector<int64_t>> IdsOfSpecial(const json::object& block,
                                            std::string_view name) const {
    const json::object* named = ObjectAt(block, "special_tokens");
    const json::object* entry = named != nullptr ? ObjectAt(*named, name) : nullptr;
    const json::array* listed = entry != nullptr ? ArrayAt(*entry, "ids") : nullptr;
    std::vector<int64_t> ids;
    if (listed == nullptr) {
      ASSIGN_OR_RETURN(const int64_t id, IdOfSpecial(name));
      ids.push_back(id);
      return ids;
    }
    for (const json::value& value : *listed) {
      const std::optional<size_t> id = IdOf(&value);
      if (!id || *id >= spec_.tokens.size())
        return Invalid("the special token " + Quote(name) + " has an id that is no token");
      ids.push_back(static_cast<int64_t>(*id));
    }
    return ids;
  }

  // BERT's: [CLS] A [SEP] B [SEP] with two kinds of tokens. RoBERTa's: <s> A </s> </s> B </s>, all
  // of one kind.
  Status ReadOldProcessor(bool bert, const json::object& block) {
    ASSIGN_OR_RETURN(const int64_t first, IdOfSpecial(PairText(block, "cls")));
    ASSIGN_OR_RETURN(const int64_t last, IdOfSpecial(PairText(block, "sep")));
    const uint8_t second = bert ? 1 : 0;
    spec_.single = {{first, 0}, {FramePlace::kFirstText, 0}, {last, 0}};
    spec_.pair = spec_.single;
    if (!bert) spec_.pair.push_back({last, 0});
    spec_.pair.push_back({FramePlace::kSecondText, second});
    spec_.pair.push_back({last, second});
    return OkStatus();
  }

  // "cls": ["[CLS]", 101]
  static std::string_view PairText(const json::object& object, std::string_view key) {
    const json::array* pair = ArrayAt(object, key);
    return pair != nullptr && !pair->empty() ? TextOf(&(*pair)[0]).value_or(std::string_view())
                                             : std::string_view();
  }

  Result<int64_t> IdOfSpecial(std::string_view token) const {
    const std::optional<int64_t> id = Find(token);
    if (!id) return Invalid("the special token " + Quote(token) + " is no token");
    return *id;
  }

  // The one token before the text and the one behind it have names elsewhere: BOS and EOS, or [CLS]
  // and [SEP].
  void NameFrame() {
    const bool bert = spec_.model == "bert";
    const auto text = std::ranges::find_if(spec_.single, [](const FramePlace& place) {
      return place.token == FramePlace::kFirstText;
    });
    const auto before = std::distance(spec_.single.begin(), text);
    const auto behind = std::distance(text, spec_.single.end()) - 1;
    if (before > 0) (bert ? spec_.cls : spec_.bos) = spec_.single.front().token;
    if (behind > 0) (bert ? spec_.sep : spec_.eos) = spec_.single.back().token;
    if (bert) return;
    if (before > 0) spec_.add_bos = true;
    if (behind > 0) spec_.add_eos = true;
  }

  const json::object& root_;
  TokenizerSpec& spec_;
};

// The file without its lists, for spec.pipeline.
std::string PipelineOf(const json::object& root) {
  json::object out;
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    if (const json::value* block = Member(root, key)) out[key] = *block;
  }
  json::object model;
  if (const json::object* from = ObjectAt(root, "model")) {
    for (const auto& member : *from) {
      if (member.key() != "vocab" && member.key() != "merges") model[member.key()] = member.value();
    }
  }
  out["model"] = std::move(model);
  json::array added;
  if (const json::array* from = ArrayAt(root, "added_tokens")) {
    for (const json::value& value : *from) {
      json::object rule;
      for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) {
        if (BoolAt(value.get_object(), flag).value_or(false)) rule[flag] = true;
      }
      if (rule.empty()) continue;
      rule["id"] = value.get_object().at("id");
      added.push_back(std::move(rule));
    }
  }
  out["added_tokens"] = std::move(added);
  return json::serialize(out);
}

}  // namespace

Result<TokenizerSpec> SpecFromHuggingFace(std::string_view tokenizer_json,
                                          std::string_view config_json) {
  ASSIGN_OR_RETURN(const json::value root, Parse(tokenizer_json, "tokenizer.json"));
  std::optional<json::value> config;
  if (!config_json.empty()) {
    ASSIGN_OR_RETURN(config, Parse(config_json, "tokenizer_config.json"));
  }
  TokenizerSpec spec;
  Reader reader(root.get_object(), spec);
  RETURN_IF_ERROR(reader.Read());
  RETURN_IF_ERROR(PipelineReader(root.get_object(), spec).Read());
  spec.pipeline = PipelineOf(root.get_object());
  if (config) RETURN_IF_ERROR(reader.ReadConfig(config->get_object()));
  return spec;
}

Status ApplyPipeline(TokenizerSpec& spec) {
  ASSIGN_OR_RETURN(const json::value root, Parse(spec.pipeline, "the tokenizer's pipeline"));
  if (spec.token_types.size() != spec.tokens.size()) return Invalid("tokens have no types");
  return PipelineReader(root.get_object(), spec).Read();
}

Result<std::vector<float>> ScoresFromMerges(const TokenizerSpec& spec) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < spec.tokens.size(); ++id) ids.emplace(spec.tokens[id], id);
  std::vector<float> scores(spec.tokens.size(), -static_cast<float>(kMaxMerges));
  // A tokenizer.json lists for each token the pairs that make it: of several the first one counts.
  // A merge that makes no token is left out, as by MergeTable.
  for (size_t rank = spec.merges.size(); rank-- > 0;) {
    const std::string_view merge = spec.merges[rank];
    const size_t border = MergeBorder(merge);
    if (border == std::string_view::npos) continue;
    std::string_view right = merge.substr(border + 1);
    if (right.starts_with(spec.continuing_prefix))
      right.remove_prefix(spec.continuing_prefix.size());
    const auto id = ids.find(std::string(merge.substr(0, border)).append(right));
    if (id != ids.end()) scores[id->second] = -static_cast<float>(rank);
  }
  return scores;
}

}  // namespace tutti::tokenizer
