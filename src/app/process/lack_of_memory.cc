#include "app/process/lack_of_memory.h"

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <typeinfo>

namespace tutti::app {
namespace {

constexpr char kLine[] =
    "tutti: out_of_memory: the system gives this process no more memory (`ulimit -v`, the limit of "
    "its control group)\n";

std::terminate_handler report = nullptr;  // of the run-time library
std::atomic<bool> by_signal{false};

[[noreturn]] void End() {
  const std::type_info* thrown = abi::__cxa_current_exception_type();
  if (thrown == nullptr || *thrown != typeid(std::bad_alloc)) {
    report();
    std::abort();
  }
  static std::atomic_flag told;
  while (told.test_and_set()) pause();  // another thread is about to end them all
  ReportLackOfMemory();
  if (by_signal.load()) std::abort();
  _exit(1);
}

}  // namespace

void EndInOneLineWithoutMemory() { report = std::set_terminate(End); }

void EndBySignalWithoutMemory() { by_signal.store(true); }

void ReportLackOfMemory() { (void)!write(STDERR_FILENO, kLine, sizeof kLine - 1); }

}  // namespace tutti::app
