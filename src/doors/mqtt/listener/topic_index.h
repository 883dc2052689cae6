// TopicIndex: who subscribed to a topic, without asking everybody: a tree of the filters' levels.
//
// Finding costs the levels of the topic, doubled where filters have `+` there; not the number of
// subscribers. Holds pointers, not what they point to. The io thread's.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::mqtt::listener {

struct Session;

class TopicIndex {
 public:
  // A filter that is not shared; once for each session and filter.
  void Add(std::string_view filter, Session* session);
  void Remove(std::string_view filter, Session* session);

  // Every session with a filter that matches, each once.
  std::vector<Session*> Find(std::string_view topic) const;

  bool empty() const { return root_.children.empty(); }

 private:
  struct Node {
    std::map<std::string, std::unique_ptr<Node>, std::less<>> children;
    std::vector<Session*> sessions;  // whose filter ends here
  };
  static bool RemoveBelow(Node& node, std::string_view rest, bool last, Session* session);
  static void FindBelow(const Node& node, std::string_view rest, bool last, bool first,
                        std::vector<Session*>& found);
  Node root_;
};

}  // namespace tutti::mqtt::listener
