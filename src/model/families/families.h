// The supported families: each is defined in a file of its own, and registry.cc lists them.
#pragma once

#include "model/families/family.h"

namespace tutti::model {

extern const Family kLlama, kMistral, kMixtral;
extern const Family kQwen2, kQwen3, kQwen3Moe;
extern const Family kGranite;
extern const Family kOlmo2;
extern const Family kPhi3;
extern const Family kGemma2, kGemma3;

}  // namespace tutti::model
