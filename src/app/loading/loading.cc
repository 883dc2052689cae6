#include "app/loading/loading.h"

#include <unistd.h>

#include <cstdio>
#include <set>
#include <string>
#include <utility>

#include "base/quote.h"
#include "base/threads.h"

namespace tutti::app {
namespace {

// One line that is rewritten on a terminal, and every quarter elsewhere.
class ProgressLine {
 public:
  void Show(size_t done, size_t total) {
    const int percent = total == 0 ? 100 : static_cast<int>(done * 100 / total);
    if (percent == shown_ || (!terminal_ && percent < shown_ + 25 && percent < 100)) return;
    shown_ = percent;
    std::fprintf(stderr, terminal_ ? "\rpacking weights: %3d %%" : "packing weights: %3d %%\n",
                 percent);
    if (terminal_ && percent == 100) std::fputc('\n', stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  int shown_ = -1;
};

void PrintNotice(const std::string& notice) {
  if (!notice.empty()) std::fprintf(stderr, "tutti: %s\n", Printable(notice).c_str());
}

}  // namespace

Status CheckModelNames(const std::vector<ModelRef>& models) {
  std::set<std::string> names;
  for (const ModelRef& model : models) {
    if (names.insert(model.served_name).second) continue;
    return InvalidArgument("invalid_value", "two models would be called " + model.served_name +
                                                "; give one another name: NAME=MODEL");
  }
  return OkStatus();
}

Result<std::vector<OpenedModel>> OpenAll(const LocalInference& inference,
                                         const std::vector<ModelRef>& models) {
  std::vector<OpenedModel> opened;
  for (const ModelRef& model : models) {
    ASSIGN_OR_RETURN(OpenedModel one, inference.Open(model));
    PrintNotice(one.notice());
    opened.push_back(std::move(one));
  }
  PrintNotice(inference.notice());
  return opened;
}

Result<OpenedModel> OpenOne(const LocalInference& inference, const ModelRef& ref, bool fuse) {
  ASSIGN_OR_RETURN(OpenedModel opened, inference.Open(ref, fuse));
  PrintNotice(opened.notice());
  PrintNotice(inference.notice());
  return opened;
}

Loading::Loading(LocalInference& inference, const std::vector<ModelRef>& models,
                 std::vector<OpenedModel> opened, Events events)
    : inference_(inference),
      models_(models),
      opened_(std::move(opened)),
      events_(std::move(events)) {
  thread_ = std::thread([this] { Main(); });
}

Loading::~Loading() {
  Abandon();
  (void)Wait();
}

Status Loading::Wait() {
  if (thread_.joinable()) thread_.join();
  return status_;
}

void Loading::Main() {
  NameThread("tutti-loader");
  for (size_t i = 0; i < models_.size() && !abandoned(); ++i) {
    Status status = LoadOne(std::move(opened_[i]));
    if (abandoned()) return;
    if (status.ok()) status = events_.served(models_[i]);
    if (!status.ok()) return Fail(std::move(status));
  }
  if (abandoned()) return;
  if (Status status = events_.all_served(); !status.ok()) Fail(std::move(status));
}

Status Loading::LoadOne(OpenedModel model) {
  ProgressLine progress;
  return inference_.Load(std::move(model), [&](size_t done, size_t total) {
    progress.Show(done, total);
    return !abandoned();
  });
}

void Loading::Fail(Status why) {
  inference_.LoadFailed(why);
  status_ = std::move(why);
  failed_.store(true, std::memory_order_release);
}

}  // namespace tutti::app
