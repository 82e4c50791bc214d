"""Measures of a trained model."""

from fourfold.evaluation.answers import Answer, decode
from fourfold.evaluation.bits import bits_per_byte, windows
from fourfold.evaluation.scores import summarise
from fourfold.evaluation.state_size import state_bytes
from fourfold.evaluation.teacher_forcing import answer_cross_entropy, target_logits

__all__ = [
    "Answer",
    "answer_cross_entropy",
    "bits_per_byte",
    "decode",
    "state_bytes",
    "summarise",
    "target_logits",
    "windows",
]
