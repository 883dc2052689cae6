#include "tokenizer/huggingface.h"

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/huggingface_json.h"
#include "tokenizer/huggingface_split.h"
#include "tokenizer/huggingface_unigram.h"
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
    return InvalidArgument("tokenizer_invalid", std::string(file) + " is no JSON object");
  }
  return value;
}

// ---- The parts of the file
// ----------------------------------------------------------------------------------

class Reader {
 public:
  explicit Reader(const json::object& root) : root_(root) {}

  Result<TokenizerSpec> Read(const json::object* config) {
    const json::object* model = ObjectAt(root_, "model");
    if (model == nullptr) return Invalid("it has no model");
    const std::string_view type = TextAt(*model, "type");
    RETURN_IF_ERROR(ReadTokens(*model));
    if (type == "BPE") {
      RETURN_IF_ERROR(ReadBpe(*model));
    } else if (type == "WordPiece") {
      RETURN_IF_ERROR(ReadWordPiece(*model));
    } else if (type == "Unigram") {
      RETURN_IF_ERROR(ReadUnigram(*model));
    } else {
      return Unsupported("tokenizer model", type);
    }
    RETURN_IF_ERROR(ReadPostProcessor());
    if (config != nullptr) RETURN_IF_ERROR(ReadConfig(*config));
    return std::move(spec_);
  }

 private:
  std::optional<int64_t> Find(std::string_view token) const {
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      if (spec_.tokens[id] == token) return static_cast<int64_t>(id);
    }
    return std::nullopt;
  }

  Status PutToken(std::optional<size_t> id, std::string_view text, TokenType type) {
    // An id beyond the number of entries would leave a hole below it.
    if (!id || *id >= entries_) {
      return Invalid("the id of token " + QuotedForMessage(text) + " is no number below " +
                     std::to_string(entries_));
    }
    if (*id >= spec_.tokens.size()) {
      spec_.tokens.resize(*id + 1);
      spec_.token_types.resize(*id + 1, static_cast<int32_t>(TokenType::kUndefined));
    }
    const bool taken = spec_.token_types[*id] != static_cast<int32_t>(TokenType::kUndefined);
    if (taken && spec_.tokens[*id] != text) {
      return Invalid("tokens " + QuotedForMessage(spec_.tokens[*id]) + " and " +
                     QuotedForMessage(text) + " have the same id");
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
      if (spec_.token_types[id] == static_cast<int32_t>(TokenType::kUndefined)) {
        return Invalid("no token has id " + std::to_string(id));
      }
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
      const size_t id = spec_.unigram.scores.size();
      if (id >= kMaxTokens) break;  // refused with its numbers by whoever takes the tokens
      spec_.unigram.scores.push_back(*score);
      RETURN_IF_ERROR(PutToken(id, *TextOf(&(*pair)[0]), TokenType::kNormal));
    }
    return OkStatus();
  }

  Status ReadUnigram(const json::object& model) {
    if (spec_.unigram.scores.empty()) return Invalid("the model has no pieces");
    spec_.model = "t5";
    const std::optional<size_t> unknown = IdOf(Member(model, "unk_id"));
    if (!unknown) return Unsupported("Unigram without", "unk_id");
    spec_.unk = static_cast<int64_t>(*unknown);
    spec_.unigram.byte_fallback = BoolAt(model, "byte_fallback").value_or(false);
    return ReadUnigramBlocks(root_, spec_.unigram);
  }

  // BPE of SentencePiece: U+2581 for spaces, and bytes for what is no token. Its tokenizer.json
  // lists for each token the pairs that make it, the highest score first.
  Status ReadSentencePieceBpe(const json::object& model) {
    spec_.model = "llama";
    ASSIGN_OR_RETURN(spec_.add_space_prefix, SpacePrefixOfHuggingFace(root_));
    spec_.unk = Find(TextAt(model, "unk_token"));
    if (!spec_.unk) return Invalid("the unk_token is no token");
    spec_.token_types[static_cast<size_t>(*spec_.unk)] = static_cast<int32_t>(TokenType::kUnknown);
    std::unordered_map<std::string_view, size_t> ids;
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      const std::string& token = spec_.tokens[id];
      ids.emplace(token, id);
      if (token.size() == 6 && token.starts_with("<0x") && token.ends_with(">"))
        spec_.token_types[id] = static_cast<int32_t>(TokenType::kByte);
    }
    spec_.scores.assign(spec_.tokens.size(), -static_cast<float>(kMaxMerges));
    RETURN_IF_ERROR(ReadMerges(model));
    for (size_t rank = spec_.merges.size(); rank-- > 0;) {  // of several the first one counts
      std::string made = spec_.merges[rank];
      made.erase(made.find(' '), 1);
      const auto id = ids.find(made);
      if (id == ids.end()) return Invalid("a merge makes " + QuotedForMessage(made) + ", no token");
      spec_.scores[id->second] = -static_cast<float>(rank);
    }
    spec_.merges.clear();
    return OkStatus();
  }

  Status ReadBpe(const json::object& model) {
    if (BoolAt(model, "byte_fallback").value_or(false)) return ReadSentencePieceBpe(model);
    spec_.model = "gpt2";
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const json::value* value = Member(model, key);
      if (value != nullptr && TextOf(value) != std::string_view())
        return Unsupported("BPE with", key);
    }
    if (Member(model, "unk_token") != nullptr && !SpellsAllBytes())
      return Unsupported("BPE with", "unk_token");
    spec_.ignore_merges = BoolAt(model, "ignore_merges").value_or(false);
    if (const json::object* normalizer = ObjectAt(root_, "normalizer")) {
      const json::array* steps = ArrayAt(*normalizer, "normalizers");
      const bool nothing =
          TextAt(*normalizer, "type") == "Sequence" && steps != nullptr && steps->empty();
      if (!nothing) return Unsupported("BPE with normalizer", TextAt(*normalizer, "type"));
    }
    ASSIGN_OR_RETURN(spec_.pre, PreTokenizerOfHuggingFace(Member(root_, "pre_tokenizer")));
    return ReadMerges(model);
  }

  Status ReadMerges(const json::object& model) {
    const json::array* merges = ArrayAt(model, "merges");
    if (merges == nullptr) return Invalid("the model has no merges");
    if (merges->size() > kMaxMerges) {
      return InvalidArgument(
          "tokenizer_limit",
          std::to_string(merges->size()) + " merges; the limit is " + std::to_string(kMaxMerges));
    }
    spec_.merges.reserve(merges->size());
    for (const json::value& merge : *merges) RETURN_IF_ERROR(ReadMerge(merge));
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
    if (left.find(' ') != std::string_view::npos)
      return Invalid("a piece of a merge holds a space");
    spec_.merges.push_back(std::string(left) + " " + std::string(right));
    return OkStatus();
  }

  bool SpellsAllBytes() const {
    std::vector<bool> spelled(256, false);
    for (const std::string& token : spec_.tokens) {
      if (token.size() > 2) continue;  // a symbol of the alphabet takes one or two bytes
      const std::optional<std::string> bytes = BytesOfSpelling(token);
      if (bytes && bytes->size() == 1) spelled[static_cast<unsigned char>(bytes->front())] = true;
    }
    return std::count(spelled.begin(), spelled.end(), true) == 256;
  }

  Status ReadWordPiece(const json::object& model) {
    spec_.model = "bert";
    spec_.wordpiece_plain_vocabulary = true;
    if (TextAt(model, "continuing_subword_prefix") != "##") {
      return Unsupported("WordPiece with continuing_subword_prefix",
                         TextAt(model, "continuing_subword_prefix"));
    }
    const json::value* limit = Member(model, "max_input_chars_per_word");
    const int64_t* characters = limit != nullptr ? limit->if_int64() : nullptr;
    if (characters == nullptr || *characters != 100)
      return Unsupported("WordPiece with", "max_input_chars_per_word");
    spec_.unk = Find(TextAt(model, "unk_token"));
    if (!spec_.unk) return Invalid("the unk_token is no token");
    spec_.cls = Find("[CLS]");  // a post-processor may name others
    spec_.sep = Find("[SEP]");
    spec_.pad = Find("[PAD]");
    spec_.mask = Find("[MASK]");
    const json::object* normalizer = ObjectAt(root_, "normalizer");
    const std::string_view type = normalizer != nullptr ? TextAt(*normalizer, "type") : "null";
    if (type != "BertNormalizer") return Unsupported("WordPiece with normalizer", type);
    for (const char* key : {"clean_text", "handle_chinese_chars"}) {
      if (!BoolAt(*normalizer, key).value_or(false))
        return Unsupported("BertNormalizer without", key);
    }
    spec_.lowercase = BoolAt(*normalizer, "lowercase").value_or(false);
    spec_.strip_accents = BoolAt(*normalizer, "strip_accents").value_or(*spec_.lowercase);
    const json::object* splitter = ObjectAt(root_, "pre_tokenizer");
    const std::string_view split = splitter != nullptr ? TextAt(*splitter, "type") : "null";
    if (split != "BertPreTokenizer") return Unsupported("WordPiece with pre_tokenizer", split);
    return OkStatus();
  }

  // What stands before and behind a single text.
  Status ReadPostProcessor() {
    const json::object* block = ObjectAt(root_, "post_processor");
    if (block == nullptr) return OkStatus();
    std::vector<const json::object*> parts = {block};
    if (TextAt(*block, "type") == "Sequence") {
      parts.clear();
      const json::array* list = ArrayAt(*block, "processors");
      if (list == nullptr) return Invalid("post_processor is a Sequence without processors");
      for (const json::value& part : *list) {
        if (!part.is_object()) return Invalid("a part of post_processor is no object");
        parts.push_back(&part.get_object());
      }
    }
    for (const json::object* part : parts) {
      const std::string_view type = TextAt(*part, "type");
      if (type == "ByteLevel") continue;  // only moves offsets
      if (type == "TemplateProcessing") {
        RETURN_IF_ERROR(ReadTemplate(*part));
        RETURN_IF_ERROR(ReadPair(*part));
      } else if (type == "BertProcessing" || type == "RobertaProcessing") {
        RETURN_IF_ERROR(ReadOldProcessor(type == "BertProcessing", *part));
      } else {
        return Unsupported("post_processor", type);
      }
    }
    return OkStatus();
  }

  // "cls": ["[CLS]", 101]
  static std::string_view PairText(const json::object& object, std::string_view key) {
    const json::array* pair = ArrayAt(object, key);
    return pair != nullptr && !pair->empty() ? TextOf(&(*pair)[0]).value_or(std::string_view())
                                             : std::string_view();
  }

  // "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, ...] with at most one on
  // either side.
  Status ReadTemplate(const json::object& block) {
    const json::array* items = ArrayAt(block, "single");
    if (items == nullptr) return Invalid("TemplateProcessing has no single");
    std::string_view side[2];
    bool behind = false;
    for (const json::value& item : *items) {
      const json::object* object = item.if_object();
      if (object == nullptr) return Invalid("TemplateProcessing holds no object");
      if (const json::object* token = ObjectAt(*object, "SpecialToken")) {
        if (!side[behind].empty())
          return Unsupported("TemplateProcessing with", "two special tokens in a row");
        side[behind] = TextAt(*token, "id");
      } else {
        if (behind) return Unsupported("TemplateProcessing with", "two sequences");
        behind = true;
      }
    }
    return Frame(side[0], side[1]);
  }

  // The same for "pair", where a text may have a kind, and special tokens stand in a row.
  Status ReadPair(const json::object& block) {
    const json::array* items = ArrayAt(block, "pair");
    if (items == nullptr) return OkStatus();
    if (items->size() > kMaxFramePlaces)
      return Unsupported("TemplateProcessing with", "so long a pair");
    spec_.pair.clear();
    for (const json::value& item : *items) {
      const json::object* object = item.if_object();
      if (object == nullptr) return Invalid("TemplateProcessing holds no object");
      FramePlace place;
      const json::object* part = ObjectAt(*object, "SpecialToken");
      if (part != nullptr) {
        ASSIGN_OR_RETURN(place.token, IdOfSpecial(TextAt(*part, "id")));
      } else {
        part = ObjectAt(*object, "Sequence");
        if (part == nullptr) return Invalid("TemplateProcessing holds no object");
        place.token = TextAt(*part, "id") == "B" ? FramePlace::kSecondText : FramePlace::kFirstText;
      }
      if (const json::value* type = Member(*part, "type_id"); type != nullptr) {
        if (IdOf(type).value_or(2) > 1)
          return Unsupported("TemplateProcessing with", "a type_id above 1");
        place.type = static_cast<uint8_t>(*IdOf(type));
      }
      spec_.pair.push_back(place);
    }
    return OkStatus();
  }

  // BERT's: [CLS] A [SEP] B [SEP] with two kinds of tokens. RoBERTa's: <s> A </s> </s> B </s>, all
  // of one kind.
  Status ReadOldProcessor(bool bert, const json::object& block) {
    const std::string_view before = PairText(block, "cls"), behind = PairText(block, "sep");
    RETURN_IF_ERROR(Frame(before, behind));
    ASSIGN_OR_RETURN(const int64_t first, IdOfSpecial(before));
    ASSIGN_OR_RETURN(const int64_t last, IdOfSpecial(behind));
    const uint8_t second = bert ? 1 : 0;
    spec_.pair = {{first, 0}, {FramePlace::kFirstText, 0}, {last, 0}};
    if (!bert) spec_.pair.push_back({last, 0});
    spec_.pair.push_back({FramePlace::kSecondText, second});
    spec_.pair.push_back({last, second});
    return OkStatus();
  }

  Result<int64_t> IdOfSpecial(std::string_view token) const {
    const std::optional<int64_t> id = Find(token);
    if (!id) return Invalid("the special token " + QuotedForMessage(token) + " is no token");
    return *id;
  }

  Status Frame(std::string_view before, std::string_view behind) {
    const bool bert = spec_.model == "bert";
    if (bert && (before.empty() || behind.empty()))
      return Unsupported("WordPiece without", "[CLS] and [SEP]");
    const auto set = [&](std::string_view token, std::optional<int64_t>& id,
                         std::optional<bool>& flag) -> Status {
      if (token.empty()) return OkStatus();
      id = Find(token);
      if (!id) return Invalid("the special token " + QuotedForMessage(token) + " is no token");
      flag = true;
      return OkStatus();
    };
    std::optional<bool> ignored;
    RETURN_IF_ERROR(set(before, bert ? spec_.cls : spec_.bos, bert ? ignored : spec_.add_bos));
    return set(behind, bert ? spec_.sep : spec_.eos, bert ? ignored : spec_.add_eos);
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
      *id = Find(text);
      if (!*id) {
        return InvalidArgument("tokenizer_invalid", std::string("tokenizer_config.json: ") + key +
                                                        " " + QuotedForMessage(text) +
                                                        " is no token");
      }
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

  const json::object& root_;
  size_t entries_ = 0;  // of the vocabulary and the added tokens together
  TokenizerSpec spec_;
};

}  // namespace

Result<TokenizerSpec> SpecFromHuggingFace(std::string_view tokenizer_json,
                                          std::string_view config_json) {
  ASSIGN_OR_RETURN(const json::value root, Parse(tokenizer_json, "tokenizer.json"));
  std::optional<json::value> config;
  if (!config_json.empty()) {
    ASSIGN_OR_RETURN(config, Parse(config_json, "tokenizer_config.json"));
  }
  Reader reader(root.get_object());
  return reader.Read(config ? &config->get_object() : nullptr);
}

}  // namespace tutti::tokenizer
