// Paths of files that tests need: files of the source tree and the default model. The one place
// that reads the environment variables for them; for tests and benchmarks only.
//
// Any thread. Nothing here looks whether a file is there: a test that cannot open it fails, it does
// not skip (`make models` fetches the model).
#pragma once

#include <string>

namespace tutti::support {

// `relative` below TUTTI_SOURCE_DIR, which ctest sets, else below the current folder.
std::string SourcePath(const std::string& relative);

// TUTTI_TEST_MODEL, else the default model in TUTTI_CACHE or ~/.cache/tutti. tests/support/
// test_paths.py is the same for Python.
std::string DefaultModelPath();

// The folder of a known model that is one, in the same cache.
std::string KnownModelPath(const std::string& name);

}  // namespace tutti::support
