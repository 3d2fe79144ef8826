"""What configurations of older versions of the library mean today."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sharing.incoming import AdapterPart, BadAdapter, head_in, settings_in
from harness.study.methods import METHODS

PFEIFFER = {  # of adapter-transformers 1
    "LN_after": False,
    "LN_before": False,
    "MH_Adapter": False,
    "Output_Adapter": True,
    "adapter_residual_before_ln": False,
    "attention_type": "sent-lvl-dynamic",
    "new_attention_norm": False,
    "non_linearity": "relu",
    "original_ln_after": True,
    "original_ln_before": True,
    "reduction_factor": 16,
    "residual_before_ln": True,
    "invertible_adapter": {"block_type": "nice", "non_linearity": "relu", "reduction_factor": 2},
}
HOULSBY = PFEIFFER | {"MH_Adapter": True, "original_ln_before": False, "non_linearity": "swish"}
HEAD = {"head_type": "classification", "layers": 2, "activation_function": "tanh", "num_labels": 2}

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
ANY = st.recursive(PLAIN, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=5), one, max_size=3))
FIELDS = ("architecture", "scaling", "phm_layer", "leave_out", "inv_adapter", "odd", *PFEIFFER)


def part(config, **fields):
    return AdapterPart(
        Path("theirs.json"), {"name": "x", "model_class": "RobertaModelWithHeads", "config": config} | fields, {}
    )


@pytest.mark.parametrize(
    ("config", "fields", "expected"),
    [
        (PFEIFFER, {"type": "text_task"}, {"method": "seq_bn", "reduction_factor": 16, "non_linearity": "relu"}),
        (HOULSBY, {"type": "text_task"}, {"method": "double_seq_bn", "reduction_factor": 16, "non_linearity": "swish"}),
        (
            PFEIFFER | {"non_linearity": "gelu", "reduction_factor": 8.0, "invertible_adapter": None},
            {},
            {"method": "seq_bn", "reduction_factor": 8, "non_linearity": "gelu_new"},
        ),
        (
            PFEIFFER | {"non_linearity": "GELU", "invertible_adapter": None},
            {"version": "3.2.1"},
            {"method": "seq_bn", "reduction_factor": 16, "non_linearity": "gelu"},
        ),
    ],
)
def test_settings_of_older_libraries_are_today_s(config, fields, expected):
    assert settings_in(part(config, **fields)) == expected


def test_an_adapter_of_a_language_keeps_its_invertible_part_and_is_refused():
    with pytest.raises(BadAdapter, match=r"theirs\.json: its adapter is no seq_bn.* inv_adapter is"):
        settings_in(part(PFEIFFER, type="text_lang"))


@pytest.mark.parametrize(
    ("config", "kind", "classes"),
    [
        (HEAD, "binary", ("LABEL_0", "LABEL_1")),
        (HEAD | {"num_labels": 1, "label2id": {"LABEL_0": 0}}, "continuous", ()),
        (HEAD | {"num_labels": 3, "label2id": {"no": 2, "yes": 0, "so": 1}}, "multiclass", ("yes", "so", "no")),
        (HEAD | {"head_type": "multilabel_classification", "num_labels": 2}, "multilabel", ("LABEL_0", "LABEL_1")),
    ],
)
def test_a_head_says_by_its_outputs_what_it_answers(config, kind, classes):
    found = head_in(part(config), "theirs")
    assert (found.kind, found.classes) == (kind, classes)
    assert found.rename("heads.x.1.bias") == "heads.theirs.1.bias"
    assert found.rename("heads.xy.1.bias") == "heads.xy.1.bias"


def test_the_head_of_a_plain_model_is_one_of_the_library_s():
    fields = {"name": None, "model_class": "RobertaForSequenceClassification", "num_labels": 2}
    found = head_in(part(None, **fields, label2id={"calm": 0, "warm": 1}), "theirs")
    assert (found.kind, found.classes) == ("binary", ("calm", "warm"))
    assert found.rename("classifier.dense.weight") == "heads.theirs.1.weight"
    assert found.rename("classifier.out_proj.bias") == "heads.theirs.4.bias"


def test_a_head_over_the_pooler_is_refused_with_what_to_do():
    fields = {"name": None, "model_class": "BertForSequenceClassification", "num_labels": 2}
    with pytest.raises(BadAdapter, match=r"1 layers with None, over the pooler, .* to import the adapter alone"):
        head_in(part(None, **fields, label2id={"calm": 0, "warm": 1}), "theirs")


@given(name=st.sampled_from(FIELDS), value=ANY, version=ANY)
def test_whatever_a_setting_is_it_is_understood_or_refused(name, value, version):
    plain = {field: one for field, one in PFEIFFER.items() if field != "invertible_adapter"}
    try:
        found = settings_in(part(plain | {name: value}, version=version))
    except BadAdapter as problem:
        assert str(problem).startswith("theirs.json: ")
    else:
        assert set(found) == {"method", *METHODS[found["method"]].settings}


@given(name=st.sampled_from((*HEAD, "label2id", "use_pooler", "bias")), value=ANY)
def test_whatever_a_head_is_it_is_understood_or_refused(name, value):
    static = {"name": None, "model_class": "RobertaForSequenceClassification", "num_labels": 2, "label2id": None}
    for told in (part(HEAD | {name: value}), part(value), part(None, **{**static, name: value})):
        try:
            found = head_in(told, "theirs")
        except BadAdapter as problem:
            assert str(problem).startswith("theirs.json: ")
        else:
            assert found.kind in ("continuous", "binary", "multiclass", "multilabel")
