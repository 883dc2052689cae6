// UndeliveredReplies: answers that an earlier process has accepted but not sent. They are read from
// the store at the start, and sent to their topics once models are loaded, a few at a time, so that
// they do not crowd out new messages. Later turns of their dialogs end after them (ReplyOrder).
// Runs on the strand.
#pragma once

#include <deque>

#include "server/mqtt/chat/context.h"
#include "server/mqtt/chat/native_messages.h"
#include "server/mqtt/chat/project_messages.h"
#include "server/mqtt/chat/reply_to.h"
#include "services/sessions/owed.h"

namespace tutti::mqtt::chat {

class UndeliveredReplies {
 public:
  UndeliveredReplies(Context& context, NativeMessages& native, ProjectMessages& projects)
      : context_(context), native_(native), projects_(projects) {}

  void Read();  // reads the store; only the first call
  void Send();  // starts sending; called when models are loaded
  void Clear() { waiting_.clear(); }

 private:
  struct Waiting {
    sessions::OwedAnswer owed;
    ReplyTo reply_to;
    ReplyOrder::Place place;
  };
  void ReadBehind(const sessions::OwedPlace& place);
  void Add(sessions::OwedAnswer owed);
  void SendSome();
  void SendOne(Waiting waiting);
  void SendAt(TimePoint when);

  Context& context_;
  NativeMessages& native_;
  ProjectMessages& projects_;
  std::deque<Waiting> waiting_;
  bool read_ = false;
  bool sends_ = false;  // Send() was called
  bool armed_ = false;  // a timer will send some
};

}  // namespace tutti::mqtt::chat
