"""Publishing: shown first, forbidden by some licences, and never without a flag and a token."""

import hashlib
from types import SimpleNamespace
from typing import ClassVar

import pytest

from harness.sharing import outgoing
from harness.sharing.outgoing import MayNotPublish, caution, check_licence, leaving, upload
from tasks.errors import BadInput
from tasks.registry import Registry


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "README.md").write_text("card")
    (tmp_path / "out" / "adapter.safetensors").write_bytes(b"weights")
    return tmp_path / "out"


class FakeHub:
    """Takes what it is given, or refuses it with a message that holds the token."""

    asked: ClassVar[list[tuple[str, object]]] = []
    refuses = False
    is_private = True

    def __init__(self, token):
        self.token = token

    def create_repo(self, name, *, private, exist_ok):
        if self.refuses:
            raise OSError(f"no rights for {self.token}")
        self.asked.append((name, private))
        return f"https://hub.example/{name}"

    def repo_info(self, name):
        return SimpleNamespace(private=self.is_private)

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        self.asked.append((repo_id, sorted(path.name for path in folder_path.iterdir())))


@pytest.fixture
def hub(monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "HfApi", FakeHub)
    monkeypatch.setattr(FakeHub, "asked", [])
    monkeypatch.setenv(outgoing.TOKEN, "secret-token")
    return FakeHub


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ({"licence": "MIT", "private": True}, "private"),
        ({"licence": "on request; not to be passed on"}, "not to be passed on"),
        ({"licence": "unstated; withdrawn from publication"}, "withdrawn"),
    ],
)
def test_what_a_licence_forbids_is_refused_with_the_reason(task, why):
    with pytest.raises(MayNotPublish, match=rf"task mine may not be published: .*{why}"):
        check_licence("mine", task)


def test_every_built_in_task_is_forbidden_cautioned_or_free():
    free = {}
    for name, task in Registry.load().tasks.items():
        facts = {"licence": task.dataset.licence, "private": task.dataset.private}
        try:
            check_licence(name, facts)
        except MayNotPublish:
            continue
        free[name] = caution(facts)
    assert "unstated" in free["news_empathy"]
    assert "limits their use" in free["empdial_emo"]
    assert "condolence" not in free
    assert "twittemp" not in free


@pytest.mark.parametrize("licence", ["CC BY-NC 4.0", "CC-BY-NC-4.0", "cc_by_nc", "CC Attribution-NonCommercial 4.0"])
def test_a_licence_against_commerce_is_cautioned_however_it_is_written(licence):
    assert "limits their use" in caution({"licence": licence})


def test_everything_that_would_leave_is_listed_with_its_hash(folder):
    assert [(one.name, one.bytes) for one in leaving(folder)] == [("README.md", 4), ("adapter.safetensors", 7)]
    assert leaving(folder)[1].sha256 == hashlib.sha256(b"weights").hexdigest()


def test_an_upload_needs_a_token_and_says_where_it_went(folder, hub, monkeypatch):
    assert upload(folder, "me/mine", private=True) == "https://hub.example/me/mine"
    assert hub.asked == [("me/mine", True), ("me/mine", ["README.md", "adapter.safetensors"])]
    monkeypatch.delenv(outgoing.TOKEN)
    with pytest.raises(BadInput, match=outgoing.TOKEN):
        upload(folder, "me/mine", private=True)


def test_nothing_private_is_put_into_a_repository_that_is_public_already(folder, hub, monkeypatch):
    monkeypatch.setattr(hub, "is_private", False)
    with pytest.raises(BadInput, match="me/mine is there already and public; say --public"):
        upload(folder, "me/mine", private=True)
    assert hub.asked == [("me/mine", True)]
    assert upload(folder, "me/mine", private=False) == "https://hub.example/me/mine"


def test_a_refusal_of_the_hub_never_shows_the_token(folder, hub, monkeypatch):
    monkeypatch.setattr(hub, "refuses", True)
    with pytest.raises(BadInput, match="did not take it") as problem:
        upload(folder, "me/mine", private=True)
    assert "secret-token" not in str(problem.value)
