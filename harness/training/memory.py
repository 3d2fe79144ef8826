"""How many lanes have room: an estimate of a pack's peak memory, and what the device has left.

The coefficients are fitted to measured peaks (docs/training.md); an estimate that is too low costs a retry where memory
is refused, and too much paging or the process where it is not, so a share of what is left stays free.
"""

from __future__ import annotations

import gc
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness.study.backbone import RANDOM_TINY, Backbone
from harness.study.methods import layers_of
from harness.training.batches import EVALUATED as EVALUATED_CUTS
from harness.training.batches import TRAINED as TRAINED_CUTS
from harness.training.batches import trained_cutting
from harness.training.recipe import Part, Recipe
from tasks.errors import BadInput

if TYPE_CHECKING:
    import torch

LIMIT_FILES = {"": ("memory.max", "memory.current"), "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}
USABLE = 0.65  # of the memory that is left: peaks up to 1.43 times as high as planned were measured
LAYER, ENDS = 31, 62  # values of width d that a token leaves for the backward pass: in an inner layer; in all the rest
LAYER_SCORES = 0.85  # the same in attention scores, heads times tokens, in an inner layer
EVALUATED, EVALUATED_SCORES = 15, 4.5  # held at once in one layer without a backward pass
BANKS = 6  # an optimizer step's copies of what is trained: weights, best, two moments, gradients, a temporary
MAKING = 5  # of the masks' bytes (4 an element): words, their counters and products while they are drawn on a device
COPIES = 2.5  # of the backbone: the library's, ours, its transposed products


@dataclass(frozen=True)
class Shape:
    """What decides the memory of lanes: the encoder's shape, weights per lane, the longest row, bytes per value.

    ``trained`` and ``evaluated`` are the most tokens of a cut. Where masks are drawn on the device, so is their making.
    ``further_units`` are those of a layer's frozen adapter beyond what one adapter has.
    """

    layers: int
    width: int
    heads: int
    weights: int
    longest: int
    value_bytes: int
    shared_noise: bool = True
    backbone_bytes: int = 0
    trained: int = TRAINED_CUTS["cpu"].max_tokens
    evaluated: int = EVALUATED_CUTS["cpu"].max_tokens
    draws_masks: bool = False
    further_units: int = 0

    def lane_bytes(self) -> int:
        """Bytes that one more lane needs at the peak."""
        of_score = 4 if self.value_bytes == 4 else 4 + self.value_bytes  # and its cast
        score_bytes = self.heads * self.longest * of_score
        width_bytes, tokens = self.width * self.value_bytes, max(self.trained, self.longest)
        inner = max(0, self.layers - 2)
        trained = tokens * ((LAYER * inner + ENDS) * width_bytes + LAYER_SCORES * inner * score_bytes)
        evaluated = EVALUATED * width_bytes + EVALUATED_SCORES * score_bytes
        evaluated *= max(self.evaluated, self.longest)
        own_masks = 0 if self.shared_noise else self._mask_bytes()
        further = self.layers * self.further_units * (2 * self.width * 4 + tokens * self.value_bytes)
        # Recorded work on a GPU keeps its memory (lanes.graphs), so that an evaluation has its own beside it.
        peak = trained + own_masks + evaluated if self.draws_masks else max(trained + own_masks, evaluated)
        return int(peak + further) + BANKS * 4 * self.weights

    def shared_bytes(self) -> int:
        """Bytes that a pack needs whatever its lanes: the backbone, and the masks of one cut while they are drawn."""
        making = MAKING * self._mask_bytes() if self.draws_masks else 0
        return int(COPIES * self.backbone_bytes) + 2 * self._mask_bytes() + int(making)

    def lanes_in(self, room: int) -> int:
        """How many lanes fit into ``room`` bytes, at least one."""
        return max(1, (room - self.shared_bytes()) // self.lane_bytes())

    def _mask_bytes(self) -> int:
        tokens = max(self.trained, self.longest)
        return tokens * self.layers * (self.heads * self.longest + 2 * self.width) * 4


def shape_of(recipe: Recipe, backbone: Backbone, parts: Mapping[str, Part], family: str = "cpu") -> Shape:
    """The shape of a lane of this recipe, on these rows and a device of this ``family`` (``cpu``, ``cuda``)."""
    if backbone.folder is None:
        layers, width, heads, size = RANDOM_TINY["layers"], RANDOM_TINY["hidden"], RANDOM_TINY["heads"], 0
    else:
        config = json.loads((backbone.folder / "config.json").read_text())
        layers, width, heads = (config[name] for name in ("num_hidden_layers", "hidden_size", "num_attention_heads"))
        size = backbone.weight_bytes
    inner = width // (recipe.adapter or {})["reduction_factor"]
    adapters = layers_of(recipe.adapter or {}, layers) * (2 * width * inner + inner + width)
    head = (width + 1) * (width + recipe.outputs)
    lengths = [len(window.ids) for part in parts.values() for windows in part.rows for window in windows]
    value_bytes = 2 if recipe.precision == "bf16" else 4
    return Shape(
        layers=layers,
        width=width,
        heads=heads,
        weights=2 * adapters + head,
        longest=max(lengths),
        value_bytes=value_bytes,
        shared_noise=not recipe.noise,
        backbone_bytes=size,
        trained=trained_cutting(family, is_bf16=value_bytes == 2).max_tokens,
        evaluated=EVALUATED_CUTS[family].max_tokens,
        draws_masks=family != "cpu",
        further_units=(recipe.below - 1) * inner,
    )


def free_bytes(device: torch.device | None = None, processes: int = 1) -> int:
    """Bytes that training may use: of a GPU's memory or of the machine's, an even part where processes share it.

    On a GPU, what this process's allocator holds but has not given out is free, too.
    """
    if device is None or device.type == "cpu":
        room = min((_machine_bytes(), *_cgroup_bytes(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))))
    else:
        import torch

        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        room = torch.cuda.mem_get_info(device)[0] + held
    return int(USABLE * room / processes)


def _machine_bytes() -> int:
    """Memory that can be had without paging; where the system does not say, as much as one could ask for."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 1 << 62
    sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    return sizes.get("MemAvailable", 1 << 62)


def _cgroup_bytes(file: Path, root: Path) -> list[int]:
    """What is left under each memory limit of this process's control groups (version 2 or 1); none, where none is."""
    try:
        lines = [line.split(":", 2) for line in file.read_text().splitlines()]
    except OSError:
        return []
    left = []
    for _, controllers, path in lines:
        if controllers not in LIMIT_FILES:
            continue
        top = root / controllers
        folder = top / path.lstrip("/")
        for group in (folder, *folder.parents):
            with suppress(OSError, ValueError):
                most, used = ((group / name).read_text().strip() for name in LIMIT_FILES[controllers])
                facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                # page cache, which is given back when asked for, does not count as used
                cache = int(facts.get("total_inactive_file", facts.get("inactive_file", 0)))
                if most != "max":
                    left.append(max(0, int(most) - int(used) + cache))
            if group == top:
                break
    return left


# Which lanes train together: those that stand at the same stage, as many as memory has room for.

log = logging.getLogger(__name__)

T = TypeVar("T")
SIGNS = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "bad_alloc")


class OutOfMemory(BadInput):
    """Not even one lane has room."""


def run_in_chunks(
    keys: Sequence[str],
    stages: Callable[[str], list[int]],
    most: Callable[[], int],
    finish: Callable[[list[str], int], list[T]],
) -> dict[str, T]:
    """What ``finish(keys, stage)`` gives for every key, called with lanes of one stage, at most ``most()`` at a time.

    When memory runs out, half as many lanes go on from their last checkpoint; OutOfMemory when it was one alone.
    """
    import torch

    stages_of = {key: stages(key) for key in keys}
    limit, done = len(keys), dict[str, T]()
    while left := {key: stages_of[key] for key in keys if key not in done}:
        stage, group = max(together(left).items())
        size = max(1, min(limit, most()))
        chunk = group[: math.ceil(len(group) / math.ceil(len(group) / size))]
        try:
            done |= zip(chunk, finish(chunk, stage), strict=True)
            continue
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
        gc.collect()  # outside of the except block: the error's frames hold the lanes
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if len(chunk) == 1:
            raise OutOfMemory(f"one lane alone has no room: {reason}; lower max_tokens or free memory and run again")
        limit = len(chunk) // 2
        log.warning("memory ran out with %d lanes; at most %d from here on (%s)", len(chunk), limit, reason)
        stages_of |= {key: stages(key) for key in chunk}
    return done


def together(stages: Mapping[str, Sequence[int]]) -> dict[int, list[str]]:
    """Keys by the stage they go on from: their latest, or the one before where a neighbour has not come further.

    The second is what a process leaves that died while it wrote a stage: some lanes have both, some only the older.
    """
    latest = {key: max(have, default=0) for key, have in stages.items()}
    groups: dict[int, list[str]] = {}
    for key, have in stages.items():
        shared = [stage for stage in have if stage < latest[key] and stage in latest.values()]
        groups.setdefault(max(shared, default=latest[key]), []).append(key)
    return groups


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the device or the machine has no room left."""
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in SIGNS)
