#include "cli/line_reader.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <iostream>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "cli/terminal.h"

namespace tutti::cli {
namespace {

constexpr int kHistoryLines = 1000;
constexpr char32_t kDiscardKey = 3;
constexpr const wchar_t* kDiscardKeys = L"\x05^C\x1e";  // to the end; the mark; Ctrl-^

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

// Typed text is read as UTF-8 even if the locale is ASCII, as on minimal systems.
void UseUtf8() {
  if (std::setlocale(LC_CTYPE, "") == nullptr ||
      std::string_view(nl_langinfo(CODESET)) != "UTF-8") {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
}

// Editing by libedit. Signals stay with TerminalSignals: libedit's own handlers wait for a terminal
// that is stopped, and end the program at Ctrl-C.
class EditedLines final : public LineReader {
 public:
  EditedLines(EditLine* editor, std::string_view prompt, std::unique_ptr<TerminalSignals> signals)
      : editor_(editor),
        history_(history_winit()),
        prompt_(prompt.begin(), prompt.end()),
        signals_(std::move(signals)) {
    HistEventW event;
    history_w(history_, &event, H_SETSIZE, kHistoryLines);
    history_w(history_, &event, H_SETUNIQUE, 1);
    el_wset(editor_, EL_CLIENTDATA, this);
    el_wset(editor_, EL_HIST, history_w, history_);
    el_wset(editor_, EL_EDITOR, L"emacs");
    el_wset(editor_, EL_PROMPT, &EditedLines::Prompt);
    el_wset(editor_, EL_GETCFN, &EditedLines::GetCharacter);
    el_wset(editor_, EL_ADDFN, L"discard-line", L"Discard the line", &EditedLines::Discard);
    using Binding = std::pair<const wchar_t*, const wchar_t*>;
    // libedit has other meanings for some of these. Descriptions of terminals lack some others.
    for (const auto& [key, action] :
         std::initializer_list<Binding>{{L"^^", L"discard-line"},
                                        {L"^U", L"vi-kill-line-prev"},
                                        {L"^W", L"ed-delete-prev-word"},
                                        {L"\\e[1~", L"ed-move-to-beg"},
                                        {L"\\e[7~", L"ed-move-to-beg"},
                                        {L"\\e[H", L"ed-move-to-beg"},
                                        {L"\\e[4~", L"ed-move-to-end"},
                                        {L"\\e[8~", L"ed-move-to-end"},
                                        {L"\\e[F", L"ed-move-to-end"},
                                        {L"\\e[3~", L"ed-delete-next-char"},
                                        {L"\\e[1;3C", L"em-next-word"},
                                        {L"\\e[1;5C", L"em-next-word"},
                                        {L"\\e[1;3D", L"ed-prev-word"},
                                        {L"\\e[1;5D", L"ed-prev-word"}})
      el_wset(editor_, EL_BIND, key, action, nullptr);
  }
  ~EditedLines() override {
    history_wend(history_);
    el_end(editor_);
  }

  bool Read(std::string& line) override {
    termios before{};
    if (tcgetattr(STDIN_FILENO, &before) != 0) return false;
    signals_->Begin();
    signals_->PutBackAtEnd(before);
    typed_.clear();
    repair_ = {};
    interrupted_ = false;
    // Before the prompt is shown, because a user who sees the prompt may type.
    ChangeTerminal();
    int characters = 0;
    const wchar_t* const text = el_wgets(editor_, &characters);
    const bool got = text != nullptr && characters > 0;
    line.clear();
    for (int i = 0; got && i < characters && text[i] != L'\n'; ++i)
      AppendUtf8(static_cast<char32_t>(text[i]), line);
    if (!line.empty()) {
      HistEventW event;
      history_w(history_, &event, H_ENTER, std::wstring(text, wcscspn(text, L"\n")).c_str());
    }
    signals_->Leave();
    signals_->End();
    return got;
  }

 private:
  static EditedLines* Of(EditLine* editor) {
    void* self = nullptr;
    el_wget(editor, EL_CLIENTDATA, &self);
    return static_cast<EditedLines*>(self);
  }
  static wchar_t* Prompt(EditLine* editor) { return Of(editor)->prompt_.data(); }
  static int GetCharacter(EditLine* editor, wchar_t* out) { return Of(editor)->Next(out); }

  // 1 with the next typed character; 0 at the end of the input.
  int Next(wchar_t* out) {
    while (typed_.empty()) {
      std::array<pollfd, 2> ready = {{{STDIN_FILENO, POLLIN, 0}, {signals_->fd(), POLLIN, 0}}};
      if (poll(ready.data(), ready.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return 0;
      }
      if (ready[1].revents != 0) {
        signals_->Drain();
        // Once until the next key: each new prompt of a burst would wait for the terminal, and the
        // last ones would discard what the user types meanwhile.
        if (ActOnSignals() && !std::exchange(interrupted_, true)) typed_ = kDiscardKeys;
        continue;
      }
      // Reads single bytes, so that input after this line is left for the next reader.
      char byte = 0;
      const ssize_t got = read(STDIN_FILENO, &byte, 1);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return 0;
      interrupted_ = false;
      std::string characters;
      repair_.Push({&byte, 1}, characters);
      for (size_t i = 0; i < characters.size();) {
        const CodePoint next = DecodeAt(characters, i);
        i += next.length;
        if (next.code_point == kDiscardKey) {
          typed_ += kDiscardKeys;
        } else if (next.code_point != kReplacementCharacter) {  // of bytes that are not text
          typed_ += static_cast<wchar_t>(next.code_point);
        }
      }
    }
    *out = typed_.front();
    typed_.erase(0, 1);
    return 1;
  }

  // Ctrl-C and Ctrl-S are keys at the prompt. As a signal, Ctrl-C would drop what was typed before
  // it; as flow control, Ctrl-S would stop the output.
  void ChangeTerminal() {
    el_wset(editor_, EL_PREP_TERM, 1);
    termios modes{};
    if (tcgetattr(STDIN_FILENO, &modes) != 0) return;
    modes.c_iflag &= ~static_cast<tcflag_t>(IXON);
    modes.c_cc[VINTR] = _POSIX_VDISABLE;
    while (tcsetattr(STDIN_FILENO, TCSADRAIN, &modes) != 0 && errno == EINTR) continue;
  }

  // Begins a new line below. The terminal keeps its modes: keys that were typed meanwhile stay
  // keys.
  static unsigned char Discard(EditLine* editor, wint_t) {
    const LineInfoW* const line = el_wline(editor);
    const auto length = static_cast<int>(line->lastchar - line->buffer);
    el_cursor(editor, static_cast<int>(line->lastchar - line->cursor));
    el_wdeletestr(editor, length);
    std::fputs("\n", stdout);
    el_wset(editor, EL_REFRESH);
    return CC_NORM;
  }

  // Returns true if the line is discarded.
  bool ActOnSignals() {
    const bool stopped = signals_->Take(SIGTSTP);
    if (stopped) {
      el_wset(editor_, EL_PREP_TERM, 0);
      signals_->Act(SIGTSTP);
    }
    if (signals_->Take(SIGCONT) || stopped) {  // others have used the terminal since
      ChangeTerminal();
      el_wset(editor_, EL_REFRESH);
    }
    if (signals_->Take(SIGWINCH)) el_resize(editor_);
    return signals_->Take(SIGINT);
  }

  EditLine* const editor_;
  HistoryW* const history_;
  std::wstring prompt_;
  const std::unique_ptr<TerminalSignals> signals_;
  Utf8Repair repair_;
  std::wstring typed_;        // characters that libedit has not taken yet
  bool interrupted_ = false;  // by a signal, since the last key
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
    UseUtf8();
    std::unique_ptr<TerminalSignals> signals = TerminalSignals::Create();
    EditLine* const editor = signals == nullptr ? nullptr : el_init("tutti", stdin, stdout, stderr);
    if (editor != nullptr) return std::make_unique<EditedLines>(editor, prompt, std::move(signals));
  }
  return std::make_unique<PlainLines>(std::move(prompt));
}

}  // namespace tutti::cli
