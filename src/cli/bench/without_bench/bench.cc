// In place of ../bench.cc in builds without the benches.
#include <memory>

#include "cli/command_line.h"

namespace tutti::cli {
namespace {

class NoBenchCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("bench", "Not in this build (TUTTI_BENCH=OFF)");
    app_->prefix_command();
  }

  int Run() override {
    return Fail(InvalidArgument("not_built",
                                "this program was built without `tutti bench` (TUTTI_BENCH=OFF); "
                                "`make build` makes one with it"));
  }
};

}  // namespace

std::unique_ptr<Command> MakeBenchCommand() { return std::make_unique<NoBenchCommand>(); }

}  // namespace tutti::cli
