#include "grammar/schema_document.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "base/url.h"
#include "base/utf8.h"

namespace tutti::grammar {
namespace {

// RFC 3986, section 5.2.2, without the removal of dot segments.
std::string ResolveUri(const std::string& base, std::string_view reference) {
  const size_t colon = reference.find(':'), slash = reference.find_first_of("/?#");
  if (colon != std::string_view::npos && (slash == std::string_view::npos || colon < slash))
    return std::string(reference);
  const std::string whole = base.substr(0, base.find('#'));
  if (reference.empty()) return whole;
  if (reference.front() == '#') return whole + std::string(reference);
  const size_t authority = whole.find("://");
  const size_t path = authority == std::string::npos ? 0 : whole.find('/', authority + 3);
  if (reference.starts_with("//") && authority != std::string::npos)
    return whole.substr(0, authority + 1) + std::string(reference);
  if (reference.front() == '/') return whole.substr(0, path) + std::string(reference);
  if (path == std::string::npos) return whole + "/" + std::string(reference);
  const size_t last = whole.rfind('/');
  return (last == std::string::npos ? "" : whole.substr(0, last + 1)) + std::string(reference);
}

// RFC 6901: ~1 is a slash, ~0 a tilde.
std::string Unescape(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size()) {
      out.push_back(token[++i] == '1' ? '/' : '~');
    } else {
      out.push_back(token[i]);
    }
  }
  return out;
}

// Maximum part of a client's names in an error message.
std::string_view CutName(std::string_view name) {
  const std::string_view cut = name.substr(0, 64);
  return cut.substr(0, ValidUtf8Prefix(cut));
}

std::string Quoted(std::string_view text) { return "\"" + std::string(CutName(text)) + "\""; }

}  // namespace

Result<std::unique_ptr<SchemaDocument>> SchemaDocument::Parse(std::string_view text,
                                                              Budget& budget) {
  if (text.size() > budget.limits().text_bytes)
    return InvalidArgument("grammar_too_complex", "schema is longer than 1 MiB");
  auto document = std::make_unique<SchemaDocument>();
  document->budget_ = &budget;
  boost::system::error_code error;
  boost::json::parse_options options;
  options.max_depth = budget.limits().depth;
  document->document_ = boost::json::parse({text.data(), text.size()}, error, {}, options);
  if (error == boost::json::error::too_deep)
    return InvalidArgument(
        "grammar_too_complex",
        "schema is nested deeper than " + std::to_string(budget.limits().depth) + " levels");
  if (error) return InvalidArgument("schema_invalid", "schema is not JSON: " + error.message());
  const Json& root = document->document_;
  if (!root.is_object() && !root.is_bool())
    return InvalidArgument("schema_invalid", "schema must be an object or a boolean");
  document->AddNode(root, 0, "");
  document->ids_.emplace(&root, 0);
  if (root.is_object()) {
    const Json* draft = root.get_object().if_contains("$schema");
    if (draft != nullptr && draft->is_string()) {
      // A vocabulary of its own may change what keywords mean.
      if (TextOf(*draft).find("json-schema.org/") == std::string_view::npos)
        return document->Unsupported(0, "$schema", "only those of json-schema.org are known");
      for (const std::string_view old : {"draft-03", "draft-04", "draft-06", "draft-07"}) {
        if (TextOf(*draft).find(old) != std::string_view::npos) document->ref_stands_alone_ = true;
      }
    }
  }
  document->resources_.emplace("", &root);
  RETURN_IF_ERROR(document->FindIds(root, ""));
  return document;
}

Status SchemaDocument::FindIds(const Json& value, const std::string& base) {
  if (!budget_->Take(8)) return budget_->status();
  if (value.is_array()) {
    for (const Json& item : value.get_array()) RETURN_IF_ERROR(FindIds(item, base));
    return OkStatus();
  }
  if (!value.is_object()) return OkStatus();
  const boost::json::object& object = value.get_object();
  std::string own = base;
  const Json* ref = object.if_contains("$ref");
  if (const Json* id = object.if_contains("$id");
      id != nullptr && id->is_string() && !(ref_stands_alone_ && ref != nullptr)) {
    const std::string uri = ResolveUri(base, TextOf(*id));
    if (uri.size() > kMaxUriBytes)
      return InvalidArgument("schema_invalid", "$id is longer than 2,048 bytes").WithParam("$id");
    if (TextOf(*id).starts_with("#")) {
      anchors_.emplace(uri, &value);  // drafts 6 and 7
    } else {
      own = uri.substr(0, uri.find('#'));
      resources_.emplace(own, &value);
      if (uri.find('#') != std::string::npos && uri.back() != '#') anchors_.emplace(uri, &value);
    }
  }
  for (const char* keyword : {"$anchor", "$dynamicAnchor"}) {
    const Json* anchor = object.if_contains(keyword);
    if (anchor == nullptr || !anchor->is_string()) continue;
    if (TextOf(*anchor).size() > kMaxUriBytes)
      return InvalidArgument("schema_invalid", "anchor is longer than 2,048 bytes")
          .WithParam(keyword);
    anchors_.emplace(own + "#" + std::string(TextOf(*anchor)), &value);
    if (!budget_->TakeBytes(200 + own.size() + TextOf(*anchor).size())) return budget_->status();
  }
  if (!own.empty()) {
    if (!budget_->Take(20 + own.size() / 8) || !budget_->TakeBytes(200 + 2 * own.size()))
      return budget_->status();
    bases_.emplace(&value, own);
  }
  for (const auto& member : object) {
    // Values of these keywords are data, not schemas, even if they look like schemas.
    if (member.key() == "enum" || member.key() == "const" || member.key() == "default" ||
        member.key() == "examples")
      continue;
    RETURN_IF_ERROR(FindIds(member.value(), own));
  }
  return OkStatus();
}

NodeId SchemaDocument::AddNode(const Json& value, NodeId parent, std::string_view key) {
  key = CutName(key);
  // With its places in the tables below.
  budget_->Take(8);
  budget_->TakeBytes(2 * sizeof(Node) + key.size() + 64);
  nodes_.push_back({&value, parent, std::string(key)});
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId SchemaDocument::Child(NodeId parent, std::string_view key, const Json& value) {
  const auto [at, fresh] = ids_.try_emplace(&value, static_cast<NodeId>(nodes_.size()));
  if (fresh) AddNode(value, parent, key);
  return at->second;
}

NodeId SchemaDocument::Derive(NodeId parent, const std::string& name, Json value) {
  const auto [at, fresh] =
      derived_ids_.try_emplace({parent, name}, static_cast<NodeId>(nodes_.size()));
  if (fresh) {
    derived_.push_back(std::move(value));
    AddNode(derived_.back(), parent, "");
  }
  return at->second;
}

std::string SchemaDocument::PathOf(NodeId id, std::string_view keyword) const {
  constexpr size_t kMaxPathBytes = 1'024;
  std::vector<std::string_view> parts;  // from the end
  if (!keyword.empty()) parts.push_back(CutName(keyword));
  for (; id != 0; id = nodes_[id].parent) {
    if (!nodes_[id].key.empty()) parts.push_back(nodes_[id].key);
    budget_->Take(1);  // a chain of references can be long
  }
  std::string path;
  while (!parts.empty() && path.size() <= kMaxPathBytes) {
    if (!path.empty()) path += '.';
    path += parts.back();
    parts.pop_back();
  }
  return path;
}

Result<NodeId> SchemaDocument::Resolve(NodeId from, std::string_view reference) {
  if (!budget_->Take(40 + reference.size())) return budget_->status();
  const auto base_at = bases_.find(nodes_[from].value);
  const std::string uri = ResolveUri(base_at == bases_.end() ? "" : base_at->second, reference);
  const size_t hash = uri.find('#');
  const std::string resource = uri.substr(0, hash);
  const std::string fragment = hash == std::string::npos ? "" : uri.substr(hash + 1);
  const auto refuse = [&](std::string_view what) {
    return InvalidArgument("schema_reference",
                           "$ref " + Quoted(reference) + " " + std::string(what))
        .WithParam(PathOf(from, "$ref"));
  };
  const auto found = resources_.find(resource);
  if (const auto anchor = anchors_.find(uri); anchor != anchors_.end())
    return Child(from, "$ref", *anchor->second);
  if (found == resources_.end())
    return refuse("leads out of the schema; references are not fetched, put it under $defs");
  const Json* value = found->second;
  if (!fragment.empty() && fragment.front() != '/') return refuse("names an unknown anchor");
  const std::optional<std::string> pointer = PercentDecode(fragment);
  if (!pointer) return refuse("is not a URI");
  std::string_view rest = *pointer;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('/', 1), rest.size());
    const std::string token = Unescape(rest.substr(1, end - 1));
    rest.remove_prefix(end);
    const Json* next = nullptr;
    if (value->is_object()) {
      next = value->get_object().if_contains(token);
    } else if (value->is_array() && !token.empty() && token.size() < 8 &&
               token.find_first_not_of("0123456789") == std::string::npos) {
      next = value->get_array().if_contains(static_cast<size_t>(std::stoul(token)));
    }
    if (next == nullptr) return refuse("leads to nothing");
    value = next;
  }
  if (!value->is_object() && !value->is_bool()) return refuse("leads to a value, not a schema");
  return Child(from, "$ref", *value);
}

Status SchemaDocument::Invalid(NodeId id, std::string_view keyword, std::string_view what) const {
  return InvalidArgument("schema_invalid", std::string(CutName(keyword)) + " " + std::string(what))
      .WithParam(PathOf(id, keyword));
}

Status SchemaDocument::Unsupported(NodeId id, std::string_view keyword,
                                   std::string_view why) const {
  std::string message = std::string(keyword) + " cannot be enforced";
  if (!why.empty()) message += ": " + std::string(why);
  return InvalidArgument("schema_unsupported", std::move(message)).WithParam(PathOf(id, keyword));
}

}  // namespace tutti::grammar
