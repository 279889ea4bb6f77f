"""The value of the chart that turns answers off."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.chart import Helm
from support.control_plane.fixtures import need_control_plane

pytestmark = pytest.mark.once("makes no scheduler")


@pytest.mark.parametrize("answers", [True, False])
def test_value_of_the_chart_turns_answers_off(answers: bool, tmp_path: Path) -> None:
    need_control_plane("helm")
    objects = Helm(tmp_path).template(values={"answers": answers})
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert ("--no-answers" in container["args"]) is not answers
