"""The texts of the paper's tasks under ``tags``, word for word as the published test files have them."""

import pytest

from harness.training.inputs import InputFormat
from harness.training.tokenizer import load_tokenizer
from tasks.registry import Registry
from tasks.task import Example, Turn

REGISTRY = Registry.load()
ROW = Example("a", "g", "g", (Turn("speaker", "one"), Turn("listener", "two")), "new", 0)
ASKED = (Turn("prompt", "why"), Turn("listener", "nil"), Turn("speaker", "one"))
TEXTS = {
    "conv_empathy": "<speaker> one </speaker> <listener> two </listener> <target> new </target>",
    "conv_emopol": "<speaker> one </speaker> <listener> two </listener> <target> new </target>",
    "epitome_ex": "<speaker> one </speaker> <target> new </target>",
    "condolence": "<speaker> one </speaker> <listener> new </listener>",
    "empdial_emo": "two </s> new",
    "news_emotion": "new",
    "empathy_hope": "new",
}


def text_of(tiny, name, row):
    tokenizer = load_tokenizer(tiny)
    (encoded,) = InputFormat(tokenizer, "tags", REGISTRY.task(name).tags, 200).encode(row)
    return str(tokenizer.backend.decode(list(encoded.ids[1:-1]), skip_special_tokens=False))


@pytest.mark.parametrize("name", TEXTS)
def test_a_row_is_written_as_published(tiny, name):
    task = REGISTRY.task(name)
    context = {"none": (), "previous": ROW.context[-1:], "all": ROW.context}[str(task.history)]
    if task.reader == "table":
        context = context[:1]
    assert text_of(tiny, name, ROW._replace(context=context)) == TEXTS[name]


@pytest.mark.parametrize("name", ["empdial_qact", "empdial_qint"])
def test_a_question_stands_in_the_open_turn_of_its_listener(tiny, name):
    start = "<prompt> why </prompt> <listener> nil </listener> <speaker> one </speaker>"
    begun = ROW._replace(context=(*ASKED, Turn("listener", "I see.")))
    assert text_of(tiny, name, begun) == f"{start} <listener> I see. <target> new </target>"
    assert text_of(tiny, name, ROW._replace(context=ASKED)) == f"{start} <listener> <target> new </target>"
