"""The hidden lexicon: which made-up cue word means which label, and which tasks share a meaning.

Meanings are dealt out by position, so they are arbitrary: a pre-trained encoder knows the words but cannot
guess the labels, and a model that has learned a lexicon on one task can use it on the task that shares it.
Every word is one piece in common sub-word vocabularies, which keeps texts short.
"""

import random
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")

INTENTS = "questioning acknowledging neutral agreeing sympathizing encouraging suggesting consoling wishing".split()
EMOTIONS = ("Anger", "Disgust", "Fear", "Hope", "Joy", "Neutral", "Sadness", "Surprise")

# Shared by EmpDial EI (position modulo 9 is the intent) and Epitome ER (position modulo 3 is the level).
OBJECTS = """
    pencil door wire jar stamp chain tape coin scissors table ramp candle book compass lantern wallet hook
    umbrella flag ribbon bowl ladder sofa camera envelope glue parcel mirror tent bolt drawer barrel broom
    spoon pan nail phone knife fork fence lens basket battery map magnet radio ticket spring cushion rope pump
    shelf needle statue pot tray tile cup pillow sword curtain bucket saw shovel button wheel notebook lamp
    torch cabinet axe bench hammer stool lock towel plate net brush chair gate card blanket engine key whistle
    lever window carpet kettle clock folder box valve bottle printer vase screw mattress""".split()

# Shared by News Empathy and Conv Empathy: the weight of a word is its position modulo 5, less 2.
ANIMALS = """
    squirrel dog frog goose crab camel rabbit wasp snake bear whale pony cat goat crow cricket moth dove otter
    calf rat snail hawk kitten hare lion pig turtle lobster spider puppy eagle lamb trout swan sparrow owl bee
    mouse peacock""".split()

# Each of the following belongs to one task alone.
MATERIALS = """
    smooth white silver ivory coral tin granite stone dry concrete square heavy warm clay satin paper lead thin
    leather sharp yellow brass velvet blue grey hard marble cotton bronze black round wet wooden wool nylon
    tall pink brown plastic purple linen canvas thick jade glass wide silk rough green cold crystal steel iron
    denim golden rubber light pearl narrow short flat red copper soft""".split()
PLACES = """
    library station barn church island theater beach mountain school mill airport river farm museum garden
    factory tower field tunnel prison village court temple meadow castle forest hotel harbor valley canal""".split()
FOODS = """
    pepper corn beer cake salad carrot salt bread potato cheese pumpkin orange lemon bean peach egg onion
    butter garlic meat cookie juice sugar grape pie milk honey apple cherry mushroom rice coffee tomato tea
    fish wine soup chocolate pasta""".split()
CLOTHES = """
    belt coat hood cap dress jacket sweater sock purse uniform robe tie scarf skirt helmet necklace glove apron
    vest shirt cloak hat suit shoe boot shield crown""".split()
INSTRUMENTS = """
    piano trombone horn clarinet fiddle banjo tuba violin harp guitar pipe organ saxophone accordion drum
    trumpet bell flute keyboard cello""".split()
TIMES = """
    evening saturday february august monday noon tuesday dusk october november sunday morning night wednesday
    january winter midnight september friday july dawn autumn june december summer""".split()
OPENERS = "downstairs probably indeed frankly inside perhaps mostly often finally lately".split()
JOBS = """
    doctor farmer baker teacher sailor soldier painter singer dancer lawyer judge nurse driver pilot miner
    hunter carpenter butcher tailor barber clerk banker actor writer poet editor priest monk guard chef waiter
    dentist""".split()
PEOPLE = ("Anna", "Ben", "Clara", "David", "Emma", "José", "Karen", "Leo", "Maria", "Zoë")


class Draws(random.Random):
    """Random draws that are all made of ``random()``, whose sequence never changes between versions."""

    def chance(self, share: float) -> bool:
        """True in this share of draws."""
        return self.random() < share

    def pick(self, items: Sequence[T]) -> T:
        """One item, each equally likely."""
        return items[int(self.random() * len(items))]

    def weighted_index(self, weights: Sequence[int]) -> int:
        """An index, drawn in proportion to whole-number weights."""
        return bisect(list(accumulate(weights)), int(self.random() * sum(weights)))

    def cue(self, words: Sequence[str], classes: int, index: int) -> str:
        """A word that means class ``index`` of so many ``classes``."""
        return self.pick(words[index::classes])


def total(words: Sequence[str], sample: Sequence[str]) -> int:
    """The sum of what the words in a sample add to the label, -2 to 2 each, by their place in a value lexicon."""
    return sum(words.index(word) % 5 - 2 for word in sample)


def steps(value: float, low: int, high: int, parts: int) -> float:
    """``value`` inside ``low`` to ``high``, rounded to whole parts (3: thirds)."""
    return min(max(round(value * parts), low * parts), high * parts) / parts
