// The C++ interface of Tutti; tutti/c_api.h is the one for C.
#pragma once

#include "tutti/batch.h"      // IWYU pragma: export
#include "tutti/encoder.h"    // IWYU pragma: export
#include "tutti/error.h"      // IWYU pragma: export
#include "tutti/generator.h"  // IWYU pragma: export
#include "tutti/handler.h"    // IWYU pragma: export
#include "tutti/job.h"        // IWYU pragma: export
#include "tutti/model.h"      // IWYU pragma: export
#include "tutti/step.h"       // IWYU pragma: export
#include "tutti/types.h"      // IWYU pragma: export
