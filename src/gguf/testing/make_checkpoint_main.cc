// make_checkpoint OUT.gguf [TYPE [SEED [tied|separate [none|linear|llama3]]]]
//
// Writes a generated checkpoint to disk, for comparing with outside programs by hand.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "gguf/testing/checkpoint.h"

int main(int argc, char** argv) {
  using namespace tutti::gguf::testing;  // NOLINT: a main of thirty lines
  CheckpointSpec spec;
  const auto argument = [&](int i) { return std::string(i < argc ? argv[i] : ""); };
  if (argc > 2) {
    const auto& types = tutti::tensor::kReadableTypes;
    const auto* const type = std::find_if(std::begin(types), std::end(types), [&](auto each) {
      return tutti::tensor::Name(each) == argument(2);
    });
    if (type == std::end(types)) {
      std::fprintf(stderr, "make_checkpoint: unknown type %s\n", argv[2]);
      return 2;
    }
    spec.type = *type;
  }
  if (argc > 3) spec.seed = std::strtoull(argv[3], nullptr, 10);
  spec.tied = argument(4) != "separate";
  if (argument(5) == "linear") spec.rope = RopeScaling::kLinear;
  if (argument(5) == "llama3") spec.rope = RopeScaling::kLlama3;
  const Bytes bytes = MakeCheckpoint(spec).Build();
  std::ofstream out(argument(1), std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  out.close();
  if (!out) {
    std::fprintf(stderr, "make_checkpoint: cannot write %s\n", argument(1).c_str());
    return 1;
  }
  return 0;
}
