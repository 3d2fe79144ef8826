"""A GPU where there is none: tensors that are computed here but say that they are elsewhere.

They refuse to be mixed with tensors of the processor where CUDA would, and every operation for which a real GPU would
make the host wait is written down; so is every one for which it would launch a kernel or a transfer. Torch knows the
pretended device as ``meta``.
"""

from collections import Counter
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from harness.study.device import Device
from harness.training import batches
from harness.training.lanes import offloaded, state

aten = torch.ops.aten
DEVICE = torch.device("meta")
READS = {aten._local_scalar_dense.default, aten.equal.default, aten.nonzero.default, aten.is_nonzero.default}
INDEXING = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default}
ALLOCATING = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
UNMARKED_VIEWS = {"_unsafe_view", "detach", "alias", "lift_fresh", "is_pinned"}  # whose schema does not say so
LAYOUT = ("device", "layout", "pin_memory")


class Mixed(Exception):
    """An operation met tensors of two devices: on a real GPU, an error."""


class Apart(torch.Tensor):
    """A tensor on the pretended device; ``here`` is what is computed with."""

    @staticmethod
    def __new__(cls, here):
        strides = dict(strides=here.stride(), storage_offset=here.storage_offset())
        return torch.Tensor._make_wrapper_subclass(cls, here.shape, dtype=here.dtype, device=DEVICE, **strides)

    def __init__(self, here):
        self.here = here

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatched(func, args, kwargs or {}, Seen())


class Seen:
    """What the host waited for, and how often each operation was launched."""

    def __init__(self):
        self.waits, self.launches = [], Counter()
        self.tape = None  # what is recorded: operations, what they were given and what they gave
        self.waits_before = 0  # it was begun

    def refuse_waits(self):
        if self.tape is not None and len(self.waits) > self.waits_before:
            raise RuntimeError(f"operation not permitted when stream is capturing: {self.waits[-1]}")


class PretendGpu(TorchDispatchMode):
    """While it is on, tensors can be made for and sent to ``DEVICE``, and ``seen`` says what came of it."""

    def __init__(self):
        super().__init__()
        self.seen = Seen()

    @property
    def waits(self):
        return self.seen.waits

    @property
    def launches(self):
        return self.seen.launches

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return dispatched(func, args, kwargs or {}, self.seen)

    def capture(self, body):
        """What CUDA's graphs do: record kernels with the memory they read and write, and launch all of them at once.

        No line of Python runs when they are repeated, so what would depend on one gives other numbers.
        """
        before = self.seen.launches.copy()
        self.seen.tape, self.seen.waits_before = (tape := []), len(self.waits)
        try:
            body()
        finally:
            self.seen.tape = None
        self.seen.launches = before  # recorded, not launched

        def replay():
            self.seen.launches["graph"] += 1
            for func, args, kwargs, made in tape:
                again = func(*args, **kwargs)
                if made is not None:
                    for old, new in zip(tree_flatten(made)[0], tree_flatten(again)[0], strict=True):
                        if old is not None:  # a gradient that nobody asked for
                            old.copy_(new)

        return replay


def dispatched(func, args, kwargs, seen):
    if func is aten._to_copy.default:
        return copied(args[0], kwargs, seen)
    tensors = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, torch.Tensor)]
    is_apart = any(isinstance(one, Apart) for one in tensors) or is_device(kwargs)
    if is_apart:
        check(func, tensors, seen.waits)
        seen.refuse_waits()
        seen.launches[func] += launches(func)
    kwargs = kwargs | ({"device": torch.device("cpu")} if is_device(kwargs) else {})
    args_here, kwargs_here = tree_map(unwrapped, args), tree_map(unwrapped, kwargs)
    found = func(*args_here, **kwargs_here)
    if is_apart and seen.tape is not None and launches(func):
        seen.tape.append((func, args_here, kwargs_here, None if func._schema.is_mutable else found))
    if func._schema.is_mutable and func._schema.returns:
        return args[0]
    return tree_map(lambda one: Apart(one) if isinstance(one, torch.Tensor) else one, found) if is_apart else found


def launches(func):
    """One, but of an operation that only allocates or looks at the same memory in another way none."""
    name, returns = func._schema.name.removeprefix("aten::"), func._schema.returns
    is_view = any(one.alias_info is not None and not one.alias_info.is_write for one in returns)
    return 0 if is_view or name in ALLOCATING or name in UNMARKED_VIEWS else 1


def check(func, tensors, waits):
    """Raise Mixed where CUDA would refuse, and note what makes the host wait."""
    if any(one.is_meta and not isinstance(one, Apart) for one in tensors):
        raise Mixed(f"{func}: torch itself has moved a tensor to the device and lost it; move it in the open")
    strangers = [one for one in tensors if not isinstance(one, Apart) and one.dim() > 0]
    if func in READS or (strangers and (func in INDEXING or func is aten.copy_.default)):
        waits.append(str(func))
    elif strangers:
        raise Mixed(f"{func} of tensors on the pretended device and on the processor")


def copied(value, kwargs, seen):
    """A change of type, or a way to the device or back; only what is pinned goes there without a wait."""
    to = kwargs.get("device")
    goes, comes = to == DEVICE and not isinstance(value, Apart), to is not None and to != DEVICE
    is_pinned = kwargs.get("non_blocking") and hasattr(value, "is_pinned_here")
    if (goes and not is_pinned) or (comes and isinstance(value, Apart)):
        seen.waits.append(f"{'to' if goes else 'from'} the device")
    if goes or comes or isinstance(value, Apart):
        seen.launches[aten._to_copy.default] += 1
    options = {name: one for name, one in kwargs.items() if name not in LAYOUT}
    if seen.tape is not None and (goes or comes):
        raise RuntimeError("operation not permitted when stream is capturing: a transfer")
    made = aten._to_copy.default(unwrapped(value), **options)
    if seen.tape is not None:
        seen.tape.append((aten._to_copy.default, (unwrapped(value),), options, made))
    return Apart(made) if to == DEVICE or (to is None and isinstance(value, Apart)) else made


def is_device(kwargs):
    device = kwargs.get("device")
    return device is not None and torch.device(device) == DEVICE


def unwrapped(one):
    return one.here if isinstance(one, Apart) else one


def made_here(data, *, device=None, _tensor=torch.tensor, **options):
    """What ``torch.tensor`` does for a GPU: made by the host, then sent."""
    made = _tensor(data, **options)
    return made if device is None else made.to(device)


def pinned(value):
    value = value.clone()
    value.is_pinned_here = True
    return value


@contextmanager
def pretend_gpu(monkeypatch, cutting="cpu", *, sums_by_name=True, has_graphs=False):
    """Devices are the pretended GPU, which has plenty of memory; batches are cut as on the device ``cutting``.

    Sums of many numbers are grouped as here, so that bytes can be compared, or, without ``sums_by_name``, its own way.
    It records and repeats work only where it ``has_graphs``.
    """
    with monkeypatch.context() as patch:
        patch.setattr(Device, "ready", lambda self: DEVICE)
        patch.setattr(torch.Tensor, "pin_memory", pinned)
        patch.setattr(torch.cuda, "mem_get_info", lambda device: (10**12, 10**12))
        patch.setattr(torch.cuda, "get_device_name", lambda device: "pretended")
        for rule in (batches.TRAINED, batches.TRAINED_BF16, batches.EVALUATED, batches.BUCKETS):
            if cutting in rule:
                patch.setitem(rule, DEVICE.type, rule[cutting])
        patch.setattr(state, "sums_by_name", lambda family: sums_by_name)
        patch.setattr(torch, "tensor", made_here)
        patch.setattr(torch, "inference_mode", torch.no_grad)  # torch keeps its tensors from being of a class of ours
        with PretendGpu() as gpu:
            patch.setattr(offloaded, "capturing", lambda device: gpu.capture if has_graphs else None)
            yield gpu
