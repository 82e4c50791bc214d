"""A causal language model made of layers; a citizen of transformers."""

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

from fourfold.models.cache import FourfoldCache
from fourfold.models.configuration import FourfoldConfig
from fourfold.models.modeling import FourfoldForCausalLM, FourfoldModel
from fourfold.models.registry import heads_of, register_layer, sizes_of
from fourfold.models.tokenizer import ByteTokenizer

AutoConfig.register("fourfold", FourfoldConfig, exist_ok=True)
AutoModel.register(FourfoldConfig, FourfoldModel, exist_ok=True)
AutoModelForCausalLM.register(FourfoldConfig, FourfoldForCausalLM, exist_ok=True)
AutoTokenizer.register(FourfoldConfig, ByteTokenizer, exist_ok=True)

__all__ = [
    "ByteTokenizer",
    "FourfoldCache",
    "FourfoldConfig",
    "FourfoldForCausalLM",
    "FourfoldModel",
    "heads_of",
    "register_layer",
    "sizes_of",
]
