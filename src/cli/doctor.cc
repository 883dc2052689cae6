// `tutti doctor` and `tutti version`: what this machine is and what this program makes of it.
#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "app/loading/model_registry.h"
#include "app/process/memory.h"
#include "app/version.h"
#include "base/threads.h"
#include "cli/command_line.h"
#include "client/http_client.h"
#include "kernels/kernels.h"
#include "kernels/machine_limits.h"
#include "protocol/json/json.h"

namespace tutti::cli {
namespace {

class DoctorCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("doctor", "Measure this machine and show what Tutti picks");
    app_->footer(
        "Measures for a fraction of a second; the figures are limits that benches are compared "
        "with.\n"
        "With --live only a server is asked whether it lives: exit code 0, else 1 and a line that "
        "says why.\n"
        "Examples:\n  tutti doctor --json\n"
        "  tutti doctor --live\n"
        "  tutti doctor --live http://127.0.0.1:9000");
    app_->add_flag("--json", json_, "one JSON object");
    app_->add_option("--live", url_,
                     "ask a server's /livez (default: http://127.0.0.1:8080), for health checks")
        ->expected(0, 1)
        ->type_name("URL");
  }

  int Run() override {
    if (app_->count("--live") > 0) {
      const Status alive = AskServer();
      return alive.ok() ? kExitOk : Fail(alive);
    }
    const auto picked = kernels::SelectKernels();
    if (!picked.ok()) return Fail(picked.status());
    const int cores = UsableCores();
    const kernels::MachineLimits limits = kernels::MeasureMachineLimits((*picked)->isa, cores);
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    boost::json::array isas;
    std::string isa_text;
    for (const kernels::Isa isa : kernels::DetectIsas()) {
      const std::string name(kernels::IsaName(isa));
      isas.push_back(boost::json::value(name));
      isa_text += " " + name;
    }
    const Result<app::ModelRef> model = app::ResolveModel("");
    if (json_) {
      const boost::json::object out{{"schema", "tutti.doctor.v1"},
                                    {"version", app::kVersion},
                                    {"isas", std::move(isas)},
                                    {"picked", kernels::IsaName((*picked)->isa)},
                                    {"cores", cores},
                                    {"read_gb_s", limits.read_bytes_per_s / 1e9},
                                    {"int8_gops", limits.int8_ops_per_s / 1e9},
                                    {"f32_gflops", limits.float32_ops_per_s / 1e9},
                                    {"bf16_gflops", limits.bf16_ops_per_s / 1e9},
                                    {"available_memory_bytes", app::AvailableMemory()},
                                    {"open_files_limit", files.rlim_cur},
                                    {"default_model", model.ok() ? model->path : ""}};
      std::printf("%s\n", protocol::PrintJson(out).c_str());
      return kExitOk;
    }
    fmt::print("tutti {}\n", app::kVersion);
    fmt::print("instruction sets    {}\n", isa_text.substr(1));
    fmt::print("kernels picked      {}\n", kernels::IsaName((*picked)->isa));
    fmt::print("usable cores        {}\n", cores);
    fmt::print("memory read         {:.1f} GB/s\n", limits.read_bytes_per_s / 1e9);
    fmt::print("int8 peak           {:.0f} GOPS\n", limits.int8_ops_per_s / 1e9);
    fmt::print("float32 peak        {:.0f} GFLOPS\n", limits.float32_ops_per_s / 1e9);
    if (limits.bf16_ops_per_s > 0)
      fmt::print("bfloat16 peak       {:.0f} GFLOPS\n", limits.bf16_ops_per_s / 1e9);
    fmt::print("available memory    {:.1f} GiB\n",
               static_cast<double>(app::AvailableMemory()) / (1 << 30));
    fmt::print("open files          {}\n", files.rlim_cur);
    fmt::print("default model       {}\n", model.ok() ? model->path : model.status().message());
    return kExitOk;
  }

 private:
  // Whether the server answers 200 within five seconds.
  Status AskServer() const {
    const Result<client::Server> server =
        client::ParseServer(url_.empty() ? "http://127.0.0.1:8080" : url_);
    if (!server.ok()) {
      std::string why = server.status().message();
      if (why.starts_with("--url")) why.replace(0, 5, "--live");
      return BadValue("live", std::move(why));
    }
    return client::Get(*server, "/livez", "", std::chrono::seconds(5)).status();
  }

  bool json_ = false;
  std::string url_;
};

class VersionCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("version", "Print the version");
  }
  int Run() override {
    std::printf("tutti %s\n", app::kVersion);
    return kExitOk;
  }
};

}  // namespace

std::unique_ptr<Command> MakeDoctorCommand() { return std::make_unique<DoctorCommand>(); }
std::unique_ptr<Command> MakeVersionCommand() { return std::make_unique<VersionCommand>(); }

}  // namespace tutti::cli
