// OwedAnswers: what an earlier process has accepted and not told: read from the store at the start,
// and told where it belongs once models are loaded, some at a time, so that it does not crowd out
// what comes in. Later turns of its dialogs end after it (ReplyOrder). Of the strand.
#pragma once

#include <deque>

#include "doors/mqtt/profile/context.h"
#include "doors/mqtt/profile/native_messages.h"
#include "doors/mqtt/profile/project_messages.h"
#include "doors/mqtt/profile/reply_to.h"
#include "services/sessions/owed.h"

namespace tutti::mqtt::profile {

class OwedAnswers {
 public:
  OwedAnswers(Context& context, NativeMessages& native, ProjectMessages& projects)
      : context_(context), native_(native), projects_(projects) {}

  void Read();  // the first time only
  void Tell();  // when models are loaded
  void Clear() { waiting_.clear(); }

 private:
  struct Waiting {
    sessions::OwedAnswer owed;
    ReplyTo reply_to;
    ReplyOrder::Place place;
  };
  void ReadBehind(const sessions::OwedPlace& place);
  void Add(sessions::OwedAnswer owed);
  void TellSome();
  void TellOne(Waiting waiting);
  void TellAt(TimePoint when);

  Context& context_;
  NativeMessages& native_;
  ProjectMessages& projects_;
  std::deque<Waiting> waiting_;
  bool read_ = false;
  bool tells_ = false;  // models are loaded
  bool armed_ = false;  // a timer will tell some
};

}  // namespace tutti::mqtt::profile
