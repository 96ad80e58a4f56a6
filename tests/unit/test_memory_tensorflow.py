"""TensorFlow's own memory: when it is not asked, and what is said when a private name is gone."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

from jupyter_placement.memory.tensorflow_memory import TensorFlowChanged, TensorFlowReader, eager_context

MODULE = "tensorflow.python.eager.context"


@pytest.fixture
def context_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A TensorFlow that is imported and not started, without TensorFlow."""
    module = ModuleType(MODULE)
    module.__spec__ = ModuleSpec(MODULE, None)
    tensorflow = ModuleType("tensorflow")
    vars(tensorflow)["__version__"] = "2.99.0"
    vars(module)["context_safe"] = lambda: None
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


def test_nothing_before_tensorflow_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    assert TensorFlowReader().read(0.0) == []


def test_nothing_before_tensorflow_has_started(context_module: ModuleType) -> None:
    assert eager_context() is None
    vars(context_module)["context_safe"] = lambda: SimpleNamespace(_initialized=False)
    assert eager_context() is None


def test_nothing_while_another_thread_imports_tensorflow(context_module: ModuleType) -> None:
    vars(context_module)["context_safe"] = lambda: pytest.fail("asked a module that is half imported")
    vars(context_module.__spec__)["_initializing"] = True
    assert eager_context() is None


@pytest.mark.parametrize("gone", ["context_safe", "_initialized"])
def test_a_private_name_that_is_gone(context_module: ModuleType, gone: str) -> None:
    if gone == "context_safe":
        del vars(context_module)["context_safe"]
    else:
        vars(context_module)["context_safe"] = lambda: SimpleNamespace()
    with pytest.raises(TensorFlowChanged, match=rf"TensorFlow 2\.99\.0 does not tell .*{gone}.*2\.16 to 2\.21 do"):
        TensorFlowReader().read(0.0)
