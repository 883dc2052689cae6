#include "cli/line_reader.h"

#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

#include "cli/line_editor.h"
#include "cli/terminal_signals.h"

namespace tutti::cli {
namespace {

class PlainLines final : public LineReader {
 public:
  explicit PlainLines(std::string prompt) : prompt_(std::move(prompt)) {}

  bool Read(std::string& line) override {
    std::fputs(prompt_.c_str(), stdout);
    std::fflush(stdout);
    return static_cast<bool>(std::getline(std::cin, line));
  }

 private:
  const std::string prompt_;
};

// Typed text is taken as UTF-8 even where the locale says ASCII, as on bare machines.
void UseUtf8() {
  if (std::setlocale(LC_CTYPE, "") == nullptr ||
      std::string_view(nl_langinfo(CODESET)) != "UTF-8") {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
}

LineEditor::Window CurrentWindow() {
  winsize size{};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  return {size.ws_row == 0 ? 24 : size.ws_row, size.ws_col == 0 ? 80 : size.ws_col};
}

bool MoreIsTyped() {
  pollfd typed = {STDIN_FILENO, POLLIN, 0};
  return poll(&typed, 1, 0) > 0;
}

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

class EditedLines final : public LineReader {
 public:
  EditedLines(std::string prompt, std::unique_ptr<TerminalSignals> signals)
      : signals_(std::move(signals)), editor_(std::move(prompt)) {
    UseUtf8();
  }

  bool Read(std::string& line) override {
    signals_->Begin();
    // Changes the terminal before the prompt is shown, because a user who sees the prompt may type.
    const bool changed = ChangeTerminal();
    const bool got = changed && Edit(line);
    if (changed) RestoreTerminal();
    signals_->End();
    return got;
  }

 private:
  bool Edit(std::string& line) {
    editor_.Begin();
    Print(editor_.Draw(CurrentWindow()));
    while (true) {
      std::array<pollfd, 2> ready = {{{STDIN_FILENO, POLLIN, 0}, {signals_->fd(), POLLIN, 0}}};
      if (poll(ready.data(), ready.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return false;
      }
      LineEditor::Outcome outcome = LineEditor::Outcome::kEditing;
      if (ready[1].revents != 0) {
        signals_->Drain();
        if (ActOnSignals()) outcome = LineEditor::Outcome::kGivenUp;
      } else if (ready[0].revents != 0) {
        // Reads single bytes, so that input after this line is left for the next reader.
        char byte = 0;
        const ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) return false;
        outcome = editor_.Feed(byte);
      }
      switch (outcome) {
        case LineEditor::Outcome::kEditing:
          if (!MoreIsTyped()) Print(editor_.Draw(CurrentWindow()));
          break;
        case LineEditor::Outcome::kLine:
          Print(editor_.DrawDone(CurrentWindow(), ""));
          line = editor_.line();
          return true;
        case LineEditor::Outcome::kGivenUp:
          Print(editor_.DrawDone(CurrentWindow(), "^C"));
          editor_.Begin();
          Print(editor_.Draw(CurrentWindow()));
          break;
        case LineEditor::Outcome::kEnd:
          return false;
      }
    }
  }

  // Keys come one by one and unseen, Ctrl-C and Ctrl-S among them; Ctrl-Z and Ctrl-\ stay signals.
  bool ChangeTerminal() {
    if (tcgetattr(STDIN_FILENO, &before_) != 0) return false;
    editing_ = before_;
    editing_.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
    editing_.c_lflag |= ISIG;
    editing_.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | ISTRIP | IXON);
    editing_.c_cc[VINTR] = _POSIX_VDISABLE;
    editing_.c_cc[VMIN] = 1;
    editing_.c_cc[VTIME] = 0;
    signals_->PutBackAtEnd(before_);
    return SetTerminal(editing_);
  }
  void RestoreTerminal() {
    SetTerminal(before_);
    signals_->Leave();
  }
  static bool SetTerminal(const termios& modes) {
    // Keeps typed input, and waits until output is printed in the modes it was written for.
    while (tcsetattr(STDIN_FILENO, TCSADRAIN, &modes) != 0) {
      if (errno != EINTR) return false;
    }
    return true;
  }

  // True where the line is given up.
  bool ActOnSignals() {
    const bool stopped = signals_->Take(SIGTSTP);
    if (stopped) {
      RestoreTerminal();
      signals_->Act(SIGTSTP);
      ChangeTerminal();  // the shell may have made it another
    }
    if (signals_->Take(SIGCONT) || stopped) {  // others have used the terminal since
      SetTerminal(editing_);
      editor_.Forget();
    }
    signals_->Take(SIGWINCH);  // each drawing asks for the size
    return signals_->Take(SIGINT);
  }

  const std::unique_ptr<TerminalSignals> signals_;
  LineEditor editor_;
  termios before_{}, editing_{};
};

// All terminals understand the editor's output, except those that declare themselves dumb.
bool CanEdit() {
  const char* const terminal = std::getenv("TERM");
  return OnTerminal() && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

bool OnTerminal() { return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1; }

std::unique_ptr<LineReader> MakeLineReader(std::string prompt) {
  if (CanEdit()) {
    if (std::unique_ptr<TerminalSignals> signals = TerminalSignals::Create(); signals != nullptr)
      return std::make_unique<EditedLines>(std::move(prompt), std::move(signals));
  }
  return std::make_unique<PlainLines>(std::move(prompt));
}

}  // namespace tutti::cli
