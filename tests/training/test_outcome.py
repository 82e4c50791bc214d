"""What is kept of a run at its end."""

from __future__ import annotations

import os

from transformers import AutoTokenizer

from fourfold.data.bpe import train_bpe
from fourfold.models import FourfoldConfig, FourfoldForCausalLM
from fourfold.training.outcome import keep_model
from fourfold.training.state import model_tensors


def test_a_tokenizer_that_saves_folders_is_kept_whole(tmp_path):
    tokenizer = train_bpe(["some text"], 262)
    tokenizer.chat_template = {"default": "one", "tool_use": "another"}
    config = FourfoldConfig(hidden_size=16, num_attention_heads=1, layer_types=["atpm"])
    model = FourfoldForCausalLM(config)
    for _ in range(2):  # what was there is replaced
        keep_model(tmp_path, model, model_tensors(model), tokenizer)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    again = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert again.chat_template == tokenizer.chat_template


def test_a_model_has_the_rights_that_the_user_gives_new_files(tmp_path):
    config = FourfoldConfig(hidden_size=16, num_attention_heads=1, layer_types=["atpm"])
    model = FourfoldForCausalLM(config)
    before = os.umask(0o027)
    try:
        keep_model(tmp_path, model, model_tensors(model), train_bpe(["some text"], 262))
    finally:
        os.umask(before)
    rights = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert "model.safetensors" in rights
    assert set(rights.values()) == {0o640}
