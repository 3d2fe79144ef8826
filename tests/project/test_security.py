"""What the project promises about safety: no code from data, and no path that leads out of its folder."""

import ast
import json
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.similarity.encoders import Sentences, refuse_foreign_modules
from harness.study.backbone import BadBackbone, resolve
from harness.study.device import ANY_DEVICE
from harness.study.file import load_study
from tasks.errors import BadEntry, BadStudy, MissingData
from tasks.registry import tasks_of
from tasks.splits.loading import load
from tests.support.studies.tiny_backbones import tiny_backbone

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("adapters_store", "analysis", "benchmarks", "harness", "tasks")
SOURCES = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
PICKLES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "jsonpickle"}
CODE = {"eval", "exec", "compile", "__import__"}
LOADERS = {"read_pickle", "to_pickle", "unsafe_load", "full_load", "load_all", "system", "popen"}
ENTRY = 'id = "mine"\nfiles = [{files}]\ntext = "text"\nlabel = "label"\nkind = "binary"\n'
ROWS = "text,label\n" + "".join(f"words {i},{'no' if i % 2 else 'yes'}\n" for i in range(40))


def dangers(source):
    """What in this code could run code that came as data, by line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names if one.name.split(".")[0] in PICKLES)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PICKLES:
            yield node.lineno, node.module
        if isinstance(node, ast.Call):
            yield from ((node.lineno, what) for what in of_call(node))


def of_call(call):
    """What of one call is dangerous."""
    given = {one.arg: one.value for one in call.keywords}
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    if name in CODE or last in LOADERS:
        yield name
    if last == "load" and name.split(".")[0] in ("torch", "np", "numpy", "yaml"):
        if name != "torch.load" or not is_true(given.get("weights_only")):
            yield name
    if (last == "load_adapter" or name.endswith("Model.from_pretrained")) and not is_true(given.get("use_safetensors")):
        yield f"{name} without use_safetensors"
    if "allow_pickle" in given or "trust_remote_code" in given:
        yield "allow_pickle or trust_remote_code"
    if "shell" in given and not (isinstance(given["shell"], ast.Constant) and given["shell"].value is False):
        yield "shell"


def is_true(node):
    return isinstance(node, ast.Constant) and node.value is True


def test_no_code_of_ours_could_run_what_it_reads():
    seen = {path.relative_to(ROOT).as_posix(): list(dangers(path.read_text(encoding="utf-8"))) for path in SOURCES}
    assert {path: places for path, places in seen.items() if places} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "import dill as d",
        "eval(x)",
        "exec('1')",
        "torch.load(f)",
        "torch.load(f, weights_only=False)",
        "np.load(f)",
        "yaml.load(f)",
        "pd.read_pickle(f)",
        "np.load(f, allow_pickle=True)",
        "AutoModel.from_pretrained(f, trust_remote_code=True)",
        "AutoAdapterModel.from_pretrained(f)",
        "model.load_adapter(f, use_safetensors=False)",
        "subprocess.run(c, shell=True)",
        "subprocess.run(c, shell=yes)",
        "os.system(c)",
    ],
)
def test_dangerous_code_would_be_seen(code):
    assert list(dangers(f"def f():\n    {code}\n"))


@pytest.mark.parametrize(
    "code", ["torch.load(f, weights_only=True)", "model.eval()", "re.compile(x)", "json.load(f)", "run(c, shell=False)"]
)
def test_harmless_code_is_not_taken_for_dangerous(code):
    assert not list(dangers(code))


def entry(folder, *files):
    """An entry in a folder of its own, and the data folder beside that."""
    (folder / "entries").mkdir()
    (folder / "data").mkdir()
    path = folder / "entries" / "mine.toml"
    path.write_text(ENTRY.format(files=", ".join(map(repr, files))), encoding="utf-8")
    return path, folder / "data"


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../../mine.csv", "a/../../../mine.csv", "..", "a\\..\\b", "..\\b", "."]
)
@pytest.mark.parametrize("field", ["files", "fallback_files"])
def test_an_entry_names_no_file_elsewhere(tmp_path, field, name):
    path, _ = entry(tmp_path, "mine.csv")
    text = path.read_text(encoding="utf-8").replace("files = ['mine.csv']", f"files = [{name!r}]")
    path.write_text(text if field == "files" else ENTRY.format(files="'mine.csv'") + f"fallback_files = [{name!r}]\n")
    with pytest.raises(BadEntry, match=f"{field} .* leads elsewhere; put the file below the data folder"):
        tasks_of(path)


def test_a_file_beside_the_data_folder_is_not_reached_from_it(tmp_path):
    """``../mine.csv`` lies beside the folder of the entries, and is looked for nowhere else."""
    path, data = entry(tmp_path, "../mine.csv")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "mine.csv").write_text(ROWS)
    assert len(load(tasks_of(path)[0], data).train) > 1
    moved = tmp_path / "elsewhere" / "data"
    data.rename(moved)
    (tmp_path / "mine.csv").rename(tmp_path / "elsewhere" / "mine.csv")
    with pytest.raises(MissingData, match=r"no file .*entries/\.\./mine\.csv"):
        load(tasks_of(path)[0], moved)


def test_a_link_beside_an_entry_leads_nowhere_else_but_one_in_the_data_folder_may(tmp_path):
    (tmp_path / "project").mkdir()
    path, data = entry(tmp_path / "project", "mine.csv")
    (tmp_path / "secret.csv").write_text(ROWS)
    (path.parent / "mine.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(BadEntry, match="a link that leads elsewhere"):
        load(tasks_of(path)[0], data)
    (data / "mine.csv").symlink_to(tmp_path / "secret.csv")
    assert len(load(tasks_of(path)[0], data).train) > 1


def test_a_new_task_of_a_file_that_lies_elsewhere_is_refused_with_the_cure(tmp_path, capsys):
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "mine.csv").write_text(ROWS)
    folders = ["--registry", tmp_path / "a" / "project" / "entries", "--data", tmp_path / "none", "--skip-training"]
    assert main([str(one) for one in ["tasks", "new", tmp_path / "downloads" / "mine.csv", *folders]]) == 2
    said = capsys.readouterr().err
    assert "leads elsewhere; put the file below the data folder" in said and said.count("\n") == 1
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".toml", ".draft")]


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "..", "a\\b"])
def test_a_dataset_by_which_split_ids_are_called_is_a_plain_name(tmp_path, name):
    path, _ = entry(tmp_path, "mine.csv")
    path.write_text(path.read_text(encoding="utf-8") + f"dataset = {name!r}\n", encoding="utf-8")
    with pytest.raises(BadEntry, match="must be a plain name"):
        tasks_of(path)


@pytest.mark.parametrize("name", ["../base.toml", "/etc/base.toml", "a/../../base.toml"])
def test_a_study_extends_no_file_elsewhere(tmp_path, name):
    (tmp_path / "mine.toml").write_text(f"extends = '{name}'\n", encoding="utf-8")
    with pytest.raises(BadStudy, match="nor a file in the folder of this one"):
        load_study(str(tmp_path / "mine.toml"))


def test_a_study_extends_through_no_link_that_leads_elsewhere(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "base.toml").write_text('extends = "tiny"\n', encoding="utf-8")
    (tmp_path / "own" / "base.toml").symlink_to(tmp_path / "base.toml")
    (tmp_path / "own" / "mine.toml").write_text('extends = "base.toml"\n', encoding="utf-8")
    with pytest.raises(BadStudy, match="a link that leads out of the folder"):
        load_study(str(tmp_path / "own" / "mine.toml"))
    (tmp_path / "own" / "base.toml").unlink()
    (tmp_path / "base.toml").rename(tmp_path / "own" / "base.toml")
    assert load_study(str(tmp_path / "own" / "mine.toml")).tasks == load_study("tiny").tasks


def test_an_error_of_the_store_is_one_line_and_exit_code_2(tmp_path, capsys):
    (tmp_path / "runs" / "studies").mkdir(parents=True)
    (tmp_path / "runs" / "studies" / "tiny.json").write_text("{")
    assert main(["report", "tiny", "--store", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("empathy-transfer: ") and said.count("\n") == 1


@pytest.mark.parametrize("field", ["_attn_implementation_internal", "_attn_implementation", "attn_implementation"])
def test_a_backbone_that_asks_for_code_of_the_hub_is_refused(tmp_path, field):
    config = {"model_type": "bert", "max_position_embeddings": 64, field: "someone/kernel"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(BadBackbone, match=f"asks for {field} 'someone/kernel'"):
        resolve(str(tmp_path))
    folder = tiny_backbone(tmp_path / "whole", "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, field: "sdpa"}))
    assert resolve(str(folder)).max_tokens == 128


@pytest.mark.parametrize(("field", "other"), [("position_embedding_type", "relative_key"), ("is_decoder", True)])
def test_a_backbone_that_lanes_would_compute_wrongly_is_refused(tmp_path, field, other):
    config = {"model_type": "bert", "max_position_embeddings": 64, field: other}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(BadBackbone, match=f"config.json says {field} {other!r}; only"):
        resolve(str(tmp_path))


def test_an_encoder_of_other_classes_than_the_librarys_own_is_refused(tmp_path):
    (tmp_path / "modules.json").write_text('[{"type": "sentence_transformers.models.Pooling"}]')
    refuse_foreign_modules(tmp_path)
    for text in ('[{"type": "mine.Module"}]', "[{}]", "{", '[{"type": "sentence_transformersx.models.Pooling"}]'):
        (tmp_path / "modules.json").write_text(text)
        with pytest.raises(BadBackbone, match=r"modules\.json: "):
            refuse_foreign_modules(tmp_path)
    (tmp_path / "modules.json").write_text('[{"type": "mine.Module"}]')
    with pytest.raises(BadBackbone, match="not the library's own"):
        _ = Sentences(tmp_path, ANY_DEVICE).model
