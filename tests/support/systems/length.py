"""A line through the length of a text, fitted in steps that go on after an interruption: a system of one's own."""

import json
from dataclasses import dataclass

import numpy as np

from harness.study.systems import Fitted, Kind, Predicted, Reads


@dataclass(frozen=True)
class Steps:
    """Steps of gradient descent, and how far each goes."""

    epochs: int = 20
    rate: float = 0.3


class Line(Fitted):
    """Slope and intercept of the answer over the length in hundred characters."""

    def __init__(self, slope, intercept, outputs, history=()):
        self.line, self.outputs, self.history = (slope, intercept), outputs, list(history)
        self.best_epoch = len(self.history) or None

    def predict(self, rows):
        values = self.line[0] * np.array([len(row.text) / 100 for row in rows]) + self.line[1]
        columns = [values] if self.outputs == 1 else [0.5 - values, values - 0.5]
        return Predicted(np.stack(columns, axis=1).astype(np.float32))

    def save(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "line.json").write_text(json.dumps([*self.line, self.outputs]))


class LengthKind(Kind):
    """A line, fitted by gradient descent."""

    reads = Reads(labels=("continuous", "binary"))
    config = Steps

    def fit(self, fit):
        """Descend the squared error; what a process that died has reached stands in the checkpoint."""
        lengths, answers = np.array([[len(row.text) / 100, row.label] for row in fit.train], dtype=float).T
        file, slope, intercept, history = fit.checkpoint / "state.json", 0.0, 0.0, []
        if file.exists():
            slope, intercept, history = json.loads(file.read_text())
        fit.checkpoint.mkdir(parents=True, exist_ok=True)
        for epoch in range(len(history) + 1, fit.config.epochs + 1):
            errors = slope * lengths + intercept - answers
            slope -= fit.config.rate * float((errors * lengths).mean()) / max(1.0, float((lengths**2).mean()))
            intercept -= fit.config.rate * float(errors.mean())
            history.append({"epoch": epoch, "train_loss": float((errors**2).mean()), "validation": None})
            file.write_text(json.dumps([slope, intercept, history]))
            fit.watch(epoch, fit.config.epochs)
        return Line(slope, intercept, fit.label.n_outputs, history)

    def load(self, folder, place):
        """What ``save`` has written."""
        return Line(*json.loads((folder / "line.json").read_text()))
