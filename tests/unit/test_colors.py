"""Devices are told apart."""

from __future__ import annotations

from itertools import combinations

from jupyter_placement.colors import GREYS, PALETTE, contrast, device_colors
from tests.unit.placements import CPU0, CPU1, GPU0


def names(tasks: int, gpus: int, cpus: int = 1) -> list[str]:
    kinds = [f"CPU:{at}" for at in range(cpus)] + [f"GPU:{at}" for at in range(gpus)]
    return [f"/job:worker/replica:0/task:{task}/device:{kind}" for task in range(tasks) for kind in kinds]


def test_no_two_of_four_tasks_with_eight_cards_look_alike() -> None:
    styles = device_colors(names(tasks=4, gpus=8))
    assert len(styles) == 36
    assert len({(style.fill, style.pattern) for style in styles.values()}) == 36
    assert len({style.label for style in styles.values()}) == 36


def test_eight_cards_have_eight_colours_and_eight_patterns() -> None:
    cards = [style for name, style in device_colors(names(1, 8)).items() if "GPU" in name]
    assert len({style.fill for style in cards}) == 8
    assert len({style.pattern for style in cards}) == 8


def test_the_first_cpu_is_grey_and_further_logical_ones_are_not() -> None:
    fills = [style.fill for style in device_colors(names(1, 0, cpus=4)).values()]
    assert fills[0] in GREYS
    assert fills[1:] == list(PALETTE[:3])


def test_text_reads_on_every_colour() -> None:
    for style in device_colors(names(4, 8)).values():
        assert contrast(style.fill, style.text) >= 4.5


def test_every_colour_is_seen_on_white_and_on_black_with_its_frame() -> None:
    # Yellow on white stays faint: every area has a frame, and its label.
    for one, other in combinations(PALETTE, 2):
        assert one != other
    for fill in (*PALETTE, *GREYS):
        assert max(contrast(fill, "#FFFFFF"), contrast(fill, "#111111")) >= 3


def test_the_order_of_devices_changes_nothing() -> None:
    assert device_colors([GPU0, CPU1, CPU0]) == device_colors([CPU0, GPU0, CPU1])
    assert [style.label for style in device_colors([GPU0, CPU1, CPU0]).values()] == ["CPU:0", "CPU:1", "GPU:0"]
