"""Rules in plain sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyter_placement.devices import device_type, parse_device
from jupyter_placement.explain.rule import Rule
from jupyter_placement.explain.rules import Rules
from jupyter_placement.summary import plural, some_names

_LINKS = {
    "resource": "it takes the resource of {0}",
    "reference": "it takes a reference to the variable {0}",
    "dataset": "it is a dataset made of {0}",
    "loc:@": "it asks to be with {0} (loc:@)",
}


def sentence(rules: Rules, node: str, rule: Rule, facts: dict[str, Any]) -> str:
    """Say which rule applied to a node and what it rests on."""
    data = rules.graph.nodes[node]
    short = rules.short
    op = f" ({data['op']})" if data["op"] else ""
    where = f"is on {short(data['device'])}" if data["device"] is not None else "was never placed"
    variable = rules.variable(node)
    if variable:
        op = f" ({data['op']}, variable {variable})"
    text = f"{data['name']}{op} {where}: {_WHY[rule.name](rules, node, data, facts)}"
    if data["memory"] == "host" and data["device"] is not None and device_type(data["device"]) != "CPU":
        text += (
            f" What it makes is in host memory all the same: its kernel for {device_type(data['device'])} wants that."
        )
    other = facts.get("otherwise")
    if other is not None:
        what = {"history": "In a new session", "colocation": "Without that colocation"}.get(facts["without"], "")
        if not what:
            decides = rule.facts.get("because") == "request"
            what = "Without the request of that operation" if decides else "Without that request"
            if facts["shared"]:
                others = plural(len(facts["shared"]), "operation")
                what += f", which {others} beside {'shares' if len(facts['shared']) == 1 else 'share'},"
        text += f" {what} it would {'still ' if other == data['device'] else ''}be on {short(other)}."
    return text


def remedy(rules: Rules, rule: Rule) -> str:
    """Say what to change where a node is not where the user asked for."""
    facts = rule.facts
    decider = rules.called(facts["decider"]) if "decider" in facts else ""
    if "sticky" in (rule.name, facts.get("because")):
        return "Run the whole graph in a new session, or ask for a device before the first run."
    if rule.name == "no_such_device":
        return (
            f"Correct {facts['requested']}, or see why TensorFlow has no such device: "
            "tf.config.list_physical_devices()."
        )
    if rule.name == "no_kernel":
        kind = device_type(facts["requested"]) or "that device"
        if not facts.get("takes"):
            return f"Use an operation with a kernel for {kind} (jupyter_placement.kernels), or pin it elsewhere."
        return f"Cast to a type with a kernel for {kind} (jupyter_placement.kernels), or pin it elsewhere."
    if rule.name == "overridden":
        if facts["because"] == "conflict":
            return f"Ask for the same device for it and {decider}."
        if decider.startswith("variable ") and facts["because"] == "kernels":
            return f"Make {decider} of a type that has kernels for other devices (float32, int64), or drop the request."
        if decider.startswith("variable "):
            return f"Make {decider} on the device that you want, or drop the request."
        if facts["because"] == "kernels":
            return f"Take {decider} out of the group, or ask for a device that has a kernel for it."
        if facts["because"] == "argument":
            return f"Make what is given for {decider} on the device that you want, or drop the request."
        return f"Put {decider} on the device that you want, or drop the request."
    return ""


def _pinned(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return f"it asked for {data['requested']}."


def _pinned_partly(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    spec = parse_device(data["requested"])
    missing = "number" if spec is not None and spec.type is not None else "type and number"
    return f"it asked for {data['requested']}, which leaves the device's {missing} open; TensorFlow took the first."


def _constant(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return "Python made this value there: that device was the one of tf.device around it."


def _colocated(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    names = rules.graph.nodes
    decider = facts["decider"]
    links = [_LINKS[kind].format(rules.called(first)) for first, kind in facts["links"] if first in names]
    why = f"{' and '.join(dict.fromkeys(links[:2]))}, so" if links else "other operations must be with it, so"
    text = f"{why} they must be on one device ({plural(facts['size'], 'operation')} in all)."
    if decider == node:
        return text
    name = rules.called(decider)
    start = name[0].upper() + name[1:] if name.startswith(("variable ", "argument ")) else name
    asked = names[decider]["requested"] if decider in names else ""
    return (
        text
        + {
            "sticky": f" {start} decides: an earlier run of this session placed it, and it has a state.",
            "argument": f" {start} decides: the function is given it, so it is there already.",
            "request": f" {start} decides: it asked for {asked}.",
            "kernels": f" {start} decides: it has no kernel for another device type.",
            "conflict": " Their requests contradict each other, so TensorFlow dropped what differs.",
            "unavailable": f" {start} asked for {asked}, which cannot be.",
            "first": f" It begins with {name}, and nothing in it asks for a device.",
        }[facts["because"]]
    )


def _overridden(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return f"it asked for {data['requested']}, but {_colocated(rules, node, data, facts)}"


def _no_kernel(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    asked = device_type(data["requested"]) or "that device"
    kinds = ", ".join(facts["kinds"]) or "no device here"
    text = (
        f"it asked for {data['requested']}, but {data['op']}{with_types(facts)} has no kernel for {asked}; it has for"
    )
    text += f" {kinds}."
    for attribute, taken in facts.get("takes", {}).items():
        text += f" For {asked} there are kernels with {attribute} {some_names(taken, 6)}."
    return text


def with_types(facts: dict[str, Any]) -> str:
    """Name the types of the attributes that keep an operation off a device type, or all there are."""
    types = facts.get("types", {})
    keys = [key for key in facts.get("takes", {}) if key in types] or list(types)
    shown = [value if isinstance(value, str) else ", ".join(value) for value in (types[key] for key in keys)]
    return f" with {', '.join(dict.fromkeys(shown))}" if shown else ""


def _no_such_device(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    there = some_names([rules.short(name) for name in rules.placement.device_names()])
    return f"it asked for {data['requested']}, and there is no such device. TensorFlow had {there}."


def _default(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    kind = device_type(data["device"])
    text = (
        f"it asked for no device, and this is the first {kind}, the device type of highest priority that has a kernel"
    )
    known = [one for one in rules.placer(node).device_kinds if one not in facts.get("kinds", [])]
    return text + (f" ({', '.join(known)} has none for these types)." if known else ".")


def _call_device(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return "it asked for no device, and its function was called under tf.device with this one."


def _generator(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    consumers = plural(facts["consumers"], "consumer")
    return f"it takes no tensor, and TensorFlow puts such operations with their consumers: {consumers}, all there."


def _metadata(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return f"it reads only the shape of {rules.graph.nodes[facts['beside']]['name']}, so TensorFlow puts it there."


def _identity(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    name = rules.graph.nodes[facts["beside"]]["name"]
    return f"it only hands {name} on, and both ends of it ask for the same device: TensorFlow puts it beside {name}."


def _argument(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    if "of" in facts:
        return f"it hands {rules.called(facts['of'])} on, which the function is given, and stays with it."
    return "it is an argument of the function: it stays where its value was given."


def _optimized(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return "TensorFlow's graph optimizer made it, after placing, of operations that were placed there."


def _result(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    if "requested" in facts:
        name = rules.graph.nodes[facts["beside"]]["name"]
        return f"it is a result of the function, and {name}, which makes it, asked for {facts['requested']}."
    return (
        f"it is a result of the function, and stays with {rules.graph.nodes[facts['beside']]['name']}, which makes it."
    )


def _control_group(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    signals = plural(facts["producers"], "control edge")
    return f"TensorFlow added it to send one signal to another device in place of {signals}, on the senders' device."


def _data_function(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return "tf.data runs it, on the device of the dataset's iterator; the placer does not see it."


def _function_call(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return "its operations are placed one by one (see its own graph); this is where its first result is."


def _existing(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return "this value was there before the recording began."


def _small_on_host(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return "all its inputs are small integers in host memory, so TensorFlow runs it on the CPU."


def _compiled(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    inside = plural(facts["operations"], "operation")
    return f"XLA compiles the function as a whole, {inside} in one; they run where the call runs."


def _sticky(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return "an earlier run of this session placed it there, and an operation with a state stays where it is."


def _never_placed(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    return "TensorFlow took it out of the graph before it placed it, or did not tell."


def _unknown(rules: Rules, node: str, data: Any, facts: dict[str, Any]) -> str:
    if not rules.kind(node):
        return "the log alone does not tell why."
    return "none of the placer's rules that are known here explains this device."


_WHY: dict[str, Callable[[Rules, str, Any, dict[str, Any]], str]] = {
    "pinned": _pinned,
    "pinned_partly": _pinned_partly,
    "constant": _constant,
    "colocated": _colocated,
    "overridden": _overridden,
    "no_kernel": _no_kernel,
    "no_such_device": _no_such_device,
    "default": _default,
    "call_device": _call_device,
    "generator": _generator,
    "metadata": _metadata,
    "identity": _identity,
    "argument": _argument,
    "result": _result,
    "control_group": _control_group,
    "optimized": _optimized,
    "data_function": _data_function,
    "function_call": _function_call,
    "existing": _existing,
    "small_on_host": _small_on_host,
    "compiled": _compiled,
    "sticky": _sticky,
    "never_placed": _never_placed,
    "unknown": _unknown,
}
