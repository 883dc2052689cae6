#include <set>

#include "model/families/families.h"

namespace tutti::model {
namespace {

// If several families share an architecture, a GGUF of it belongs to the first one here.
constexpr const Family* kFamilies[] = {&kLlama, &kMistral,  &kMixtral, &kQwen2,
                                       &kQwen3, &kQwen3Moe, &kGranite, &kOlmo2,
                                       &kPhi3,  &kGemma2,   &kGemma3};

std::string ListOf(std::string_view Family::*name) {
  std::set<std::string_view> names;
  for (const Family* family : kFamilies) names.insert(family->*name);
  std::string list;
  for (const std::string_view each : names) list.append(list.empty() ? "" : ", ").append(each);
  return list;
}

}  // namespace

const Family* FamilyOfArchitecture(std::string_view architecture) {
  for (const Family* family : kFamilies)
    if (family->architecture == architecture) return family;
  return nullptr;
}

const Family* FamilyOfModelType(std::string_view model_type) {
  for (const Family* family : kFamilies)
    if (family->model_type == model_type) return family;
  return nullptr;
}

std::string KnownArchitectures() { return ListOf(&Family::architecture); }
std::string KnownModelTypes() { return ListOf(&Family::model_type); }

}  // namespace tutti::model
