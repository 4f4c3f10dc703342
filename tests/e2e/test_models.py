"""From the model config file to model ops, with a broker that comes and goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodecast.messages import ModelOp, ModelSet
from tests.support.fleet import Agent, Fleet, Look, end_state
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

Step = tuple[str, str, str]
"""(load or unload, name, storage URI)"""


@pytest.fixture
def fleet(make_fleet: type[Fleet]) -> Fleet:
    """One node, `edge0`, and a broker that runs; there is no bridge at all."""
    fleet = make_fleet("edge0")
    fleet.broker.start()
    return fleet


@pytest.fixture
def agent(fleet: Fleet) -> Agent:
    return fleet.agents["edge0"]


def _settled(look: Look, models: dict[str, str]) -> ModelSet:
    """The ModelSet, once it says that exactly these models, by storage URI, are requested."""

    def there() -> ModelSet | None:
        found = look.model_set("edge0")
        if found is None:
            return None
        said = {each.name: (each.spec["storageUri"], each.state) for each in found.models}
        return found if said == {name: (uri, "Requested") for name, uri in models.items()} else None

    return eventually(there, 20, what=f"the ModelSet says {models}")


def _steps(ops: list[ModelOp]) -> list[Step]:
    return [(op.op, op.model, op.spec["storageUri"]) for op in ops]


def test_o3_two_changes_and_a_restart_without_a_broker_end_in_the_ops_of_the_last_state(
    fleet: Fleet, agent: Agent
) -> None:
    agent.models({"same": "s3://same", "changed": "s3://one", "gone": "s3://gone"})
    agent.start()
    with fleet.look() as look:
        before = _settled(look, {"same": "s3://same", "changed": "s3://one", "gone": "s3://gone"})
    fleet.broker.stop()
    mark = len(agent.log)
    agent.models({"same": "s3://same", "changed": "s3://two", "brief": "s3://brief"})
    agent.says("model config read", since=mark)
    agent.models({"same": "s3://same", "changed": "s3://three", "new": "s3://new"})
    agent.stop()
    agent.start()
    agent.says("model config read", since=agent.started_at)
    agent.freeze()
    fleet.broker.start()
    with fleet.look() as look:
        agent.thaw()
        after = _settled(look, {"same": "s3://same", "changed": "s3://three", "new": "s3://new"})
        ops = look.ops("edge0")

    assert sorted(_steps(ops)) == sorted(
        [
            ("unload", "changed", "s3://one"),
            ("load", "changed", "s3://three"),
            ("unload", "gone", "s3://gone"),
            ("load", "new", "s3://new"),
        ]
    )
    changed = [op.op for op in ops if op.model == "changed"]
    assert changed == ["unload", "load"]
    assert [op.seq for op in ops] == list(range(before.seq + 1, after.seq + 1))
    assert {op.store for op in ops} == {before.store} == {after.store}


def test_a_restart_without_a_change_gives_no_op(fleet: Fleet, agent: Agent) -> None:
    agent.models({"one": "s3://one"})
    agent.start()
    with fleet.look() as look:
        before = _settled(look, {"one": "s3://one"})
        assert [op.on_startup for op in look.ops("edge0")] == [True]
    agent.stop()
    mark = len(agent.log)
    agent.start()
    with fleet.look() as look:
        eventually(lambda: look.online("node/edge0/state"), what="the agent is there again")
        agent.models({"one": "s3://one", "two": "s3://two"})
        after = _settled(look, {"one": "s3://one", "two": "s3://two"})
        assert _steps(look.ops("edge0")) == [("load", "two", "s3://two")]
    assert after.seq == before.seq + 1
    assert agent.logged("model ops sent", mark) == 1


def test_five_hundred_models_at_a_start_are_all_loaded(fleet: Fleet, agent: Agent) -> None:
    models = {f"model-{number:03}": f"s3://bucket/{number}" for number in range(500)}
    agent.models(models)
    with fleet.look() as look:
        agent.start()
        assert _settled(look, models).seq == 500
        ops = look.ops("edge0")
        assert [op.seq for op in ops] == list(range(1, 501))
        end = end_state(ops)
        assert {name: spec["storageUri"] for name, spec in end.items()} == models
        agent.models({"model-007": "s3://bucket/7"})
        assert _settled(look, {"model-007": "s3://bucket/7"}).seq == 999


def _config(**models: str) -> str:
    return json.dumps(
        [{"modelName": name, "modelSpec": {"storageUri": uri}} for name, uri in models.items()]
    )


def _mount(directory: Path, version: int, text: str) -> None:
    """Write a version as the kubelet does (its atomic writer), the first or a later one."""
    inner = directory / f"..version_{version}"
    inner.mkdir()
    (inner / "models.json").write_text(text)
    link = directory / "..data_tmp"
    link.symlink_to(inner.name)
    link.replace(directory / "..data")
    if not (directory / "models.json").is_symlink():
        (directory / "models.json").symlink_to("..data/models.json")
    for old in directory.glob("..version_*"):
        if old != inner:
            (old / "models.json").unlink()
            old.rmdir()


def test_f1_every_swap_of_a_configmap_mount_acts(fleet: Fleet, agent: Agent) -> None:
    agent.settings["model_config_poll"] = 600  # what is seen here is seen by its events
    _mount(agent.config.parent, 0, _config(a="s3://0"))
    with fleet.look() as look:
        agent.start()
        _settled(look, {"a": "s3://0"})
        for version in range(1, 4):
            _mount(agent.config.parent, version, _config(a=f"s3://{version}"))
            assert _settled(look, {"a": f"s3://{version}"}).seq == 1 + 2 * version
        assert _steps(look.ops("edge0"))[-2:] == [
            ("unload", "a", "s3://2"),
            ("load", "a", "s3://3"),
        ]


def test_o1_order_white_space_and_spelling_give_no_op(fleet: Fleet, agent: Agent) -> None:
    entries = [
        {"modelName": f"m{n}", "modelSpec": {"storageUri": f"s3://{n}", "memory": "1Gi"}}
        for n in range(50)
    ]
    agent.write_config(json.dumps(entries))
    with fleet.look() as look:
        agent.start()
        _settled(look, {f"m{n}": f"s3://{n}" for n in range(50)})
        respelt = [
            {"modelName": each["modelName"], "modelSpec": {**each["modelSpec"], "memory": "1024Mi"}}
            for each in reversed(entries)
        ]
        new = {"modelName": "new", "modelSpec": {"storageUri": "s3://new"}}
        agent.write_config(json.dumps([new, *respelt], indent=4))
        models = {f"m{n}": f"s3://{n}" for n in range(50)} | {"new": "s3://new"}
        assert _settled(look, models).seq == 51
        assert _steps(look.ops("edge0"))[50:] == [("load", "new", "s3://new")]


def test_o4_a_bad_entry_keeps_what_its_model_had_and_stops_no_other(
    fleet: Fleet, agent: Agent
) -> None:
    agent.models({"had": "s3://had", "other": "s3://other"})
    with fleet.look() as look:
        agent.start()
        _settled(look, {"had": "s3://had", "other": "s3://other"})
        entries = [
            {"modelName": "had", "modelSpec": {"storageUri": 5}},
            {"modelName": "new", "modelSpec": {"storageUri": "s3://new"}},
            {"modelSpec": {"storageUri": "s3://nobody"}},
            {
                "modelName": "other",
                "modelSpec": {"storageUri": "s3://other", "framework": "onnx"},
            },
            {"modelName": "none"},
        ]
        agent.write_config(json.dumps(entries))
        _settled(look, {"had": "s3://had", "other": "s3://other", "new": "s3://new"})
        said = look.model_set("edge0")
        assert said is not None
        assert all(place in said.config.message for place in ("[0]", "[2]", "[4]"))
        agent.write_config("[{")
        eventually(lambda: (m := look.model_set("edge0")) and m.config.state == "invalid")
        agent.models({"had": "s3://fixed", "other": "s3://other"})
        _settled(look, {"had": "s3://fixed", "other": "s3://other"})
        assert sorted(_steps(look.ops("edge0"))[2:]) == sorted(
            [
                ("load", "new", "s3://new"),
                ("unload", "new", "s3://new"),
                ("unload", "had", "s3://had"),
                ("load", "had", "s3://fixed"),
            ]
        )
