#include "base/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "temp_folder.h"

namespace tutti {
namespace {

using Kept = NewFile::Kept;
using Meanwhile = NewFile::Meanwhile;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// A system call that the kernel does not carry out: it gives `error` instead.
struct Refusal {
  long call;
  int error;
  long unless_first = -1;  // but where its first argument is this one
};

void Refuse(const std::vector<Refusal>& refusals) {
  std::vector<sock_filter> program;
  const auto load = [&](size_t offset) {
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  };
  for (const Refusal& refusal : refusals) {
    load(offsetof(seccomp_data, nr));
    program.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(refusal.call), 0, 3));
    load(offsetof(seccomp_data, args));  // its low half: both machines are little-endian
    program.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(refusal.unless_first), 1, 0));
    program.push_back(
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(refusal.error)));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    _exit(99);
}

// Returns the result of `run` in a child process, in which system calls may be refused or which may
// end at any point.
int InAChild(const std::function<int()>& run) {
  const pid_t child = fork();
  if (child == 0) _exit(run());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class NewFileTest : public ::testing::Test {
 protected:
  std::string Path() const { return folder_.File("out"); }
  std::optional<NewFile> Make(Meanwhile meanwhile = Meanwhile::kNameless) const {
    return NewFile::Create(Path() + ".mine.part", meanwhile, 0600);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename().string());
    return names;
  }
  static std::span<const std::byte> Bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
  }
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  support::TempFolder folder_;
};

TEST_F(NewFileTest, AppearsWholeWhenItIsKept) {
  for (const Meanwhile meanwhile : {Meanwhile::kNameless, Meanwhile::kNamed}) {
    {
      auto file = Make(meanwhile);
      ASSERT_TRUE(file.has_value());
      ASSERT_TRUE(file->Append(Bytes("abc")));
      EXPECT_FALSE(std::filesystem::exists(Path()));
      ASSERT_TRUE(file->Append(Bytes("def")));
      EXPECT_EQ(file->bytes(), 6u);
      EXPECT_EQ(file->KeepAs(Path(), false), Kept::kYes);
    }
    EXPECT_EQ(TextOf(Path()), "abcdef");
    EXPECT_THAT(Names(), ElementsAre("out"));
    std::filesystem::remove(Path());
  }
}

TEST_F(NewFileTest, WhatWasNotKeptIsGone) {
  for (const Meanwhile meanwhile : {Meanwhile::kNameless, Meanwhile::kNamed}) {
    auto file = Make(meanwhile);
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->Append(Bytes("abc")));
    const NewFile moved = *std::move(file);
    file.reset();
    EXPECT_EQ(Names().size(), meanwhile == Meanwhile::kNamed ? 1u : 0u);
  }
  EXPECT_TRUE(Names().empty());
  EXPECT_FALSE(NewFile::Create(folder_.File("none/out"), Meanwhile::kNameless, 0600).has_value());
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(NewFileTest, ReplacesOnlyWhereItMay) {
  for (const Meanwhile meanwhile : {Meanwhile::kNameless, Meanwhile::kNamed}) {
    std::ofstream(Path()) << "old";
    {
      auto file = Make(meanwhile);
      ASSERT_TRUE(file.has_value() && file->Append(Bytes("new")));
      EXPECT_EQ(file->KeepAs(Path(), false), Kept::kNot);
      EXPECT_EQ(errno, EEXIST);
    }
    EXPECT_EQ(TextOf(Path()), "old");
    {
      auto file = Make(meanwhile);
      ASSERT_TRUE(file.has_value() && file->Append(Bytes("new")));
      EXPECT_EQ(file->KeepAs(Path(), true), Kept::kYes);
    }
    EXPECT_EQ(TextOf(Path()), "new");
    EXPECT_THAT(Names(), ElementsAre("out"));
  }
}

// On FAT, there are neither files without a name nor second names. Other file systems also lack
// renames that never replace a file.
TEST_F(NewFileTest, FileSystemsThatLackLinksOrRenamesAreServedAlike) {
  const std::vector<Refusal> no_links = {
#ifdef SYS_link
      {SYS_link, EPERM},
#endif
      {SYS_linkat, EPERM}};
  std::vector<Refusal> neither = no_links;
  neither.push_back({SYS_renameat2, EINVAL});
  const std::vector<Refusal> old_kernel = {{SYS_renameat2, ENOSYS}};
  for (const auto& refusals : {no_links, neither, old_kernel}) {
    EXPECT_EQ(InAChild([&] {
                Refuse(refusals);
                auto file = Make(Meanwhile::kNamed);
                if (!file || !file->Append(Bytes("abc"))) return 1;
                return file->KeepAs(Path(), false) == Kept::kYes ? 0 : 2;
              }),
              0);
    EXPECT_EQ(TextOf(Path()), "abc");
    EXPECT_EQ(InAChild([&] {
                Refuse(refusals);
                auto file = Make(Meanwhile::kNamed);
                if (!file || !file->Append(Bytes("others"))) return 1;
                if (file->KeepAs(Path(), false) != Kept::kNot || errno != EEXIST) return 2;
                file.reset();
                return 0;
              }),
              0);
    EXPECT_EQ(TextOf(Path()), "abc");
    EXPECT_THAT(Names(), ElementsAre("out"));
    std::filesystem::remove(Path());
  }
}

TEST_F(NewFileTest, ANameThatIsNotOnTheDiskIsTold) {
  EXPECT_EQ(InAChild([&] {
              auto file = Make();
              if (!file || !file->Append(Bytes("abc"))) return 1;
              Refuse({{SYS_fsync, EIO, file->descriptor()}});  // of the folder
              return file->KeepAs(Path(), false) == Kept::kNotFlushed && errno == EIO ? 0 : 2;
            }),
            0);
  EXPECT_EQ(TextOf(Path()), "abc");
  std::filesystem::remove(Path());
  EXPECT_EQ(InAChild([&] {
              auto file = Make();
              if (!file || !file->Append(Bytes("abc"))) return 1;
              Refuse({{SYS_fsync, EIO}});
              const bool told = file->KeepAs(Path(), false) == Kept::kNot && errno == EIO;
              file.reset();
              return told ? 0 : 2;
            }),
            0);
  EXPECT_TRUE(Names().empty());
}

TEST_F(NewFileTest, ADiskThatIsFullIsTold) {
  EXPECT_EQ(InAChild([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit little{1000, 1000};
              if (setrlimit(RLIMIT_FSIZE, &little) != 0) return 1;
              auto file = Make(Meanwhile::kNamed);
              if (!file || file->Append(Bytes(std::string(4000, 'x'))) || errno != EFBIG) return 2;
              file.reset();
              return 0;
            }),
            0);
  EXPECT_TRUE(Names().empty());
}

TEST_F(NewFileTest, WhatAKilledProcessLeftIsRemovedAndWhatIsBeingWrittenStays) {
  EXPECT_EQ(InAChild([&] {
              auto file = NewFile::Create(Path() + ".killed.part", Meanwhile::kNamed, 0600);
              if (!file || !file->Append(Bytes("half"))) return 1;
              _exit(7);
            }),
            7);
  auto alive = Make(Meanwhile::kNamed);
  ASSERT_TRUE(alive.has_value());
  std::ofstream(folder_.File("out.parts")) << "a user's";
  EXPECT_THAT(Names(), UnorderedElementsAre("out.killed.part", "out.mine.part", "out.parts"));
  RemoveAbandoned(folder_.path(), "out.", ".part");
  EXPECT_THAT(Names(), UnorderedElementsAre("out.mine.part", "out.parts"));
  RemoveAbandoned(folder_.File("none"), "out.", ".part");
}

}  // namespace
}  // namespace tutti
