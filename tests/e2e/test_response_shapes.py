"""The shapes of the Responses API and of Conversations, as src/protocol writes them, validated with the stock client's own types.

Each line of the file is a type's name and an object; src/protocol/responses/shapes_test.cc compares the file with what the
program writes. No server is asked.
"""
import pathlib
import unittest

import pydantic
from openai.types import conversations, responses

FILE = pathlib.Path(__file__).resolve().parent.parent / "data" / "openai" / "response_shapes.txt"
# Members that the client's types do not have; clients may ignore them.
OURS = {"store", "version", "parent", "bytes"}


def unknown(value):
    """The members below `value` that the types do not have."""
    if isinstance(value, pydantic.BaseModel):
        yield from (value.model_extra or {})
        for name in type(value).model_fields:
            yield from unknown(getattr(value, name))
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from unknown(element)


class ResponseShapes(unittest.TestCase):
    def lines(self, name):
        lines = [line.split(" ", 1) for line in FILE.read_text(encoding="utf-8").splitlines()]
        found = [text for kind, text in lines if kind == name]
        self.assertTrue(found, name)
        return found

    def check(self, module, name):
        adapter = pydantic.TypeAdapter(getattr(module, name))
        values = [adapter.validate_json(text, strict=True) for text in self.lines(name)]
        for value in values:
            self.assertLessEqual(set(unknown(value)), OURS)
        return values

    def test_responses(self):
        values = self.check(responses, "Response")
        self.assertEqual(values[0].output_text, 'Hello "you"\n\U0001F600')
        self.assertEqual({value.status for value in values},
                         {"queued", "in_progress", "completed", "incomplete", "failed", "cancelled"})

    def test_events(self):
        for text, event in zip(self.lines("ResponseStreamEvent"), self.check(responses, "ResponseStreamEvent"), strict=True):
            # The union has found the type that is meant.
            self.assertIn(f'"type":"{event.type}"', text)
            self.assertIn(event.type, str(type(event).model_fields["type"].annotation))

    def test_conversations(self):
        self.check(conversations, "Conversation")
        self.check(conversations, "ConversationItem")
        self.check(conversations, "ConversationItemList")
        self.check(conversations, "ConversationDeletedResource")


if __name__ == "__main__":
    unittest.main()
