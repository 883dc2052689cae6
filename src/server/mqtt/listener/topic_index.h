// TopicIndex: finds the sessions that subscribed to a topic, with a tree of the levels of filters.
//
// The cost of a search is the number of levels of the topic, doubled at levels where filters have
// `+`; it does not depend on the number of subscribers. Holds pointers, without owning the
// sessions. Used by the io thread only.
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
  // Adds a filter that is not shared; once for each session and filter.
  void Add(std::string_view filter, Session* session);
  void Remove(std::string_view filter, Session* session);

  // Every session with a matching filter, each once.
  std::vector<Session*> Find(std::string_view topic) const;

  bool empty() const { return root_.children.empty(); }

 private:
  struct Node {
    std::map<std::string, std::unique_ptr<Node>, std::less<>> children;
    std::vector<Session*> sessions;  // sessions whose filter ends here
  };
  static bool RemoveBelow(Node& node, std::string_view rest, bool last, Session* session);
  static void FindBelow(const Node& node, std::string_view rest, bool last, bool first,
                        std::vector<Session*>& found);
  Node root_;
};

}  // namespace tutti::mqtt::listener
