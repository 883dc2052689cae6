// Bodies of POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/adapter_control.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

struct AdapterCall {
  api::AdapterRequest request;       // of an unload its name alone
  std::vector<std::string> ignored;  // names of unknown fields
};

// {"lora_name", "lora_path", "base_model_name", "load_inplace", "scale"}; the first two are
// required. Errors: missing_required_parameter, invalid_value, unknown_parameter.
Result<AdapterCall> ParseLoadAdapter(const Json& body, const ParseOptions& options);
// {"lora_name", "lora_int_id"}; the second has no effect.
Result<AdapterCall> ParseUnloadAdapter(const Json& body, const ParseOptions& options);

// The texts that vLLM answers with.
std::string AdapterLoadedText(std::string_view name);
std::string AdapterUnloadedText(std::string_view name);

}  // namespace tutti::protocol
