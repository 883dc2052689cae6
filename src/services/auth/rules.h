// The rules that routes of every door have: who may ask has one of these scopes.
#pragma once

#include "services/auth/scopes.h"

namespace tutti::auth::rules {

inline constexpr RouteClasses kAnybody = {RouteClass::kPublic}, kGenerate = {RouteClass::kGenerate},
                              kEmbed = {RouteClass::kEmbed}, kTokenize = {RouteClass::kTokenize},
                              kModels = {RouteClass::kModels}, kMetrics = {RouteClass::kMetrics};
// What changes the server. Where nobody is known, whoever is on this machine may (MayUse).
inline constexpr RouteClasses kOperate = {RouteClass::kAdmin};
// Where the model decides what is done.
inline constexpr RouteClasses kWork = {RouteClass::kGenerate, RouteClass::kEmbed};
// What is not offered is told to all whom the server knows.
inline constexpr RouteClasses kKnown = {RouteClass::kGenerate, RouteClass::kEmbed,
                                        RouteClass::kTokenize, RouteClass::kModels,
                                        RouteClass::kMetrics,  RouteClass::kAdmin};

}  // namespace tutti::auth::rules
