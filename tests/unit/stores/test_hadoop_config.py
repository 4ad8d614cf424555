"""Name services in the configuration of Hadoop."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.core.errors import UsageError
from rowfall.stores import hadoop_config


def write(folder: Path, **settings: str) -> None:
    named = "".join(
        f"<property><name> {name.replace('__', '.').replace('_', '-')}</name>"
        f"<value>{value} </value></property>"
        for name, value in settings.items()
    )
    (folder / "hdfs-site.xml").write_text(f"<configuration>{named}</configuration>")


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    return tmp_path


def test_the_name_nodes_of_a_service(conf: Path) -> None:
    write(
        conf,
        dfs__ha__namenodes__lake="a, b",
        dfs__namenode__rpc_address__lake__a="one:9000",
        dfs__namenode__http_address__lake__a="0.0.0.0:50070",
        dfs__namenode__rpc_address__lake__b="two",
    )
    assert hadoop_config.name_nodes("lake") == (("one", 9000, 50070), ("two", 8020, 9870))
    assert hadoop_config.name_nodes("sea") == ()


def test_what_cannot_be_read_is_said(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hadoop_config.name_nodes("lake") == ()
    for address in ("", "one:port"):
        write(conf, dfs__ha__namenodes__lake="a", dfs__namenode__rpc_address__lake__a=address)
        with pytest.raises(UsageError, match=r"no address of the name node lake\.a") as refused:
            hadoop_config.name_nodes("lake")
        assert "dfs.namenode.rpc-address.lake.a" in (refused.value.hint or "")
    (conf / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(UsageError, match=r"cannot read .*hdfs-site.xml"):
        hadoop_config.name_nodes("lake")
    # HADOOP_CONF_DIR goes before the folder of the installation.
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.setenv("HADOOP_HOME", str(conf / "hadoop"))
    (conf / "hadoop/etc/hadoop").mkdir(parents=True)
    write(conf / "hadoop/etc/hadoop", dfs__ha__namenodes__lake="a",
          dfs__namenode__rpc_address__lake__a="three:1")  # fmt: skip
    assert hadoop_config.name_nodes("lake") == (("three", 1, 9870),)
