"""Small raw files in the real datasets' own formats, with made-up texts and known transfer between tasks.

Labels follow a hidden lexicon (``lexicon.py``). Tasks that share a lexicon are planted pairs: an intermediate
that has learned it helps the target. The unplanted pairs share no word's meaning. Their gains need not be zero: on few
rows, an intermediate may still help by what it learned about reading such texts at all.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from tasks.errors import BadInput
from tasks.synthetic.dialogues import write_conv, write_empdial, write_empqt, write_esconv, write_mi, write_personachat
from tasks.synthetic.lexicon import Draws
from tasks.synthetic.posts import (
    write_condolence,
    write_epitome,
    write_hope,
    write_iempathize,
    write_news,
    write_twittemp,
)

# Pairs of (intermediate, target).
PLANTED: tuple[tuple[str, str], ...] = (
    ("empdial_ei", "epitome_er"),
    ("epitome_er", "empdial_ei"),
    ("news_empathy", "conv_empathy"),
    ("conv_empathy", "news_empathy"),
)
WRITERS: dict[str, Callable[[Path, Draws, int], None]] = {
    "condolence": write_condolence,
    "conv": write_conv,
    "empathy_hope": write_hope,
    "empdial_ei": write_empdial,
    "empqt": write_empqt,
    "epitome": write_epitome,
    "esconv": write_esconv,
    "iempathize": write_iempathize,
    "mi": write_mi,
    "news": write_news,
    "personachat": write_personachat,
    "twittemp": write_twittemp,
}
SAME_FILES = {"empdial": "empdial_ei"}


def write(folder: Path, datasets: Sequence[str], *, rows: int, seed: int) -> None:
    """Write about ``rows`` rows per task of each dataset below ``folder``, the same bytes for the same arguments.

    A dataset's rows do not depend on which others are written. BadInput for a dataset that has no writer.
    """
    names = sorted({SAME_FILES.get(dataset, dataset) for dataset in datasets})
    for name in names:
        if name not in WRITERS:
            raise BadInput(f"no synthetic data for dataset {name!r}; choose from {', '.join(WRITERS)}")
    for name in names:
        WRITERS[name](folder, Draws(f"{name} {seed}"), rows)
