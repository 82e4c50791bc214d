"""What a memory must do to stand in a model: be counted, and come back from a file."""

from __future__ import annotations

from tempfile import TemporaryDirectory

import torch

from fourfold.models import FourfoldConfig, FourfoldForCausalLM
from fourfold.models.matching import count_parameters
from fourfold.proof.properties import PropertyError, distance


def it_can_be_counted_before_it_is_made(config: FourfoldConfig) -> float:
    """Sizes are matched with tensors that hold nothing (torch's meta device)."""
    counted, made = count_parameters(config), FourfoldForCausalLM(config).num_parameters()
    if counted != made:
        raise PropertyError(f"{counted} parameters are counted, and {made} are there.")
    return 0.0


def a_model_comes_back_from_its_file(config: FourfoldConfig) -> float:
    """Saved and loaded, it says what it said."""
    model = FourfoldForCausalLM(config).eval()
    ids = torch.arange(40)[None] % config.vocab_size
    with TemporaryDirectory() as folder, torch.no_grad():
        model.save_pretrained(folder)
        again = FourfoldForCausalLM.from_pretrained(folder).eval()
        return distance(again(ids).logits, model(ids).logits)


IN_A_MODEL = (it_can_be_counted_before_it_is_made, a_model_comes_back_from_its_file)
