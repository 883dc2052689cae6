// Files that can or cannot be opened and read (row G13), and files that change while they are open
// (row G12).
#include "files/source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "files/open.h"
#include "temp_folder.h"

namespace tutti::files {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kTruncated = "gguf_truncated";
constexpr std::string_view kText = "0123456789";

std::string CodeOf(const std::string& path, const std::string& root = "") {
  const auto source = OpenSource(path, root, kTruncated);
  return source.ok() ? "ok" : source.status().reason();
}

void Write(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

class Paths : public ::testing::Test {
 protected:
  Paths() {
    for (const char* place :
         {"model.gguf", "root/model.gguf", "root/deep/model.gguf", "outside/model.gguf"}) {
      Write(Path(place), kText);
    }
  }
  std::string Path(const std::string& name) const { return folder_.File(name); }
  void Link(const std::string& target, const std::string& name) const {
    std::filesystem::create_symlink(target, Path(name));
  }
  const support::TempFolder folder_;
};

TEST_F(Paths, OnlyReadableRegularFilesAreOpened) {
  EXPECT_EQ(CodeOf(Path("model.gguf")), "ok");
  EXPECT_EQ(CodeOf(Path("nothing.gguf")), "model_not_found");
  EXPECT_EQ(CodeOf(Path("model.gguf/below")), "model_not_found");
  EXPECT_EQ(CodeOf(Path("root")), "model_path");
  EXPECT_EQ(CodeOf("/dev/zero"), "model_path");
  EXPECT_EQ(CodeOf("/dev/null"), "model_path");
  EXPECT_EQ(CodeOf(""), "model_path");
  EXPECT_EQ(CodeOf(Path("model.gguf") + std::string("\0x", 2)), "model_path");
  EXPECT_EQ(CodeOf(std::string(5000, 'a')), "model_path");
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(CodeOf(Path("fifo")), "model_path") << "and it did not wait for a writer";
  Link("loop", "loop");
  EXPECT_EQ(CodeOf(Path("loop")), "model_path");
}

TEST_F(Paths, AnUnreadableFileIsRefused) {
  std::filesystem::permissions(Path("model.gguf"), std::filesystem::perms::none);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  const pid_t child = fork();  // the child drops root, because root may read every file
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(3);
    _exit(CodeOf(Path("model.gguf")) == "model_path" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(Paths, NothingOutsideTheRootIsReached) {
  const std::string root = Path("root");
  Link("../outside/model.gguf", "root/link.gguf");
  Link("../outside", "root/folder");
  Link(Path("outside/model.gguf"), "root/absolute.gguf");
  const Folder folder = Folder::Open("root", folder_.path()).value();
  const Descriptor opened = OpenRoot(root).value();
  using Open = std::function<Result<std::shared_ptr<const Source>>(const std::string&)>;
  const Open ways[] = {[&](const std::string& path) { return OpenSource(path, root, kTruncated); },
                       [&](const std::string& path) { return folder.OpenSource(path, kTruncated); },
                       [&](const std::string& path) {
                         return OpenRegular(opened.get(), path, OpenBeneathByHand, kTruncated);
                       }};
  for (const Open& open : ways) {
    const auto code = [&](const std::string& path) {
      const auto source = open(path);
      return source.ok() ? "ok" : source.status().reason();
    };
    EXPECT_EQ(code("model.gguf"), "ok");
    EXPECT_EQ(code("deep/model.gguf"), "ok");
    for (const std::string& path :
         {std::string("../outside/model.gguf"), std::string("deep/../../outside/model.gguf"),
          Path("outside/model.gguf"), std::string("link.gguf"), std::string("folder/model.gguf"),
          std::string("absolute.gguf")}) {
      EXPECT_EQ(code(path), "model_path") << path;
      EXPECT_THAT(open(path).status().message(), HasSubstr("leaves the model folder")) << path;
    }
    EXPECT_EQ(code("deep"), "model_path");
    EXPECT_EQ(code("nothing.gguf"), "model_not_found");
    EXPECT_EQ(code("deep/nothing/model.gguf"), "model_not_found");
    EXPECT_EQ(code(""), "model_path");
  }
  EXPECT_EQ(CodeOf("deep/model.gguf", root), "ok");
  EXPECT_EQ(CodeOf("model.gguf", Path("absent root")), "model_not_found");
}

TEST_F(Paths, RefusalsSayWhatTheFileIs) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  Path("socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
  const auto message = [](const std::string& path) {
    return OpenSource(path, "", kTruncated).status().message();
  };
  EXPECT_THAT(message(Path("root")), HasSubstr("a directory"));
  EXPECT_THAT(message(Path("fifo")), HasSubstr("a FIFO"));
  EXPECT_THAT(message(Path("socket")), HasSubstr("a socket"));
  EXPECT_THAT(message("/dev/zero"), HasSubstr("a device"));
}

TEST_F(Paths, AFolderIsADirectoryBeneathItsRoot) {
  const auto code = [](const std::string& path, const std::string& root = "") {
    const auto folder = Folder::Open(path, root);
    return folder.ok() ? "ok" : folder.status().reason();
  };
  Link("../outside", "root/out");
  Link("deep", "root/in");
  ASSERT_EQ(mkfifo(Path("root/fifo").c_str(), 0600), 0);
  EXPECT_EQ(code(Path("root")), "ok");
  EXPECT_EQ(code("deep", Path("root")), "ok");
  EXPECT_EQ(code("in", Path("root")), "ok") << "a link that stays inside";
  EXPECT_EQ(code("out", Path("root")), "model_path");
  EXPECT_EQ(code("../outside", Path("root")), "model_path");
  EXPECT_EQ(code(Path("outside"), Path("root")), "model_path");
  EXPECT_EQ(code("model.gguf", Path("root")), "model_path");
  EXPECT_EQ(code(Path("model.gguf")), "model_path");
  EXPECT_EQ(code("fifo", Path("root")), "model_path");
  EXPECT_EQ(code("nothing", Path("root")), "model_not_found");
  EXPECT_EQ(code(Path("nothing")), "model_not_found");
  EXPECT_EQ(code(""), "model_path");
}

// A hub's cache, a ConfigMap, files that several models share.
TEST_F(Paths, ALinkToAFileThatIsGoneIsToldFromAFileThatWasNever) {
  std::filesystem::create_directories(Path("gone"));
  Link("../blobs/gone", "gone/model.safetensors");
  const Folder folder = Folder::Open(Path("gone")).value();
  const Status link = folder.OpenSource("model.safetensors", "st_truncated").status();
  EXPECT_EQ(link.reason(), "model_path");
  EXPECT_NE(link.message().find("a link to a file that is gone"), std::string::npos);
  EXPECT_EQ(folder.OpenSource("other", "st_truncated").status().reason(), "model_not_found");
}

TEST_F(Paths, LinksOfAModelsFolderAreFollowedWhereverTheyLead) {
  Write(Path("hub/models--a--b/blobs/c0ffee"), kText);
  const std::string snapshot = "hub/models--a--b/snapshots/abc/";
  std::filesystem::create_directories(Path(snapshot + "deep"));
  Link("../../blobs/c0ffee", snapshot + "config.json");
  Link("../../../blobs/c0ffee", snapshot + "deep/config.json");
  Link(Path("outside/model.gguf"), snapshot + "absolute");
  Link(Path("outside"), snapshot + "folder");
  Link("../../blobs/absent", snapshot + "unfinished");
  Link("loop", snapshot + "loop");
  Link("/dev/zero", snapshot + "device");
  Link(Path("hub/models--a--b/snapshots/abc"), "latest");
  for (const std::string& name : {snapshot, std::string("latest")}) {
    const Folder folder = Folder::Open(Path(name)).value();
    const auto code = [&](const std::string& path) {
      const auto source = folder.OpenSource(path, kTruncated);
      return source.ok() ? "ok" : source.status().reason();
    };
    for (const char* path : {"config.json", "deep/config.json", "absolute", "folder/model.gguf"})
      EXPECT_EQ(code(path), "ok") << path;
    EXPECT_EQ(code("unfinished"), "model_path");
    for (const char* path : {"loop", "device", "folder", ""}) EXPECT_EQ(code(path), "model_path");
    // Names that an index may hold.
    for (const std::string& path :
         {std::string("../abc/config.json"), std::string("deep/../config.json"), std::string(".."),
          Path("outside/model.gguf"), std::string("folder/../outside/model.gguf")})
      EXPECT_EQ(code(path), "model_path") << path;
  }
}

TEST_F(Paths, AFolderReplacedMeanwhileIsStillTheOneThatWasOpened) {
  Write(Path("root/second"), "old");
  const Folder folder = Folder::Open(Path("root")).value();
  std::filesystem::rename(Path("root"), Path("moved"));
  Write(Path("root/second"), "new and longer");
  EXPECT_EQ(folder.OpenSource("second", kTruncated).value()->size(), 3u);
}

TEST_F(Paths, BytesAreReadFromAnywhereInTheFile) {
  const auto file = OpenSource(Path("model.gguf"), "", kTruncated).value();
  const auto memory = MemorySource(std::as_bytes(std::span(kText)), kTruncated);
  for (const Source* source : {file.get(), memory.get()}) {
    EXPECT_EQ(source->size(), 10u);
    for (size_t from = 0; from <= 10; ++from) {
      for (size_t length = 0; from + length <= 10; ++length) {
        std::string text(length, '?');
        ASSERT_TRUE(source->ReadAt(from, std::as_writable_bytes(std::span(text))).ok());
        ASSERT_EQ(text, kText.substr(from, length));
      }
    }
    for (const uint64_t from : {uint64_t{10}, uint64_t{9}, uint64_t{1} << 63, ~uint64_t{0}}) {
      std::string text(2, '?');
      EXPECT_EQ(source->ReadAt(from, std::as_writable_bytes(std::span(text))).reason(),
                "gguf_truncated")
          << from;
    }
    EXPECT_EQ(ReadAll(*source, 10, "too_large").value(), kText);
    EXPECT_EQ(ReadAll(*source, 9, "too_large").status().reason(), "too_large");
    EXPECT_TRUE(source->CheckUnchanged().ok());
  }
}

TEST_F(Paths, AFileCutShortIsAStatusWithTheCodeOfItsFormat) {
  for (const char* code : {"gguf_truncated", "st_offsets"}) {
    Write(Path("model.gguf"), kText);
    const auto source = OpenSource(Path("model.gguf"), "", code).value();
    ASSERT_EQ(truncate(Path("model.gguf").c_str(), 4), 0);
    std::string text(10, '?');
    const Status read = source->ReadAt(0, std::as_writable_bytes(std::span(text)));
    EXPECT_EQ(read.reason(), code);
    EXPECT_EQ(read.message(),
              "the file ends at byte 4, 6 bytes are missing (it had 10 when it was opened)");
    EXPECT_EQ(source->CheckUnchanged().reason(), code);
    EXPECT_EQ(source->CheckUnchanged().message(),
              "the file changed while it was read (10 bytes then, 4 now)");
    EXPECT_EQ(ReadAll(*source, 100, "too_large").status().reason(), code);
    const auto memory = MemorySource(std::as_bytes(std::span(kText)), code);
    EXPECT_EQ(memory->ReadAt(5, std::as_writable_bytes(std::span(text))).reason(), code);
  }
}

TEST_F(Paths, AFileWrittenToIsNoticed) {
  const auto source = OpenSource(Path("model.gguf"), "", kTruncated).value();
  const timespec times[2] = {{1, 0}, {1, 0}};  // a write long enough ago to show in the times
  ASSERT_EQ(utimensat(AT_FDCWD, Path("model.gguf").c_str(), times, 0), 0);
  EXPECT_EQ(source->CheckUnchanged().reason(), "gguf_truncated");
}

}  // namespace
}  // namespace tutti::files
