"""A causal language model that is finetuned: products of low rank beside its linear layers learn, its weights stay."""

from harness.study.backbone import Backbone
from harness.study.systems import Place
from harness.systems.decoder import DecoderSettings
from harness.systems.instructed import TURN, Frame, Instructed
from harness.systems.weights import resolve_causal
from tasks.task import Instruction


class TrainedDecoder(Instructed):
    """A causal language model with the instruction that it is asked by."""

    system = "decoder"
    turn = f"\n{TURN}"
    before_answers = "Answer:"  # the last line of every prompt that is no chat's
    config: DecoderSettings

    @classmethod
    def backbone_of(cls, config: DecoderSettings, place: Place) -> Backbone:
        """The model of the settings."""
        return resolve_causal(config.weights)

    def is_trained(self, name: str) -> bool:
        """The products alone."""
        return ".lora_" in name

    def frame(self, instruction: Instruction) -> Frame:
        """The words around a row, parted by lines, and a last one that asks, unless a chat does."""
        frame = super().frame(instruction)
        asks = "" if self.model.is_chat else f"\n{self.before_answers}"
        return Frame(frame.above, f"\n{frame.before}", f"{frame.after}{asks}")
