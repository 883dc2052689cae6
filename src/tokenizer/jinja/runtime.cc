#include "tokenizer/jinja/runtime.h"

#include <algorithm>

namespace tutti::tokenizer::jinja {
namespace {

std::string_view KindName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "an undefined value";
    case Kind::kNone:
      return "none";
    case Kind::kBool:
      return "a boolean";
    case Kind::kInt:
    case Kind::kFloat:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kList:
      return "a list";
    case Kind::kDict:
      return "a mapping";
    case Kind::kObject:
      return "an object";
  }
  return "a value";
}

// Keeps whole characters of at most `limit` bytes.
std::string_view Shorten(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace

Runtime::~Runtime() {
  for (const Value& object : kept_) object.object()->Clear();
}

void Runtime::SetStatus(std::string_view reason, std::string message) {
  if (failed_) return;
  failed_ = true;
  std::string where = "chat template";
  if (line_ > 0) where += " line " + std::to_string(line_);
  status_ = InvalidArgument(reason, where + ": " + std::move(message)).WithParam("messages");
}

bool Runtime::OutOfFuel() {
  SetStatus("template_step_limit", "more than " + std::to_string(limits_.steps) + " steps");
  return false;
}

Value Runtime::Fail(std::string_view message) {
  SetStatus("invalid_value", std::string(message));
  return Value();
}

Value Runtime::FailType(std::string_view what, const Value& value) {
  if (const std::string* name = value.undefined_name()) {
    return Fail("'" + std::string(Shorten(*name, 64)) + "' is undefined; cannot " +
                std::string(what) + " it");
  }
  return Fail("cannot " + std::string(what) + " " + std::string(KindName(value)));
}

Value Runtime::FailDepth() {
  SetStatus("template_depth", "nested deeper than " + std::to_string(Value::kMaxDepth));
  return Value();
}

Value Runtime::FailRange() {
  SetStatus("template_step_limit",
            "range of more than " + std::to_string(limits_.range_items) + " items");
  return Value();
}

Value Runtime::FailOutput(std::string_view what) {
  SetStatus("template_output",
            std::string(what) + " larger than the limit of " +
                std::to_string(what == "output" ? limits_.output_bytes : limits_.live_bytes) +
                " bytes");
  return Value();
}

Value Runtime::FailRaised(const Text& message) {
  constexpr size_t kTemplateBytes = 256;
  constexpr size_t kClientBytes = 64;
  std::string kept;
  size_t from_template = 0;
  size_t from_client = 0;
  size_t at = 0;
  for (const Text::Run& run : message.Runs()) {
    const bool client = run.origin != Origin::kTemplate;
    size_t& used = client ? from_client : from_template;
    const size_t room = (client ? kClientBytes : kTemplateBytes) - used;
    const std::string_view part =
        Shorten(std::string_view(message.bytes()).substr(at, run.end - at), room);
    kept += part;
    used += part.size();
    at = run.end;
  }
  return Fail(kept);
}

Value Runtime::NewString(Text text) {
  if (!Spend(1 + text.size() / kBytesPerStep)) return Value();
  const size_t bytes = sizeof(StringRep) + text.HeapBytes();
  if (!meter_.Reserve(bytes)) return FailOutput("values");
  auto rep = std::make_shared<StringRep>();
  rep->Charge(&meter_, bytes);
  rep->text = std::move(text);
  return Value::Of(std::shared_ptr<const StringRep>(std::move(rep)));
}

Value Runtime::NewList(std::vector<Value> items, bool tuple) {
  if (!Spend(1 + items.size() / 4)) return Value();
  const size_t bytes = sizeof(ListRep) + items.capacity() * sizeof(Value);
  if (!meter_.Reserve(bytes)) return FailOutput("values");
  auto rep = std::make_shared<ListRep>();
  rep->Charge(&meter_, bytes);
  rep->tuple = tuple;
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  if (deepest >= Value::kMaxDepth) return FailDepth();
  rep->depth = deepest + 1;
  rep->items = std::move(items);
  return Value::Of(std::shared_ptr<const ListRep>(std::move(rep)));
}

Value Runtime::NewDict(std::vector<DictRep::Item> items) {
  if (!Spend(1 + items.size())) return Value();
  for (const DictRep::Item& item : items) {
    if (!Hashable(item.first)) return FailType("use as a key", item.first);
    if (item.second.depth() >= Value::kMaxDepth) return FailDepth();
  }
  const size_t bytes =
      sizeof(DictRep) + items.capacity() * (sizeof(DictRep::Item) + sizeof(uint32_t));
  if (!meter_.Reserve(bytes)) return FailOutput("values");
  auto rep = std::make_shared<DictRep>();
  rep->Charge(&meter_, bytes);
  rep->items = std::move(items);
  rep->Index();
  return Value::Of(std::shared_ptr<const DictRep>(std::move(rep)));
}

}  // namespace tutti::tokenizer::jinja
