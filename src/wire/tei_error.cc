#include "wire/tei_error.h"

namespace tutti::wire {
namespace {

// A body that is no JSON at all is a bad request there, before any of the words.
bool IsNoJson(std::string_view code) {
  return code == "invalid_json" || code == "invalid_utf8" || code == "json_depth" ||
         code == "duplicate_key";
}

bool IsBusy(std::string_view code) {
  return code == "overloaded" || code == "queue_full" || code == "kv_exhausted";
}

}  // namespace

TeiError TeiErrorOf(const ErrorView& view) {
  if (view.http == 429 || IsBusy(view.code)) return {429, "Overloaded"};
  if (view.http == 503) return {503, "Unhealthy"};
  if (view.http == 504) return {504, "Overloaded"};
  if (view.ours) return {424, "Backend"};
  if (view.http != 400) return {view.http, "Validation"};
  if (view.code == "empty_prompt") return {400, "Empty"};
  // A request of another server's: no status of TEI's is the right one.
  if (view.code == "unsupported_parameter") return {400, "Validation"};
  if (IsNoJson(view.code)) return {400, "Validation"};
  if (view.code == "token_out_of_range") return {422, "Tokenizer"};
  // The model that is asked does not do this.
  if (view.code == "invalid_value" && view.param == "model") return {424, "Backend"};
  return {422, "Validation"};
}

}  // namespace tutti::wire
