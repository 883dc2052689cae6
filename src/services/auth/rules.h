// Access rules that routes of several servers share: a caller needs one of these scopes.
#pragma once

#include "services/auth/scopes.h"

namespace tutti::auth::rules {

inline constexpr RouteClasses kAnybody = {RouteClass::kPublic}, kGenerate = {RouteClass::kGenerate},
                              kEmbed = {RouteClass::kEmbed}, kTokenize = {RouteClass::kTokenize},
                              kModels = {RouteClass::kModels}, kMetrics = {RouteClass::kMetrics};
// Routes that change the server. On an open server only clients on this machine may use them
// (MayUse).
inline constexpr RouteClasses kOperate = {RouteClass::kAdmin};
// Routes on which the model decides between generating and encoding.
inline constexpr RouteClasses kWork = {RouteClass::kGenerate, RouteClass::kEmbed};
// Routes that are not offered: every authenticated caller gets the error that explains this.
inline constexpr RouteClasses kKnown = {RouteClass::kGenerate, RouteClass::kEmbed,
                                        RouteClass::kTokenize, RouteClass::kModels,
                                        RouteClass::kMetrics,  RouteClass::kAdmin};

}  // namespace tutti::auth::rules
