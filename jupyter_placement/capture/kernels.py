"""TensorFlow's registry of kernels, read into plain data."""

from __future__ import annotations

import difflib
from html import escape
from typing import Any

from jupyter_placement.kernel_table import KernelRow


class Kernels:
    """The kernels of one operation type.

    Attributes
    ----------
    op : str
        Operation type.
    rows : list of dict
        One for each set of kernels that differ in the type of one attribute only: ``device``, ``types`` by attribute,
        ``host`` (arguments that live in host memory), ``priority`` and ``label``.
    note : str
        What this TensorFlow cannot tell, or ``""``.
    """

    def __init__(self, op: str, rows: list[KernelRow], note: str = "") -> None:
        self.op, self.rows, self.note = op, rows, note

    def _table(self) -> list[tuple[str, ...]]:
        return [
            (
                row["device"] if row["device"] != "DEFAULT" else "any other",
                "; ".join(f"{name}: {', '.join(types)}" for name, types in sorted(row["types"].items())) or "any",
                ", ".join(row["host"]) or "-",
                str(row["priority"]),
                row["label"] or "-",
            )
            for row in self.rows
        ]

    def __repr__(self) -> str:
        head = ("device", "types", "in host memory", "priority", "label")
        lines = [head, *self._table()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([f"Kernels of {self.op}", *text, *([self.note] if self.note else [])])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("device", "types", "in host memory", "priority", "label"))
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in self._table())
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return f"<table><caption>Kernels of {escape(self.op)}</caption><tr>{head}</tr>{body}</table>{note}"


def kernels(op: str) -> Kernels:
    """Return the kernels of an operation type, from the running TensorFlow's registry.

    Parameters
    ----------
    op : str
        Operation type, for example ``"AddV2"``.

    Raises
    ------
    ValueError
        When TensorFlow has no operation of that type.
    """
    if not isinstance(op, str):
        raise ValueError(f"kernels needs the name of an operation type, such as 'AddV2', not {op!r}")
    import tensorflow as tf

    from jupyter_placement.capture.private import private_tensorflow

    if private_tensorflow().op_defs.get(op) is None:
        known = {name.casefold(): name for name in dir(tf.raw_ops) if not name.startswith("_")}
        near = [known[name] for name in difflib.get_close_matches(op.casefold(), known, n=3, cutoff=0.7)]
        hint = f"did you mean {' or '.join(near)}?" if near else "types are written as MatMul, AddV2."
        raise ValueError(f"TensorFlow {tf.__version__} has no operation type {op!r}: {hint}")
    return Kernels(op, kernel_rows(op) or [], no_gpu_kernels_note())


def no_gpu_kernels_note() -> str:
    """Say that this TensorFlow was built without GPU kernels, if it was."""
    import tensorflow as tf

    if tf.test.is_built_with_cuda() or tf.test.is_built_with_rocm():
        return ""
    return (
        "GPU kernels are not in this package: this TensorFlow is built for CPUs only (tensorflow-cpu, or a platform "
        "without CUDA). The tensorflow package for Linux has them."
    )


def kernel_rows(op: str) -> list[KernelRow] | None:
    """Return the registered kernels of an operation type; ``None`` for one that has none, such as a function.

    Kernels that differ in the type of one attribute only are told as one.
    """
    import tensorflow as tf
    from tensorflow.python.framework import kernels as registry

    names: dict[int, str] = {}
    rows: list[tuple[Any, ...]] = []
    for kernel in registry.get_registered_kernels_for_op(op).kernel:
        types = {}
        for constraint in kernel.constraint:
            allowed = constraint.allowed_values.list.type
            for number in allowed:
                if number not in names:
                    names[number] = tf.dtypes.as_dtype(number).name
            if allowed:
                types[constraint.name] = frozenset(names[number] for number in allowed)
        rows.append((kernel.device_type, tuple(kernel.host_memory_arg), kernel.priority, kernel.label, types))
    for attribute in sorted({name for row in rows for name in row[4]}):
        merged: dict[Any, tuple[Any, ...]] = {}
        for device, host, priority, label, types in rows:
            others = frozenset((name, kinds) for name, kinds in types.items() if name != attribute)
            key = (device, host, priority, label, others, attribute in types)
            known = merged.get(key)
            if known is not None and attribute in types:
                types = {**types, attribute: types[attribute] | known[4][attribute]}
            merged[key] = (device, host, priority, label, types)
        rows = list(merged.values())
    order = {"CPU": 0, "GPU": 1, "DEFAULT": 2}
    found: list[KernelRow] = [
        {
            "device": device,
            "types": {name: sorted(kinds) for name, kinds in types.items()},
            "host": list(host),
            "priority": priority,
            "label": label,
        }
        for device, host, priority, label, types in rows
    ]
    return sorted(found, key=lambda row: (order.get(row["device"], 3), row["device"], str(row["types"]))) or None
