"""The whole prompt of a row as a text: what a model reads that takes any length."""

from harness.systems.instructed import TURN, Frame
from tasks.task import Example


def text_of(row: Example, frame: Frame) -> str:
    """The whole prompt of a row as a text: what a model reads that takes any length."""
    turns = [f"{TURN}{turn}" for turn in (*(turn.text for turn in row.context), row.text)]
    turns += [f"{TURN}{turn.text}" for turn in row.after]
    return "\n".join([*filter(None, [frame.above]), *turns, f"{frame.before}{row.text}{frame.after}"])
