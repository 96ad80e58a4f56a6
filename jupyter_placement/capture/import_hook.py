"""Call back when TensorFlow has been imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class TensorFlowImport(importlib.abc.MetaPathFinder):
    """Call a function once, right after the import of TensorFlow; at once if it is imported already.

    What a cell does before it imports TensorFlow (environment variables, say) must come first, so TensorFlow is not
    imported on the cell's behalf.

    Parameters
    ----------
    imported : callable
        Called without arguments.
    """

    def __init__(self, imported: Callable[[], None]) -> None:
        self._imported = imported
        self._finding = False

    def install(self) -> None:
        """Begin to wait for the import."""
        if getattr(sys.modules.get("tensorflow"), "__version__", None) is not None:
            self._imported()
        else:
            sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """Wait no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find TensorFlow as Python does, with a loader that calls back."""
        if fullname != "tensorflow" or self._finding:
            return None
        self._finding = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._finding = False
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, self)
        return spec

    def loaded(self) -> None:
        """Take note that TensorFlow is there."""
        if self in sys.meta_path:
            self.uninstall()
            self._imported()


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, hook: TensorFlowImport) -> None:
        self._loader = loader
        self._hook = hook

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._hook.loaded()
