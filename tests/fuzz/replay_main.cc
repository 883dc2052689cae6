// Runs a fuzz target over files, without libFuzzer: replay_main FILE-OR-FOLDER...
//
// Each file is run whole and cut short (at every byte up to 256 bytes, then at 256 places): most
// parsers fail at the ends of their input. A failed CHECK or a signal ends the process, after the
// name of the file was printed.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kCuts = 256;

// Copies, so that a sanitizer sees every read beyond the end.
void RunOne(const std::vector<uint8_t>& bytes, size_t size) {
  const std::vector<uint8_t> exact(bytes.begin(),
                                   bytes.begin() + static_cast<std::ptrdiff_t>(size));
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::vector<std::filesystem::path> FilesOf(int count, char** paths) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(paths[i])) {
      files.emplace_back(paths[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(paths[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  size_t runs = 0;
  size_t files_run = 0;
  double slowest_s = 0;
  std::string slowest;
  for (const std::filesystem::path& path : FilesOf(argc, argv)) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::printf("cannot read %s\n", path.c_str());
      return 1;
    }
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    const auto start = std::chrono::steady_clock::now();
    RunOne(bytes, bytes.size());
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (seconds > slowest_s) {
      slowest_s = seconds;
      slowest = path.filename().string();
    }
    const size_t step = std::max<size_t>(1, bytes.size() / kCuts);
    for (size_t size = 0; size < bytes.size(); size += step, ++runs) RunOne(bytes, size);
    ++runs;
    ++files_run;
  }
  std::printf("%zu files, %zu inputs; slowest %.3f s (%s)\n", files_run, runs, slowest_s,
              slowest.c_str());
  return files_run > 0 ? 0 : 1;
}
